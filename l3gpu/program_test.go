package l3gpu

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/devicetest"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// TestProgram has the program itself executed, the PTX that drivers are given: all
// kinds of pictures to all kinds of targets, those that are wide or larger than a
// patch, and damaged ones.
func TestProgram(t *testing.T) {
	b := newBench(t, devicetest.Options{Machine: devicetest.NewVM(2)}, Options{Memory: 2 << 20})
	wantLikeCPU(t, b.Backend, 1)
	if s := b.Stats(); s.Failures != 0 || s.Pictures < 25 || s.Rejects == 0 {
		t.Errorf("%+v, log %q", s, b.log.lines())
	}
}

// wantLikeCPU decodes pictures to some targets each, whole and damaged, and wants what
// the processor makes of them.
func wantLikeCPU(t *testing.T, backend l3.Backend, targets int) {
	t.Helper()
	seed := testenv.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	all := allPictures(t)
	wide := pictures.Pixels(transcode.ModeRGB, 300, 34)
	all = append(all, named{"scratch rows", wide, opened(t, wide, l3.Options{Patch: 512}), encoded(t, wide, l3.Options{Patch: 512})})
	var names []string
	var jobs []l3.Job
	var want []l3.Target
	for i, p := range all {
		at := targetsFor(p.samples.Header)
		for k := range targets {
			name := slices.Sorted(maps.Keys(at))[(i+k)%len(at)]
			names = append(names, fmt.Sprintf("seed %d: %s, %s", seed, p.name, name))
			jobs = append(jobs, l3.Job{Samples: p.samples, Dst: at[name]})
			want = append(want, targetsFor(p.samples.Header)[name])
			if s, err := l3.Open(damage(rng, p.file), transcode.Limits{}); err == nil {
				names = append(names, fmt.Sprintf("seed %d: %s, damaged", seed, p.name))
				jobs = append(jobs, l3.Job{Samples: s, Dst: interleaved(s.Header)})
				want = append(want, interleaved(s.Header))
			}
		}
	}
	testenv.Must(t, backend.Decode(t.Context(), jobs))
	for i, j := range jobs {
		err := j.Samples.Decode(want[i])
		switch {
		case fmt.Sprint(err) != fmt.Sprint(j.Err):
			t.Errorf("%s: %v, want %v", names[i], j.Err, err)
		case err == nil && !bytes.Equal(j.Dst.Pix, want[i].Pix):
			t.Errorf("%s: other bytes", names[i])
		}
	}
}
