package turbo

import (
	"strings"

	"github.com/pipefs/pipefs/transcode"
)

// Warning is the text of a problem that libjpeg carried on from.
type Warning string

func (w Warning) Error() string { return string(w) }

// Decode decodes a JPEG of width by height pixels to RGB, or to CMYK for 4
// channels: what libjpeg gives, without gaps between rows. With an error of type
// Warning the pixels are there too. Any other error wraps one of the kinds of
// package transcode; so does that of [Available].
func Decode(src []byte, width, height, channels int) ([]byte, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	format := int32(pixelRGB)
	if channels == 4 {
		format = pixelCMYK
	}
	pix := make([]byte, width*height*channels)
	warning, failure := decompress(pix, src, width, height, channels, format)
	switch {
	case failure != "":
		return nil, transcode.Errorf(failureKind(failure), "JPEG: %s", failure)
	case warning != "":
		return pix, Warning(warning)
	}
	return pix, nil
}

// failureKind classifies an error text of libjpeg.
func failureKind(text string) error {
	for _, part := range []string{"nsupported", "not implemented", "not supported", "not compiled", "more than 500 scans"} {
		if strings.Contains(text, part) {
			return transcode.ErrUnsupported
		}
	}
	if text == "out of memory" || strings.Contains(text, "Insufficient memory") || strings.Contains(text, "Memory allocation") {
		return transcode.ErrInternal
	}
	return transcode.ErrBad
}
