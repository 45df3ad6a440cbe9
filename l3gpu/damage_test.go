package l3gpu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/devicetest"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// damage changes some bytes of a file behind its header. Half of the files of version
// 2 get right checksums again, so that the decoder itself has to notice.
func damage(rng *rand.Rand, file []byte) []byte {
	b := bytes.Clone(file)
	h, err := l3.ParseHeader(b)
	if err != nil {
		panic(err)
	}
	begin := min(32, len(b)-1) // the smallest files of version 1 have less
	columns, rows := (h.Width-1)/h.PatchWidth+1, (h.Height-1)/h.PatchHeight+1
	if h.Version == 2 {
		begin += 8*columns*rows + int(binary.LittleEndian.Uint32(b[24:]))
	}
	for range 1 + rng.IntN(3) {
		b[begin+rng.IntN(len(b)-begin)] ^= byte(1 << rng.IntN(8))
	}
	if h.Version == 2 && rng.IntN(4) > 0 {
		at := (begin + 15) &^ 15
		for i := range columns * rows {
			entry := b[32+8*i:]
			n := int(binary.LittleEndian.Uint32(entry))
			binary.LittleEndian.PutUint32(entry[4:], crc32.Checksum(b[at:at+n], crc32.MakeTable(crc32.Castagnoli)))
			at = (at + n + 15) &^ 15
		}
		clear(b[28:32])
		binary.LittleEndian.PutUint32(b[28:], crc32.Checksum(b[:begin], crc32.MakeTable(crc32.Castagnoli)))
	}
	return b
}

// kindOf is the kind of a codec error.
func kindOf(err error) error {
	for _, kind := range []error{transcode.ErrBad, transcode.ErrUnsupported, transcode.ErrTruncated, transcode.ErrInternal} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

// TestDamage wants damaged files to be taken and refused as by the processor, with
// the same samples and the same errors, and whole ones beside them to come out right.
func TestDamage(t *testing.T) {
	seed := testenv.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	all := allPictures(t)
	b := newBench(t, devicetest.Options{}, Options{})
	taken, refused := 0, 0
	for range 6 {
		var damaged []l3.Job
		for _, p := range all {
			for range 4 {
				s, err := l3.Open(damage(rng, p.file), transcode.Limits{})
				if err == nil {
					damaged = append(damaged, l3.Job{Samples: s, Dst: interleaved(s.Header)})
				}
			}
		}
		jobs := append(jobsOf(all), damaged...)
		testenv.Must(t, b.Decode(t.Context(), jobs))
		wantPictures(t, all, jobs)
		for _, j := range jobs[len(all):] {
			want := interleaved(j.Samples.Header)
			err := j.Samples.Decode(want)
			switch {
			case (err == nil) != (j.Err == nil), !errors.Is(kindOf(err), kindOf(j.Err)):
				t.Fatalf("seed %d: %v, and by the processor %v", seed, j.Err, err)
			case err != nil:
				refused++
				if err.Error() != j.Err.Error() {
					t.Errorf("seed %d: %v, and by the processor %v", seed, j.Err, err)
				}
			default:
				taken++
				if !bytes.Equal(want.Pix, j.Dst.Pix) {
					t.Fatalf("seed %d: a damaged file decodes to other samples", seed)
				}
			}
		}
	}
	if taken < 20 || refused < 20 {
		t.Errorf("seed %d: %d were taken, %d refused", seed, taken, refused)
	}
	if len(b.log.lines()) != 0 {
		t.Errorf("seed %d: %q", seed, b.log.lines())
	}
}
