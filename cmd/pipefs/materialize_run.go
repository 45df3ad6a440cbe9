package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/prepare"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// materializer is a materializing under way.
type materializer struct {
	env    *environ
	config *materializeConfig
	*mountd.Source
	view    transcode.Pipeline
	chosen  *prepare.Materializing
	bar     *progress
	started time.Time

	mu      sync.Mutex
	warns   int
	damaged int64 // of the warnings, those about the samples themselves
}

func openMaterializer(ctx context.Context, env *environ, c *materializeConfig) (_ *materializer, err error) {
	m := &materializer{env: env, config: c, started: time.Now()}
	m.Source, err = openSource(ctx, env, mountd.SourceOptions{Path: c.store, StoreOnly: true, Dataset: c.dataset, Roles: c.roles, Limits: c.limits, Workers: c.workers})
	if err != nil {
		return nil, err
	}
	m.view, err = m.Registry.Parse(c.view)
	switch whole := m.view.Whole(); {
	case err != nil:
	case m.view.Stored():
		err = exit.Errorf(exit.Usage, "%s shows what is stored; store it with pipefs materialize %s %s", m.view, c.store, whole)
	case whole.String() != m.view.String():
		err = exit.Errorf(exit.Usage, "%s shows the files of %s under other names; store them with pipefs materialize %s %[2]s", m.view, whole, c.store)
	case m.view.Len() == 0:
		err = exit.Errorf(exit.Usage, "%s is the dataset as it is, which pipefs pack keeps (--originals keep); name another view, such as bmp", transcode.Original)
	}
	if err != nil {
		m.Close()
	}
	return m, err
}

// remove removes the whole fraction.
func (m *materializer) remove() error {
	err := m.Store.RemoveFraction(m.view.String())
	switch {
	case errors.Is(err, store.ErrNotFound):
		fmt.Fprintf(m.env.stdout, "%s is not kept in %s: nothing to remove\n", m.view, m.config.store)
		return nil
	case err != nil:
		return m.explain(store.FractionReport{}, err)
	}
	fmt.Fprintf(m.env.stdout, "%s is not kept any more\n", m.view)
	return nil
}

// choose decides which samples belong to the fraction.
func (m *materializer) choose(ctx context.Context) (err error) {
	m.chosen, err = prepare.Materialize(ctx, m.Server, m.Store, m.config.roles, m.view, m.config.fraction, func() { m.bar.add(1) })
	return err
}

func (m *materializer) run(ctx context.Context) (store.FractionReport, error) {
	m.bar = newProgress(m.env, "reading what is there", len(m.chosen.Wanted))
	defer func() { m.bar.done() }()
	begun := false
	return m.Store.Materialize(ctx, m.view.String(), m.chosen.Wanted, m.chosen, store.FractionOptions{
		Share:   m.config.fraction,
		Workers: m.config.workers,
		Verify:  m.config.verify,
		Begin: func(p store.FractionPlan) error {
			begun = true
			m.bar.done()
			m.bar = newProgress(m.env, "materializing", len(p.Make)+int(p.Copy))
			return m.begin(ctx, p)
		},
		Progress: func(p store.FractionProgress) {
			if begun {
				m.bar.reach(int(p.Made + p.Failed + p.Copied))
			} else {
				m.bar.reach(int(p.Verified))
			}
		},
		Warn: m.warn,
	})
}

func (m *materializer) warn(path string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if errors.Is(err, transcode.ErrBad) || errors.Is(err, transcode.ErrTruncated) || errors.Is(err, transcode.ErrUnsupported) {
		m.damaged++
	}
	if m.warns++; m.warns <= mostWarnings {
		fmt.Fprintf(m.env.stderr, "pipefs: left out: %s: %v\n", path, err)
	}
}

// begin refuses what there is no room for.
func (m *materializer) begin(ctx context.Context, p store.FractionPlan) error {
	if len(p.Make) == 0 {
		return nil
	}
	more, err := m.chosen.Bytes(ctx, p.Make)
	if err != nil {
		return err
	}
	free, margin, err := room(m.config.store)
	if err != nil {
		return err
	}
	return m.fits(p, more, free, margin)
}

// fits refuses a plan that adds so many bytes where there are so many free, of
// which a margin is to stay.
func (m *materializer) fits(p store.FractionPlan, more, free, margin int64) error {
	c := m.config
	about, doubt := "", 1.0
	if !m.chosen.Exact {
		about, doubt = "about ", 1.1
	}
	what := fmt.Sprintf("%s of %s (%s)", m.view, plural(len(m.chosen.Wanted), "sample", "samples"), formatShare(c.fraction))
	total := p.KeepBytes + more
	if c.maxBytes > 0 && total > c.maxBytes {
		return exit.Errorf(exit.System, "%s takes %s%s, over the %s of --max-bytes; %s", what, about, formatSize(total), formatSize(c.maxBytes),
			suggestion(c.fraction/doubt, float64(c.maxBytes)/float64(total)))
	}
	need, has := int64(doubt*float64(more))+p.CopyBytes, free-margin
	if need <= has {
		return nil
	}
	part := (float64(p.KeepBytes) + float64(max(has-p.CopyBytes, 0))/doubt) / float64(total)
	return exit.Errorf(exit.System, "%s takes %s%s more on the disk of %s, where %s are free and %s shall stay so; %s", what, about,
		formatSize(need), c.store, formatSize(free), formatSize(margin), suggestion(c.fraction/doubt, part))
}

// suggestion names the fraction that has room, that being a part of what was asked
// for.
func suggestion(fraction, part float64) string {
	if fits := math.Floor(fraction*part*95) / 100; fits >= 0.01 {
		return fmt.Sprintf("--fraction %g would fit", fits)
	}
	return "nothing of it would fit"
}

// room is how many bytes are free where the store lies, and how many of them shall
// stay so: a hundredth of the disk, or 1 GiB where that is more.
func room(dir string) (free, margin int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("how much is free in %s: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, min(int64(st.Blocks)*st.Bsize/100, 1<<30), nil
}
