package pillow

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/pipefs/pipefs/transcode"
)

// names are Pillow's modes where they are not ours: it holds 16 bits of grey in
// 32, or as I;16 or I;16B.
func sameMode(theirs string, ours transcode.Mode) bool {
	return theirs == ours.String() || ours == transcode.ModeI16 && (theirs == "I" || theirs == "I;16B")
}

// Compare returns how the pixels differ from what Pillow sees; "" where they do
// not.
func Compare(a *Array, px *transcode.Pixels) string {
	shape := []int{px.Height, px.Width}
	if c := px.Mode.Channels(); c > 1 {
		shape = append(shape, c)
	}
	switch {
	case a.Error != "":
		return "Pillow says " + a.Error
	case !sameMode(a.Mode, px.Mode):
		return fmt.Sprintf("mode %v, Pillow says %s", px.Mode, a.Mode)
	case !slices.Equal(a.Shape, shape):
		return fmt.Sprintf("shape %v, Pillow says %v", shape, a.Shape)
	case px.Mode == transcode.ModeP && !samePalette(a.Palette, px.Palette):
		return fmt.Sprintf("palette % x…, Pillow says % x…", px.Palette[:min(24, len(px.Palette))], a.Palette[:24])
	}
	if px.Type == transcode.Uint8 {
		if !bytes.Equal(a.Data, px.Pix) {
			return firstDifference(px.Pix, a.Data)
		}
		return ""
	}
	for i, v := range a.Values() {
		if got := int(px.Pix[2*i]) | int(px.Pix[2*i+1])<<8; got != v {
			return fmt.Sprintf("value %d is %d, Pillow says %d", i, got, v)
		}
	}
	return ""
}

// samePalette compares as many colours as we have; the others nobody uses.
func samePalette(theirs, ours []byte) bool {
	return len(ours) <= len(theirs) && bytes.Equal(theirs[:len(ours)], ours)
}

func firstDifference(ours, theirs []byte) string {
	if len(ours) != len(theirs) {
		return fmt.Sprintf("%d bytes, Pillow says %d", len(ours), len(theirs))
	}
	count, first, most := 0, -1, 0
	for i := range ours {
		if d := int(ours[i]) - int(theirs[i]); d != 0 {
			count++
			most = max(most, d, -d)
			if first < 0 {
				first = i
			}
		}
	}
	return fmt.Sprintf("%d of %d values differ, by up to %d; value %d is %d, Pillow says %d",
		count, len(ours), most, first, ours[first], theirs[first])
}
