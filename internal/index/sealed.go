package index

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is CRC32C.
func Sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// ErrSum is that a checksum is not that of the bytes.
var ErrSum = errors.New("checksum differs")

const prefix = "crc32c "

// Seal returns the content of a small file of pipefs: v as JSON, and a last line with its CRC32C. People can
// read it, and a flipped byte is noticed.
func Seal(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	return fmt.Appendf(b, "%s%08x\n", prefix, Sum(b)), nil
}

// Unseal reads into v what Seal returned.
func Unseal(b []byte, v any) error {
	at := strings.LastIndex(string(b), prefix)
	if at < 0 {
		return errors.New("no checksum at its end")
	}
	if string(b[at:]) != fmt.Sprintf("%s%08x\n", prefix, Sum(b[:at])) {
		return ErrSum
	}
	return json.Unmarshal(b[:at], v)
}
