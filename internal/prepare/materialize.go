package prepare

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"sort"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// Materializing is what a fraction of a store is to hold of a view, and the
// [store.Maker] that makes it. It takes some 130 bytes of memory a sample.
type Materializing struct {
	// Wanted are the samples that belong to the share, in the order in which more
	// of them come with a larger one. See [mixer.Ranks].
	Wanted []store.Wanted
	// Samples is the number of those that the share is of. The others: what the
	// view shows unchanged, what the store holds as the view shows it, what no codec
	// could read when it was packed.
	Samples, Unchanged, Stored, Faulty int
	// Spared may be masks, of which the view leaves out steps.
	Spared serve.Spared
	// Exact: the weight of what is wanted is its size.
	Exact bool

	server *serve.Server
	store  *store.Store
	roles  transcode.Roles
	view   transcode.Pipeline
	keys   map[string]string // each key once
	ranks  []float64         // of Wanted
	// refused are the directories that the view refuses.
	refused []error
}

// Materialize decides which samples of a store belong to a share of a view, from 0 to 1.
// The server serves the store, with the same roles. looked is called after each sample.
func Materialize(ctx context.Context, server *serve.Server, from *store.Store, roles transcode.Roles, v transcode.Pipeline, share float64, looked func()) (*Materializing, error) {
	m := &Materializing{Exact: true, server: server, store: from, roles: roles, view: v, keys: map[string]string{}, Spared: server.NewSpared(v)}
	class := 0
	if err := m.walk(ctx, "", &class, share, looked); err != nil {
		return nil, err
	}
	if len(m.refused) > 0 {
		return nil, errors.Join(m.refused...)
	}
	sort.Sort(byRank{m})
	m.ranks = nil
	return m, nil
}

// byRank sorts what is wanted. Two of the same rank, of different classes, are
// told apart by their paths.
type byRank struct{ *Materializing }

func (b byRank) Len() int { return len(b.Wanted) }
func (b byRank) Less(i, j int) bool {
	if b.ranks[i] != b.ranks[j] {
		return b.ranks[i] < b.ranks[j]
	}
	return b.Wanted[i].Path < b.Wanted[j].Path
}
func (b byRank) Swap(i, j int) {
	b.ranks[i], b.ranks[j] = b.ranks[j], b.ranks[i]
	b.Wanted[i], b.Wanted[j] = b.Wanted[j], b.Wanted[i]
}

// walk takes in a directory, which is a class, and those below it.
func (m *Materializing) walk(ctx context.Context, dir string, class *int, share float64, looked func()) error {
	children, err := m.store.List(dir)
	if err != nil {
		return err
	}
	var some []store.Wanted
	var seqs []int64
	for _, c := range children {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := path.Join(dir, c.Name)
		if c.Kind != store.File || !m.server.Registry().IsSample(name) {
			continue
		}
		w, ok, err := m.look(ctx, name)
		if errors.Is(err, serve.ErrRefused) && !slices.Contains(m.refused, err) {
			m.refused = append(m.refused, err)
		} else if err != nil && !errors.Is(err, serve.ErrRefused) {
			return err
		}
		looked()
		if ok {
			some, seqs = append(some, w), append(seqs, c.Seq)
		}
	}
	if len(some) > 0 {
		m.Samples += len(some)
		for i, rank := range mixer.Ranks(*class, seqs) {
			if rank < share {
				m.Wanted, m.ranks = append(m.Wanted, some[i]), append(m.ranks, rank)
			}
		}
		*class++
	}
	for _, c := range children {
		if c.Kind == store.Dir {
			if err := m.walk(ctx, path.Join(dir, c.Name), class, share, looked); err != nil {
				return err
			}
		}
	}
	return nil
}

// look decides on a sample; ok is false where there is nothing to keep of it.
func (m *Materializing) look(ctx context.Context, name string) (w store.Wanted, ok bool, err error) {
	s, err := m.store.Lookup(name)
	if err != nil {
		return w, false, err
	}
	if s.Fault != "" && !serve.Unread(s.Fault) {
		m.Faulty++
		return w, false, nil
	}
	h, err := m.server.Resolve(ctx, 0, file(name, s.Source), m.view, serve.Planned)
	m.Spared.Add(name, h.Plan(), err)
	if err != nil && !serve.IsUnfit(err) {
		return w, false, err
	}
	if err != nil || h.Unchanged() {
		m.Unchanged++
		return w, false, nil
	}
	plan := h.Plan()
	key := plan.Key()
	if s.Representation(key) != nil {
		m.Stored++
		return w, false, nil
	}
	if known, ok := m.keys[key]; ok {
		key = known
	} else {
		m.keys[key] = key
	}
	size, exact := plan.Size()
	if !exact {
		size = plan.Work(0, nil) + s.Source.Size
		m.Exact = false
	}
	return store.Wanted{Path: name, Source: s.Source, Key: key, Weight: size}, true, nil
}

func file(name string, id store.Identity) serve.File {
	return serve.File{Path: name, Identity: source.IdentityOf(id.Size, id.Version)}
}

// Make implements [store.Maker]. It does not go through the server's caches:
// nobody else is going to ask for these.
func (m *Materializing) Make(ctx context.Context, w store.Wanted) (store.Made, error) {
	h, err := m.server.Resolve(ctx, 0, file(w.Path, w.Source), m.view, serve.Planned)
	if err != nil {
		return store.Made{}, err
	}
	plan := h.Plan()
	if plan.Key() != w.Key {
		return store.Made{}, transcode.Errorf(transcode.ErrInternal, "planned as %s and now as %s", w.Key, plan.Key())
	}
	made, err := h.Make(ctx)
	if err != nil {
		return store.Made{}, err
	}
	return store.Made{Info: plan.Info(), Split: made.Split, Release: made.Release}, nil
}

// estimated is how many results are made to know about how large all are.
const estimated = 24

// entryBytes is about what a pack takes beside a result: its entry, twice, and a
// checksum for each 64 KiB.
const entryBytes = 400

// Bytes is what some results take on disk. Where their size has no closed form it
// is estimated: a few of them are made.
func (m *Materializing) Bytes(ctx context.Context, some []store.Wanted) (int64, error) {
	var weight int64
	for i := range some {
		weight += some[i].Weight
	}
	beside := int64(len(some)) * entryBytes
	if m.Exact || len(some) == 0 {
		return weight + beside, nil
	}
	var made, of int64
	var failed error
	n := min(estimated, len(some))
	for i := range n {
		w := some[i*len(some)/n]
		result, err := m.Make(ctx, w)
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case err != nil:
			failed = err // told when it is to be made
			continue
		}
		made += int64(len(result.Split.Data) + len(result.Split.Tail))
		of += w.Weight
		result.Release()
	}
	if of == 0 {
		return 0, failed
	}
	return int64(float64(weight)*float64(made)/float64(of)) + beside, nil
}

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

// SpaceError says that there is not enough space for what is wanted. All bytes are of the disk.
type SpaceError struct {
	// Bytes of the whole fraction where it is over MaxBytes; else those that it takes more than Free
	// without Margin, which shall stay free.
	Bytes, MaxBytes, Free, Margin int64
	Exact                         bool // Bytes are not estimated
	// Fits is the share that there is space for, in hundredths; 0 if there is none for anything.
	Fits float64
}

func (e *SpaceError) Error() string { return fmt.Sprintf("no space for %d bytes", e.Bytes) }

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

// checkSpace refuses what there is no space for. A hundredth of the disk shall stay free, or 1 GiB
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
