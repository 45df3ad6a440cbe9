package png

import "github.com/pipefs/pipefs/transcode"

// The filters of a row.
const (
	filterNone = iota
	filterSub
	filterUp
	filterAverage
	filterPaeth
	filters
)

// unfilter restores a row in place from the one above; bpp is the distance in
// bytes to the value on the left.
func unfilter(filter byte, row, above []byte, bpp int) error {
	above = above[:len(row)]
	switch filter {
	case filterNone:
	case filterSub:
		for i := bpp; i < len(row); i++ {
			row[i] += row[i-bpp]
		}
	case filterUp:
		for i, up := range above {
			row[i] += up
		}
	case filterAverage:
		for i := range min(bpp, len(row)) {
			row[i] += above[i] / 2
		}
		for i := bpp; i < len(row); i++ {
			row[i] += byte((int(row[i-bpp]) + int(above[i])) / 2)
		}
	case filterPaeth:
		unpaeth(row, above, bpp)
	default:
		return transcode.Errorf(transcode.ErrBad, "PNG: filter %d", filter)
	}
	return nil
}

// unpaeth undoes Paeth's predictor, channel by channel, so that the pixels on
// the left and above left stay in registers.
func unpaeth(row, above []byte, bpp int) {
	for c := range min(bpp, len(row)) {
		left, corner := 0, 0
		for i := c; i < len(row) && i < len(above); i += bpp {
			up := int(above[i])
			left = int(row[i]+byte(paeth(left, up, corner))) & 255
			row[i] = byte(left)
			corner = up
		}
	}
}

// paeth is the neighbour that is nearest to left + up - corner.
func paeth(left, up, corner int) int {
	toLeft, toUp := up-corner, left-corner
	toCorner := abs(toLeft + toUp)
	toLeft, toUp = abs(toLeft), abs(toUp)
	switch {
	case toLeft <= toUp && toLeft <= toCorner:
		return left
	case toUp <= toCorner:
		return up
	}
	return corner
}

func abs(x int) int {
	sign := x >> 63
	return (x ^ sign) - sign
}

// filtered writes the row to dst, gone through a filter, and returns the sum of
// the results as distances from 0: the usual guess at how well they compress.
func filtered(dst, row, above []byte, filter byte, bpp int) int {
	dst, above = dst[:len(row)], above[:len(row)]
	switch filter {
	case filterNone:
		copy(dst, row)
	case filterSub:
		copy(dst, row[:min(bpp, len(row))])
		for i := bpp; i < len(row); i++ {
			dst[i] = row[i] - row[i-bpp]
		}
	case filterUp:
		for i := range row {
			dst[i] = row[i] - above[i]
		}
	case filterAverage:
		for i := range row {
			left := 0
			if i >= bpp {
				left = int(row[i-bpp])
			}
			dst[i] = row[i] - byte((left+int(above[i]))/2)
		}
	case filterPaeth:
		for i := range row {
			left, corner := 0, 0
			if i >= bpp {
				left, corner = int(row[i-bpp]), int(above[i-bpp])
			}
			dst[i] = row[i] - byte(paeth(left, int(above[i]), corner))
		}
	}
	sum := 0
	for _, v := range dst {
		sum += abs(int(int8(v)))
	}
	return sum
}
