package prepare

import (
	"errors"
	"testing"

	"github.com/pipefs/pipefs/store"
)

// TestFits refuses what there is no room for, and says which share there is room for.
func TestFits(t *testing.T) {
	for _, c := range []struct {
		what         string
		most         int64
		plan         store.FractionPlan
		more         int64
		exact        bool
		bytes, fits  float64
		refused      bool
		free, margin int64
	}{
		{what: "room", more: 900, exact: true, free: 1000, margin: 100},
		{what: "no room", more: 901, exact: true, free: 1000, margin: 100, refused: true, bytes: 901, fits: 0.94},
		{what: "an estimate", more: 850, free: 1000, margin: 100, refused: true, bytes: 935, fits: 0.83},
		{what: "over the bound", most: 500, plan: store.FractionPlan{KeepBytes: 200}, more: 800, exact: true, free: 5000, refused: true, bytes: 1000, fits: 0.47},
		{what: "what is copied", plan: store.FractionPlan{CopyBytes: 600}, more: 500, exact: true, free: 1000, refused: true, bytes: 1100, fits: 0.76},
		{what: "nothing fits", more: 5000, exact: true, free: 100, margin: 100, refused: true, bytes: 5000},
	} {
		m := &Materializing{Exact: c.exact}
		err := m.fits(RunOptions{Share: 1, MaxBytes: c.most}, c.plan, c.more, c.free, c.margin)
		var space *SpaceError
		if errors.As(err, &space) != c.refused {
			t.Errorf("%s: %v", c.what, err)
		} else if c.refused && (float64(space.Bytes) != c.bytes || space.Fits != c.fits) {
			t.Errorf("%s: %d bytes, %g fit", c.what, space.Bytes, space.Fits)
		}
	}
}
