package prepare

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// RunOptions say how what is wanted is made.
type RunOptions struct {
	Dir      string  // of the store
	Share    float64 // that was asked for, 0 to 1
	MaxBytes int64   // that the fraction may take; 0 is no bound
	Workers  int     // results that are made at once; 0 is one a core
	Verify   bool    // read all that is there, and make again what is damaged
	// Begin is told how many results are to be made or copied, when all that is there is read.
	Begin func(results int)
	// Progress is told how many are read, and after Begin how many are made or copied.
	Progress func(results int)
	// Warn is called for each sample of which there is no result, by several at once.
	Warn func(path string, err error)
}

// RunReport tells what was made.
type RunReport struct {
	store.FractionReport
	// Damaged counts the failures that lie in the samples themselves.
	Damaged int64
}

// SpaceError says that there is no room for what is wanted. All bytes are of the disk.
type SpaceError struct {
	// Bytes of the whole fraction where it is over MaxBytes; else those that it takes more than Free
	// without Margin, which shall stay free.
	Bytes, MaxBytes, Free, Margin int64
	Exact                         bool // Bytes are not estimated
	// Fits is the share that there is room for, in hundredths; 0 if there is none for anything.
	Fits float64
}

func (e *SpaceError) Error() string { return fmt.Sprintf("no room for %d bytes", e.Bytes) }

// Run makes what is wanted. A [SpaceError] comes before anything is changed.
func (m *Materializing) Run(ctx context.Context, o RunOptions) (RunReport, error) {
	begun := false
	var damaged atomic.Int64
	r, err := m.store.Materialize(ctx, m.view.String(), m.Wanted, m, store.FractionOptions{
		Share:   o.Share,
		Workers: o.Workers,
		Verify:  o.Verify,
		Begin: func(p store.FractionPlan) error {
			begun = true
			o.Begin(len(p.Make) + int(p.Copy))
			if len(p.Make) == 0 {
				return nil
			}
			return m.checkSpace(ctx, o, p)
		},
		Progress: func(p store.FractionProgress) {
			if begun {
				o.Progress(int(p.Made + p.Failed + p.Copied))
			} else {
				o.Progress(int(p.Verified))
			}
		},
		Warn: func(path string, err error) {
			if errors.Is(err, transcode.ErrBad) || errors.Is(err, transcode.ErrTruncated) || errors.Is(err, transcode.ErrUnsupported) {
				damaged.Add(1)
			}
			o.Warn(path, err)
		},
	})
	return RunReport{r, damaged.Load()}, err
}

// checkSpace refuses what there is no room for. A hundredth of the disk shall stay free, or 1 GiB
// where that is less.
func (m *Materializing) checkSpace(ctx context.Context, o RunOptions, p store.FractionPlan) error {
	more, err := m.Bytes(ctx, p.Make)
	if err != nil {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(o.Dir, &st); err != nil {
		return fmt.Errorf("how much is free in %s: %w", o.Dir, err)
	}
	return m.fits(o, p, more, int64(st.Bavail)*st.Bsize, min(int64(st.Blocks)*st.Bsize/100, 1<<30))
}

// fits refuses a plan that adds so many bytes where there are so many free, of
// which a margin is to stay.
func (m *Materializing) fits(o RunOptions, p store.FractionPlan, more, free, margin int64) error {
	doubt := 1.0
	if !m.Exact {
		doubt = 1.1
	}
	total := p.KeepBytes + more
	share := func(part float64) float64 { return max(0, math.Floor(o.Share/doubt*part*95)/100) }
	if o.MaxBytes > 0 && total > o.MaxBytes {
		return &SpaceError{Bytes: total, MaxBytes: o.MaxBytes, Exact: m.Exact, Fits: share(float64(o.MaxBytes) / float64(total))}
	}
	need, has := int64(doubt*float64(more))+p.CopyBytes, free-margin
	if need <= has {
		return nil
	}
	part := (float64(p.KeepBytes) + float64(max(has-p.CopyBytes, 0))/doubt) / float64(total)
	return &SpaceError{Bytes: need, Free: free, Margin: margin, Exact: m.Exact, Fits: share(part)}
}
