package l3gpu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/l3gpu/internal/device"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/devicetest"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// TestFailures makes each call of the device fail in turn: the pictures are right,
// nothing stays behind, and the log has one line at most.
func TestFailures(t *testing.T) {
	px, other := pictures.Pixels(transcode.ModeRGB, 120, 90), pictures.Pixels(transcode.ModeL, 33, 50)
	s, so := opened(t, px, l3.Options{Mode: l3.Fast}), opened(t, other, l3.Options{})
	var all []named
	for range 7 {
		all = append(all, named{"first", px, s, nil}, named{"second", other, so, nil})
	}
	for _, kind := range []error{device.ErrMemory, device.ErrLost, errors.New("odd")} {
		opens, fails := 0, 0
		for n := 1; ; n++ {
			name := fmt.Sprintf("call %d: %v", n, kind)
			b, err := tryBench(devicetest.Options{FailAt: n, Kind: kind}, Options{})
			if err == nil {
				opens++
				for range 2 {
					jobs := jobsOf(all)
					if err := b.Decode(t.Context(), jobs); err != nil {
						t.Fatal(name, err)
					}
					wantPictures(t, all, jobs)
				}
				if lines := b.log.lines(); len(lines) > 1 {
					t.Errorf("%s: %q", name, lines)
				}
				if b.Stats().Failures > 0 {
					fails++
				}
				if errors.Is(kind, device.ErrLost) && b.Stats().Lost != (len(b.log.lines()) > 0) {
					t.Errorf("%s: %+v, log %q", name, b.Stats(), b.log.lines())
				}
				closed := b.Close()
				if b.gpu.Calls() < n {
					if closed != nil {
						t.Error(closed)
					}
					break // there is no such call
				}
			} else if !errors.Is(err, kind) && kind != nil || !strings.Contains(err.Error(), "Test GPU") {
				t.Errorf("%s: %v", name, err)
			}
			if err := b.gpu.Check(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if opens < 20 || fails < 10 {
			t.Errorf("%v: opened %d times, failed %d times", kind, opens, fails)
		}
	}
}

// TestStrikes wants a GPU that fails each time to be given up, though it is not lost.
func TestStrikes(t *testing.T) {
	all := allPictures(t)
	b := newBench(t, devicetest.Options{FailCall: "Launch", Kind: errors.New("odd")}, Options{})
	for range 2 * maxStrikes {
		jobs := jobsOf(all)
		testenv.Must(t, b.Decode(t.Context(), jobs))
		wantPictures(t, all, jobs)
	}
	if s := b.Stats(); !s.Lost || s.Failures != maxStrikes || len(b.log.lines()) != maxStrikes {
		t.Errorf("%+v, log %q", s, b.log.lines())
	}
}

// TestGathered has many readers of single pictures, and loses the GPU at some time.
func TestGathered(t *testing.T) {
	all := allPictures(t)
	for _, lose := range []int{0, 30} {
		b := newBench(t, devicetest.Options{LoseAt: lose, Slow: 50 * time.Microsecond}, Options{})
		g := Gather(b, GatherOptions{})
		var work sync.WaitGroup
		for i := range 16 {
			work.Go(func() {
				for j := range 30 {
					p := all[(i*7+j)%len(all)]
					dst := interleaved(p.samples.Header)
					if err := g.DecodeOne(t.Context(), p.samples, dst); err != nil || !bytes.Equal(dst.Pix, p.px.Pix) {
						t.Errorf("%s: %v, or another picture", p.name, err)
					}
				}
			})
		}
		work.Wait()
		s := b.Stats()
		if s.Lost != (lose > 0) || s.Pictures == 0 || lose == 0 && s.Pictures != 16*30 {
			t.Errorf("lost at launch %d: %+v", lose, s)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLost loses the GPU in the middle of batches of several callers.
func TestLost(t *testing.T) {
	all := allPictures(t)
	b := newBench(t, devicetest.Options{LoseAt: 9, Slow: 100 * time.Microsecond}, Options{})
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for range 4 {
				jobs := jobsOf(all)
				if err := b.Decode(t.Context(), jobs); err != nil {
					t.Error(err)
				}
				wantPictures(t, all, jobs)
			}
		})
	}
	work.Wait()
	if !b.Stats().Lost || len(b.log.lines()) != 1 || !strings.Contains(b.log.lines()[0], "not used again") {
		t.Errorf("%+v, log %q", b.Stats(), b.log.lines())
	}
	// Its memory went when the last one left, without waiting for Close.
	if err := b.gpu.Check(); err != nil {
		t.Error(err)
	}
}

// TestHang wants a GPU that does not answer to be given up, and its memory to be
// left alone.
func TestHang(t *testing.T) {
	all := allPictures(t)
	b, err := tryBench(devicetest.Options{HangAt: 3}, Options{Patience: 30 * time.Millisecond})
	testenv.Must(t, err)
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for range 3 {
				jobs := jobsOf(all)
				if err := b.Decode(t.Context(), jobs); err != nil {
					t.Error(err)
				}
				wantPictures(t, all, jobs)
			}
		})
	}
	work.Wait()
	if !b.Stats().Lost || len(b.log.lines()) != 1 || !strings.Contains(b.log.lines()[0], "no end after") {
		t.Errorf("%+v, log %q", b.Stats(), b.log.lines())
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	b.gpu.Unhang()
}

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
