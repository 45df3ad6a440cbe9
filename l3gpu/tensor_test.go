package l3gpu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/l3gpu/internal/device"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/devicetest"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/fakecuda"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// batchOf are pictures of one size.
func batchOf(t testing.TB, mode transcode.Mode, n int) ([]*transcode.Pixels, []*l3.Samples) {
	var drawn []*transcode.Pixels
	var samples []*l3.Samples
	ways := []l3.Options{{}, {Mode: l3.Fast}, {Patch: 32}}
	for i := range n {
		px := pictures.Pixels(mode, 40, 50)
		for j := range px.Pix {
			px.Pix[j] += byte(i * 3)
		}
		drawn, samples = append(drawn, px), append(samples, opened(t, px, ways[i%len(ways)]))
	}
	return drawn, samples
}

// wantNumbers computes a batch in the plainest way.
func wantNumbers(drawn []*transcode.Pixels, o Placed) []byte {
	var out []byte
	for _, px := range drawn {
		n, size := px.Mode.Channels(), px.Mode.Depth()/8
		add := func(x, y, c int) {
			at := ((y*px.Width+x)*n + c) * size
			v := float32(px.Pix[at])
			if size == 2 {
				v = float32(binary.LittleEndian.Uint16(px.Pix[at:]))
			}
			if o.Scale != nil {
				v = float32(v * o.Scale[c])
			}
			if o.Bias != nil {
				v = float32(v + o.Bias[c])
			}
			switch o.Type {
			case Stored:
				out = append(out, px.Pix[at:at+size]...)
			case Float32:
				out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
			case Float16:
				out = binary.LittleEndian.AppendUint16(out, fakecuda.Half(v))
			}
		}
		outer, inner := px.Height*px.Width, n
		if o.Planar {
			outer, inner = n, px.Height*px.Width
		}
		for i := range outer {
			for j := range inner {
				p, c := i, j
				if o.Planar {
					p, c = j, i
				}
				add(p%px.Width, p/px.Width, c)
			}
		}
	}
	return out
}

func batchCases() map[string]Placed {
	scale, bias := []float32{1 / 58.4, 1 / 57.1, 0.0174}, []float32{-2.11, -2.03, -1.8}
	return map[string]Placed{
		"HWC":         {},
		"CHW":         {Planar: true},
		"float32":     {Numbers: Numbers{Type: Float32}},
		"float32 CHW": {Numbers: Numbers{Type: Float32, Scale: scale, Bias: bias}, Planar: true},
		"float16":     {Numbers: Numbers{Type: Float16, Bias: bias}},
		"float16 CHW": {Numbers: Numbers{Type: Float16, Scale: scale, Bias: bias}, Planar: true},
	}
}

// decodeTensor decodes pictures of one kind one after another into a new tensor, as o says.
func decodeTensor(t testing.TB, b *Backend, samples []*l3.Samples, o Placed) (*Tensor, []error, error) {
	t.Helper()
	pictures, end := make([]Placed, len(samples)), int64(0)
	for i, s := range samples {
		pictures[i] = o
		pictures[i].Samples, pictures[i].Offset = s, end
		size, err := pictures[i].Size()
		testenv.Must(t, err)
		end += size
	}
	tensor, err := b.NewTensor(end)
	if err != nil {
		return nil, nil, err
	}
	errs, err := b.DecodePlaced(t.Context(), tensor, pictures)
	if err != nil {
		return nil, nil, errors.Join(err, tensor.Free())
	}
	return tensor, errs, nil
}

// TestNumbers wants all kinds of numbers in a tensor, and an error where the GPU is lost.
func TestNumbers(t *testing.T) {
	for _, mode := range []transcode.Mode{transcode.ModeRGB, transcode.ModeRGB16} {
		drawn, samples := batchOf(t, mode, 9)
		for name, o := range batchCases() {
			want := wantNumbers(drawn, o)
			for _, lost := range []int{0, 1} {
				b := newBench(t, devicetest.Options{LoseAt: lost}, Options{Tensors: int64(len(want)), Memory: smallMemory + int64(len(want))})
				tensor, errs, err := decodeTensor(t, b.Backend, samples, o)
				if s := b.Stats(); s.Lost != (lost == 1) || !s.Lost && s.Pictures != 9 {
					t.Errorf("%v, %s: %+v", mode, name, s)
				}
				if lost != 0 {
					if _, _, again := decodeTensor(t, b.Backend, samples, o); !errors.Is(err, ErrLost) || !errors.Is(again, ErrLost) {
						t.Errorf("a tensor on a GPU that is lost: %v, %v", err, again)
					}
					continue
				}
				if err != nil || errs != nil {
					t.Fatal(err, errs)
				}
				wantTensor(t, b, tensor, samples[:1], want, o)
			}
		}
	}
}

// wantTensor wants a tensor to hold this, and no room for one more before it is given back.
func wantTensor(t *testing.T, b bench, tensor *Tensor, one []*l3.Samples, want []byte, o Placed) {
	t.Helper()
	got := make([]byte, tensor.Size())
	if err := b.gpu.Read(tensor.Address(), got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v, or other numbers on the GPU", err)
	}
	if _, _, err := decodeTensor(t, b.Backend, one, o); !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "set aside") {
		t.Errorf("more tensors than there is memory: %v", err)
	}
	for range 2 {
		if err := tensor.Free(); err != nil {
			t.Error(err)
		}
	}
	// One that is not given back goes with the backend.
	if _, _, err := decodeTensor(t, b.Backend, one, o); err != nil {
		t.Error(err)
	}
}

// TestPlacedDamaged wants the error of a damaged picture at its place, and the others to come
// out.
func TestPlacedDamaged(t *testing.T) {
	b := newBench(t, devicetest.Options{}, Options{Tensors: 1 << 20, Memory: smallMemory + 1<<20})
	pictures, samples := batchOf(t, transcode.ModeRGB, 3)
	file := encoded(t, pictures[1], l3.Options{})
	file[len(file)-40] ^= 1
	damaged, err := l3.Open(file, transcode.Limits{})
	testenv.Must(t, err)
	samples[1] = damaged
	want := wantNumbers(pictures, Placed{})
	size := len(want) / 3
	tensor, errs, err := decodeTensor(t, b.Backend, samples, Placed{})
	testenv.Must(t, err)
	if len(errs) != 3 || errs[0] != nil || !errors.Is(errs[1], transcode.ErrBad) || errs[2] != nil {
		t.Errorf("%v", errs)
	}
	got := make([]byte, tensor.Size())
	testenv.Must(t, b.gpu.Read(tensor.Address(), got))
	if !bytes.Equal(got[:size], want[:size]) || !bytes.Equal(got[2*size:], want[2*size:]) {
		t.Error("other numbers beside a damaged picture")
	}
}

// TestPlacedRefused wants numbers that are none to be refused.
func TestPlacedRefused(t *testing.T) {
	_, samples := batchOf(t, transcode.ModeRGB, 1)
	for name, n := range map[string]Numbers{
		"factors missing":  {Type: Float32, Scale: []float32{1}},
		"factors of bytes": {Bias: []float32{1, 2, 3}},
		"no such type":     {Type: 9},
	} {
		p := Placed{Samples: samples[0], Numbers: n}
		if _, err := p.Size(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	b := newBench(t, devicetest.Options{}, Options{})
	if _, _, err := decodeTensor(t, b.Backend, samples, Placed{}); !errors.Is(err, device.ErrMemory) {
		t.Errorf("no memory for tensors: %v", err)
	}
}
