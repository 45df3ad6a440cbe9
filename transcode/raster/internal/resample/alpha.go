package resample

// premultiply multiplies the colours by the last channel, as Pillow does before it mixes
// pixels.
func premultiply(dst, src []byte, channels int) {
	for i := 0; i+channels <= len(src); i += channels {
		alpha := int(src[i+channels-1])
		for c := range channels - 1 {
			t := int(src[i+c])*alpha + 128
			dst[i+c] = byte((t>>8 + t) >> 8)
		}
		dst[i+channels-1] = byte(alpha)
	}
}

// unpremultiply undoes premultiply in place, as far as rounding lets it.
func unpremultiply(pix []byte, channels int) {
	for i := 0; i+channels <= len(pix); i += channels {
		alpha := int(pix[i+channels-1])
		if alpha == 0 || alpha == 255 {
			continue
		}
		for c := range channels - 1 {
			pix[i+c] = byte(min(255, 255*int(pix[i+c])/alpha))
		}
	}
}
