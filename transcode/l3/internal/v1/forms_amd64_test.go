package v1

import (
	"testing"

	"github.com/pipefs/pipefs/transcode/internal/codectest"
)

var forms = codectest.FormsOf(&accelerated)

// TestPredictions compares the prediction of 32 samples at a time with what is specified, for
// everything there is.
func TestPredictions(t *testing.T) {
	if len(forms) == 1 {
		t.Skip("skipped: this processor has no AVX2")
	}
	var va, vb, vc, got [32]byte
	for a := range 256 {
		for b := range 256 {
			for i := range va {
				va[i], vb[i] = byte(a), byte(b)
			}
			for c := 0; c < 256; c += 32 {
				for i := range vc {
					vc[i] = byte(c + i)
				}
				predictAVX2(&got, &va, &vb, &vc)
				for i, v := range got {
					if want := specified(a, b, c+i); int(v) != want {
						t.Fatalf("%d from %d, %d, %d, want %d", v, a, b, c+i, want)
					}
				}
			}
		}
	}
}
