package l3gpu

import (
	"bytes"
	"context"
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

// TestDecodePlaced wants pictures of several kinds at their places, and nothing written
// beside them.
func TestDecodePlaced(t *testing.T) {
	b := newBench(t, devicetest.Options{}, Options{Tensors: 1 << 20, Memory: smallMemory + 1<<20})
	tensor, err := b.NewTensor(40_000)
	testenv.Must(t, err)
	rgb, deep := pictures.Pixels(transcode.ModeRGB, 40, 50), pictures.Pixels(transcode.ModeI16, 21, 33)
	pictures := []Placed{
		{Samples: opened(t, deep, l3.Options{}), Offset: 512, Planar: true},
		{Samples: opened(t, rgb, l3.Options{}), Offset: 4096},
		{Samples: opened(t, rgb, l3.Options{Mode: l3.Fast}), Offset: 40_000 - 24_000, Numbers: Numbers{Type: Float32}},
	}
	if errs, err := b.DecodePlaced(t.Context(), tensor, pictures); err != nil || errs != nil {
		t.Fatal(err, errs)
	}
	got := make([]byte, tensor.Size())
	testenv.Must(t, b.gpu.Read(tensor.Address(), got))
	for i, px := range []*transcode.Pixels{deep, rgb, rgb} {
		p := &pictures[i]
		want := wantNumbers([]*transcode.Pixels{px}, *p)
		size, err := p.Size()
		if err != nil || size != int64(len(want)) || !bytes.Equal(got[p.Offset:][:size], want) {
			t.Errorf("picture %d: %d bytes, %v, or other numbers", i, size, err)
		}
		clear(got[p.Offset:][:size])
	}
	if rest := bytes.Trim(got, "\x00"); len(rest) > 0 {
		t.Errorf("%d bytes beside the pictures were written", len(rest))
	}
	for _, at := range []int64{-1, 40_001 - 6000, 40_000, math.MaxInt64, math.MinInt64} {
		wrong := []Placed{{Samples: pictures[1].Samples, Offset: at}}
		if _, err := b.DecodePlaced(t.Context(), tensor, wrong); !errors.Is(err, transcode.ErrInternal) {
			t.Errorf("a picture at %d: %v", at, err)
		}
	}
	odd := []Placed{{Samples: pictures[2].Samples, Offset: 2, Numbers: pictures[2].Numbers}}
	if _, err := b.DecodePlaced(t.Context(), tensor, odd); !errors.Is(err, transcode.ErrInternal) {
		t.Errorf("floats at 2: %v", err)
	}
	if err := tensor.Free(); err != nil {
		t.Error(err)
	}
	if _, err := b.DecodePlaced(t.Context(), tensor, pictures); !errors.Is(err, ErrClosed) {
		t.Errorf("a tensor that was given back: %v", err)
	}
}

// TestExport wants memory that other processes may have open to stay when the backend
// goes, whatever for; and to go with Free.
func TestExport(t *testing.T) {
	px := pictures.Pixels(transcode.ModeRGB, 40, 50)
	placed := []Placed{{Samples: opened(t, px, l3.Options{})}}
	for name, lose := range map[string]int{"closed": 0, "given up": 1} {
		machine := fakecuda.NewMachine()
		gpu := devicetest.New(devicetest.Options{Machine: machine, LoseAt: lose})
		b, err := Open(Options{Memory: smallMemory + 1<<20, Tensors: 1 << 20}.On(gpu))
		testenv.Must(t, err)
		tensor, err := b.NewTensor(6000)
		testenv.Must(t, err)
		if h, err := tensor.Export(); err != nil || h == (Handle{}) {
			t.Errorf("%x, %v", h, err)
		}
		if _, err := b.DecodePlaced(t.Context(), tensor, placed); errors.Is(err, ErrLost) != (lose > 0) {
			t.Error(name, err)
		}
		if lose == 0 {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
		if machine.At(tensor.Address()) == nil {
			t.Errorf("%s: memory that others may have open was freed", name)
		}
		if lose > 0 {
			if _, err := tensor.Export(); !errors.Is(err, ErrLost) {
				t.Error(err)
			}
			continue
		}
		if _, err := tensor.Export(); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if err := tensor.Free(); err != nil {
			t.Error(err)
		}
		if machine.At(tensor.Address()) != nil {
			t.Error("memory that was freed is there")
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := gpu.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestShared opens the GPU for those who share it, whatever else is decided, and once.
func TestShared(t *testing.T) {
	px := pictures.Pixels(transcode.ModeRGB, 40, 40)
	p := []named{{"picture", px, opened(t, px, l3.Options{}), nil}}
	for name, after := range map[string]int64{"before anything else": 1 << 40, "when it was found slower": -1} {
		gpu := devicetest.New(devicetest.Options{Machine: fakecuda.NewMachine()})
		opens := 0
		s, err := Start(StartOptions{
			Options: Options{Memory: smallMemory + 1<<20, Tensors: 1 << 20, device: func(int) (device.Device, error) { opens++; return gpu, nil }},
			Compare: CompareOptions{Pictures: 2}, After: after,
			compare: alwaysSlower,
		})
		testenv.Must(t, err)
		if after < 0 {
			s.begun.Wait()
		}
		var tensors []*Tensor
		for range 2 {
			b, err := s.Shared()
			if err != nil {
				t.Fatal(name, err)
			}
			if id := b.Identity(); id.Name != "Test GPU" || !strings.HasPrefix(id.UUID, "GPU-") || id.PCI == "" {
				t.Errorf("%+v", id)
			}
			tensor, err := b.NewTensor(10_000)
			testenv.Must(t, err)
			tensors = append(tensors, tensor)
		}
		jobs := jobsOf(p)
		if err := s.Decode(t.Context(), jobs); err != nil {
			t.Error(err)
		}
		wantPictures(t, p, jobs)
		if _, used := s.Stats(); used || opens != 1 {
			t.Errorf("%s: opened %d times; used by others: %v", name, opens, used)
		}
		if err := tensors[0].Free(); err != nil {
			t.Error(err)
		}
		if err := errors.Join(s.Close(), s.Close(), gpu.Check()); err != nil {
			t.Error(name, err)
		}
	}
	// One that is closed opens nothing.
	s, err := Start(StartOptions{Options: Options{device: func(int) (device.Device, error) { t.Error("opened"); return nil, device.ErrNoDevice }}})
	testenv.Must(t, err)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Shared(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func alwaysSlower(context.Context, l3.Backend, l3.Backend, CompareOptions) (Comparison, error) {
	return Comparison{Name: "Test GPU", GPU: 1e9, CPU: 5e9}, nil
}
