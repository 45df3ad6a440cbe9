package transcode

import (
	"bytes"
	"encoding/binary"
)

// exifOrientation is the TIFF tag of the orientation.
const exifOrientation = 0x0112

// EXIFOrientation returns the orientation, 1 to 8, that a TIFF structure tells;
// 0 where it tells none that EXIF defines.
func EXIFOrientation(exif []byte) uint8 {
	field, order := findOrientation(exif)
	if field == nil {
		return 0
	}
	value := uint32(order.Uint16(field))
	if len(field) == 4 {
		value = order.Uint32(field)
	}
	if value < 1 || value > 8 {
		return 0
	}
	return uint8(value)
}

// EXIFUpright returns exif with an orientation of 1, for a picture to which its
// orientation has been applied. Everything else stays as it is, byte for byte.
func EXIFUpright(exif []byte) []byte {
	exif = bytes.Clone(exif)
	switch field, order := findOrientation(exif); len(field) {
	case 2:
		order.PutUint16(field, 1)
	case 4:
		order.PutUint32(field, 1)
	}
	return exif
}

// findOrientation returns the part of exif that holds the orientation, 2 or 4
// bytes; none where there is no such entry.
func findOrientation(exif []byte) ([]byte, binary.ByteOrder) {
	if len(exif) < 8 {
		return nil, nil
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch string(exif[:4]) {
	case "II*\x00":
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return nil, nil
	}
	ifd := int64(order.Uint32(exif[4:]))
	if ifd+2 > int64(len(exif)) {
		return nil, nil
	}
	entries := exif[ifd+2:]
	for range order.Uint16(exif[ifd:]) {
		if len(entries) < 12 {
			return nil, nil
		}
		if order.Uint16(entries) == exifOrientation {
			// Values of up to four bytes stand in the entry itself, left-justified.
			// EXIF demands SHORT; LONG occurs.
			switch order.Uint16(entries[2:]) {
			case 3:
				return entries[8:10], order
			case 4:
				return entries[8:12], order
			}
			return nil, nil
		}
		entries = entries[12:]
	}
	return nil, nil
}
