package jpeg

import "encoding/binary"

const (
	deltaMatch = 6 // bytes that are worth a copy
	deltaBits  = 12
)

// dictionary returns what a skeleton probably shares: everything in the
// transcoded file that is not entropy-coded data, and the Huffman tables of T.81
// K.3, which most encoders use.
func dictionary(transcoded []byte, lim Limits) ([]byte, error) {
	var w walker
	if err := w.start(transcoded, lim); err != nil {
		return nil, err
	}
	var dict []byte
	for from := 0; ; {
		marker, at, err := w.next()
		if err != nil {
			return nil, err
		}
		if marker == mEOI {
			dict = append(dict, transcoded[from:at+2]...)
			return append(dict, annexKSegments...), nil
		}
		if isLone(marker) {
			continue
		}
		if _, err := w.payload(at); err != nil {
			return nil, err
		}
		if marker == mSOS {
			dict = append(dict, transcoded[from:w.pos]...)
			if from = entropyEnd(transcoded, w.pos); from < 0 {
				return nil, truncated(len(transcoded), "no marker after the data of a scan")
			}
			w.pos = from
		}
	}
}

// annexKSegments are the tables of T.81 K.3 as libjpeg writes them: DHT segments
// for DC 0, AC 0, DC 1 and AC 1.
var annexKSegments = func() (b []byte) {
	dc, ac := annexK()
	for i := range 2 {
		for class, s := range []*huffSpec{&dc[i], &ac[i]} {
			b = append(b, 0xFF, mDHT, 0, byte(19+s.n), byte(class<<4|i))
			b = append(b, s.counts[1:]...)
			b = append(b, s.values[:s.n]...)
		}
	}
	return b
}()

// appendDelta writes data as pieces of the dictionary: again and again a uvarint,
// the number of bytes that follow it as they are, then a uvarint, the number of
// bytes to copy from the dictionary, and where that is not 0 a varint, how far
// its place there is from the end of the copy before.
func appendDelta(b, data, dict []byte) []byte {
	var table [1 << deltaBits]int32
	hash := func(p []byte) uint32 { return binary.LittleEndian.Uint32(p) * 0x9E3779B1 >> (32 - deltaBits) }
	for i := len(dict) - 4; i >= 0; i-- {
		table[hash(dict[i:])] = int32(i + 1)
	}
	literal, next := 0, 0
	for i := 0; i+4 <= len(data); {
		// What follows the copy before is tried first.
		from := next
		n := common(data[i:], dict[min(from, len(dict)):])
		if n < deltaMatch {
			from = int(table[hash(data[i:])]) - 1
			if n = 0; from >= 0 {
				n = common(data[i:], dict[from:])
			}
		}
		if n < deltaMatch {
			i++
			// A byte that was changed leaves the rest in step.
			next++
			continue
		}
		b = binary.AppendUvarint(b, uint64(i-literal))
		b = append(b, data[literal:i]...)
		b = binary.AppendUvarint(b, uint64(n))
		b = appendVarint(b, from-(next-(i-literal)))
		i += n
		literal, next = i, from+n
	}
	return appendLiteral(b, data[literal:])
}

// appendLiteral writes the end of a delta: data as it is.
func appendLiteral(b, data []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(data)))
	b = append(b, data...)
	return binary.AppendUvarint(b, 0)
}

// common is the length of the longest common beginning.
func common(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// readDelta reads size bytes that appendDelta wrote.
func readDelta(u *reconstructionReader, size int, dict []byte) []byte {
	var out []byte
	next := 0
	for !u.failed {
		literal := u.take(u.uvarint())
		n := u.uvarint()
		if len(literal)+n > size-len(out) {
			break
		}
		out = append(out, literal...)
		if n == 0 {
			if len(out) == size && !u.failed {
				return out
			}
			break
		}
		from := next + u.varint()
		if from < 0 || from > len(dict)-n {
			break
		}
		out = append(out, dict[from:from+n]...)
		next = from + n
	}
	u.failed = true
	return nil
}
