package mountd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/source/bucket"
	"github.com/pipefs/pipefs/store"
)

// refreshes are the looks for what is newer than what the mount shows. One is under way at a time.
type refreshes struct {
	ctx    context.Context // ends when the mount does
	cancel context.CancelFunc
	work   sync.WaitGroup
	one    sync.Mutex // held by the one that is under way

	mu     sync.Mutex
	last   control.Refresh
	looked time.Time // when the store was last looked at
	failed error     // what was wrong then
}

func (r *refreshes) open() { r.ctx, r.cancel = context.WithCancel(context.Background()) }

// close ends what is under way.
func (r *refreshes) close() error {
	r.cancel()
	r.work.Wait()
	return nil
}

// listed takes note of how many objects have been listed.
func (r *refreshes) listed(objects int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last.Listed = objects
}

// progress tells how many names were found so far, and which share of all bytes that is; 0 is not known.
func (m *Mount) progress(format string) func(n int64, share float64) {
	began := time.Now()
	return func(n int64, share float64) {
		m.refreshes.listed(n)
		took := time.Since(began)
		text := fmt.Sprintf(format+" so far, %.0f/s", human.Count(n), float64(n)/max(took.Seconds(), 0.001))
		if share > 0 {
			left := time.Duration((1/share - 1) * float64(took))
			text += fmt.Sprintf(", %s of the bytes, %s left", human.Share(share), left.Round(time.Second))
		}
		m.config.status(text)
	}
}

// state is when the store was last looked at, and what was wrong then.
func (r *refreshes) state() (looked time.Time, failed error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.looked, r.failed
}

// refresh begins to look for what is newer, or tells how far that is; see [control.Handlers].
func (m *Mount) refresh(number int) (control.Refresh, error) {
	r := &m.refreshes
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case number > 0 && number != r.last.Number:
		return control.Refresh{}, errors.New("this daemon knows nothing of the refresh that was begun: it was started again meanwhile; begin another one")
	case number == 0 && (r.last.Number == 0 || r.last.Done):
		r.last = control.Refresh{Number: r.last.Number + 1}
		r.work.Go(m.runRefresh)
	}
	return r.last, nil
}

// runRefresh looks at all that the mount shows: it lists a bucket again, and takes up another
// generation of a store.
func (m *Mount) runRefresh() {
	r := &m.refreshes
	r.one.Lock()
	defer r.one.Unlock()
	began := time.Now()
	var before, now bucket.Summary
	var listing error
	if m.bucket != nil {
		before, now, listing = m.bucket.Rescan(r.ctx)
	}
	if listing == nil && m.archives != nil {
		before.Counts, now.Counts, listing = m.archives.Rescan(r.ctx)
	}
	if listing == nil && !m.showsStore() {
		listing = m.fs.Rescan(r.ctx, nil)
	}
	change, err := m.refreshStore(r.ctx)
	err = errors.Join(listing, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last.Done, r.last.Before, r.last.Now, r.last.LeftOut, r.last.Store = true, before.Objects, now.Objects, now.LeftOut, change
	if err != nil {
		r.last.Error = err.Error()
		m.log.Warn("looking for what is newer", "cause", err)
		return
	}
	m.log.Info("looked for what is newer", "objects_before", before.Objects, "objects", now.Objects, "took", time.Since(began).Round(time.Millisecond))
}

// showsStore reports whether the names of the mount are those of a store.
func (m *Mount) showsStore() bool { return m.packed == m.config.Source }

// refreshStore has the store show its current generation, and tells the kernel what differs. nil is
// that there is no store.
func (m *Mount) refreshStore(ctx context.Context) (*control.StoreRefresh, error) {
	if m.store == nil {
		return nil, nil
	}
	_, failed := m.refreshes.state()
	change, err := m.takeGeneration(ctx, failed != nil)
	if ctx.Err() == nil {
		m.refreshes.mu.Lock()
		m.refreshes.looked, m.refreshes.failed = time.Now(), err
		m.refreshes.mu.Unlock()
	}
	if err != nil {
		return nil, err
	}
	return &control.StoreRefresh{
		Before: change.Before.Number, Now: change.Now.Number, Newer: change.Before != change.Now,
		Came: change.Came, Changed: change.Changed, Went: change.Went,
	}, nil
}

// takeGeneration is refreshStore without the bookkeeping. Again looks at everything, also where the
// store seems to be what it was.
func (m *Mount) takeGeneration(ctx context.Context, again bool) (change store.Change, err error) {
	if m.storeFiles != nil {
		if err := m.storeFiles.Renew(ctx, again); err != nil {
			return change, err
		}
	}
	began := time.Now()
	// The next daemon begins with the generation of which the kernel may know something.
	change, err = m.store.Refresh(ctx, func(c store.Change) { m.noteGeneration(c.Now, false) })
	if err != nil || change.Before == change.Now {
		return change, err
	}
	if m.showsStore() {
		err = m.fs.Rescan(ctx, m.store.Replaced)
	}
	m.fs.ResolveAgain()
	m.server.Renewed(change.Left > 0)
	if err != nil {
		return change, fmt.Errorf("generation %d is there, and not all of what it changed was told to the kernel: %w", change.Now.Number, err)
	}
	m.noteGeneration(change.Now, true)
	m.log.Info("another generation of the store", "store", m.packed, "before", change.Before.Number, "now", change.Now.Number,
		"came", change.Came, "changed", change.Changed, "went", change.Went, "took", time.Since(began).Round(time.Millisecond))
	gaps, err := FindGaps(m.server, m.registry, m.listed)
	if err != nil {
		return change, err
	}
	if text := gaps.Describe(); text != "" {
		m.log.Warn("of this generation, " + text)
	}
	return change, nil
}

// shown is what a daemon notes in the journal of the generation that it shows.
type shown struct {
	Generation store.Generation `json:"generation"`
	Told       bool             `json:"told"` // the kernel, what differs from the one before
}

func (m *Mount) noteGeneration(g store.Generation, told bool) {
	text, err := json.Marshal(shown{g, told})
	if err != nil {
		panic(err) // only types of this file
	}
	m.config.Kernel.Journal.NoteSource(string(text))
}

// resumed is what the daemon before this one noted; the zero value where there was none.
func (c *Config) resumed() (s shown) {
	if text := c.Kernel.Journal.Source(); c.Kernel.Journal.Resumes() && text != "" {
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return shown{}
		}
	}
	return s
}

// resume tells the kernel what may differ from what the daemon before this one showed: the list of a
// bucket, which another mount may have made anew, or the generation of a store.
func (m *Mount) resume() {
	differs := m.bucket != nil || m.archives != nil
	if m.store != nil && m.showsStore() {
		was := m.config.resumed()
		differs = !was.Told || was.Generation != m.store.Shown()
	}
	told := func() {
		if m.store != nil {
			m.noteGeneration(m.store.Shown(), true)
		}
	}
	if !differs || !m.config.Kernel.Journal.Resumes() {
		told()
		return
	}
	m.refreshes.work.Go(func() {
		m.refreshes.one.Lock()
		defer m.refreshes.one.Unlock()
		err := m.fs.Rescan(m.refreshes.ctx, nil)
		switch {
		case err != nil && m.refreshes.ctx.Err() == nil:
			m.log.Warn("not all that changed since the daemon before this one could be told to the kernel", "cause", err)
		case err == nil:
			told()
		}
	})
}

const (
	// shortestLook and longestLook bound how often the age of a list is looked at.
	shortestLook = 100 * time.Millisecond
	longestLook  = time.Hour
)

// follow takes up what is newer, so that nothing that the mount shows is older than age.
func (m *Mount) follow(age time.Duration) {
	r := &m.refreshes
	every := max(age, shortestLook)
	if m.bucket != nil { // its list may have been made long before
		every = min(max(age/8, shortestLook), longestLook)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	told := map[string]string{} // what was wrong, by what it was wrong with
	tell := func(of string, err error, args ...any) {
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != told[of] && r.ctx.Err() == nil {
			if told[of] = text; err != nil {
				m.log.Warn(of+" cannot be looked at; the mount goes on with what it shows", append(args, "cause", err)...)
			} else {
				m.log.Info(of + " can be looked at again")
			}
		}
	}
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		}
		r.one.Lock()
		if m.bucket != nil {
			renewed, err := m.bucket.Refresh(r.ctx)
			if renewed && err == nil {
				err = m.fs.Rescan(r.ctx, nil)
			}
			tell("the bucket", err, "listed", m.bucket.Summary().Listed.Format(time.DateTime))
		}
		if looked, _ := r.state(); m.store != nil && (m.bucket == nil || time.Since(looked) >= age) {
			_, err := m.refreshStore(r.ctx)
			tell("the store", err, "generation", m.store.Shown().Number)
		}
		r.one.Unlock()
	}
}
