package packing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/store/vfs"
)

// CommitOptions says how a plan is committed.
type CommitOptions struct {
	// CommitOptions say how the store is written.
	store.CommitOptions
	// Flush waits until all that was written through FS is in the place; nil: it is at once.
	Flush func() error
	// AllowFailed is how many entries of the plan may be missing.
	AllowFailed int64
	// Progress is called for each marker that was read, one call at a time; may be nil.
	Progress func()
}

// Committed is what a commit has found and done.
type Committed struct {
	// Already: the plan was committed before.
	Already bool
	Stats   store.Stats
	Counts
	Shards  int
	Missing []int // shards that are not done
	// Left is how many entries of the plan are not in the store, and Failures are some of them.
	Left     int64
	Failures []Failure
}

// ErrIncomplete is the class of errors about shards that are missing, failed, or damaged.
var ErrIncomplete = errors.New("the plan cannot be committed yet")

const (
	markersAtOnce = 32
	// told is how many problems an error tells of.
	told = 10
)

// Commit makes the packs of all shards a part of the store in dir, which is the place that the plan
// was opened in. The classes of error are ErrIncomplete, and those of [store.CommitPlan]; all of these
// leave the store as it was.
func (p *Plan) Commit(ctx context.Context, dir string, o CommitOptions) (*Committed, error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	r := &Committed{Shards: p.Shards}
	committed, err := store.PlanState(o.FS, dir, p.ID, p.Base.Generation)
	if err != nil && !errors.Is(err, store.ErrStale) {
		return nil, err
	}
	c := store.PlanCommit{
		Plan: p.ID, Base: p.Base.Generation, NextSeq: p.FirstSeq + p.Entries(),
		Dataset: p.Dataset, RecordImages: p.Options.RecordImages, Order: p.Options.Order, Seed: p.Options.Seed,
		Ready: func() error { return p.isThere(ctx, o) },
	}
	if err == nil {
		s := &survey{plan: p, dir: dir, report: r, o: o}
		if c.Packs, err = s.packs(ctx, committed); err != nil {
			return r, err
		}
	}
	stats, done, err := store.CommitPlan(ctx, dir, c, o.CommitOptions)
	r.Stats, r.Already = stats, err == nil && !done
	return r, err
}

// Missing returns the shards that have no marker, in order. It does not look at what is in a marker.
func (p *Plan) Missing(ctx context.Context) ([]int, error) {
	marked, err := p.list(ctx, MarkerDir(p.ID))
	var missing []int
	for shard := range p.Shards {
		if _, is := marked[MarkerName(p.ID, shard)]; !is {
			missing = append(missing, shard)
		}
	}
	return missing, err
}

// list returns the objects in a directory of the store, by their names.
func (p *Plan) list(ctx context.Context, dir string) (map[string]blob.Info, error) {
	there := map[string]blob.Info{}
	for page, err := range p.place.List(ctx, dir+"/", true) {
		if err != nil {
			return nil, err
		}
		for _, i := range page {
			there[i.Name] = i
		}
	}
	return there, nil
}

// isThere looks whether the plan has not been removed while it was committed. Who removes it
// looks for COMMITTED after that, which is put by now.
func (p *Plan) isThere(ctx context.Context, o CommitOptions) error {
	if o.Flush != nil {
		if err := o.Flush(); err != nil {
			return err
		}
	}
	_, err := p.place.Stat(ctx, PlanName(p.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: pipefs gc has removed the plan meanwhile; plan again", PlanName(p.ID))
	}
	return err
}

// survey looks at what the shards of a plan have put.
type survey struct {
	plan   *Plan
	dir    string // of the store, as users name it
	report *Committed
	o      CommitOptions

	mu       sync.Mutex
	listed   map[string]blob.Info
	made     [][]store.SealedPack
	broken   []int // shards
	problems []string
	failed   []int // shards
}

// packs returns the packs of all shards. Of a plan that is committed it returns those that there are.
func (s *survey) packs(ctx context.Context, committed bool) ([]store.SealedPack, error) {
	p := s.plan
	s.made = make([][]store.SealedPack, p.Shards)
	var err error
	if s.listed, err = p.list(ctx, dirOf(p.ID)); err != nil {
		return nil, err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(markersAtOnce)
	for shard := range p.Shards {
		i, ok := s.listed[MarkerName(p.ID, shard)]
		if !ok {
			s.mu.Lock()
			s.report.Missing = append(s.report.Missing, shard)
			s.mu.Unlock()
			continue
		}
		g.Go(func() error { return s.marker(ctx, shard, i) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if !committed {
		if err := s.verdict(ctx); err != nil {
			return nil, err
		}
	}
	var all []store.SealedPack
	for _, packs := range s.made {
		all = append(all, packs...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: no shard has packed anything", ErrIncomplete)
	}
	return all, nil
}

// marker reads what a shard has made, and compares it with what is there.
func (s *survey) marker(ctx context.Context, shard int, i blob.Info) error {
	var (
		m   *Marker
		err error
	)
	if i.Size > maxMarker {
		err = fmt.Errorf("%s: %w: it has %d bytes", i.Name, ErrMarker, i.Size)
	} else {
		b := make([]byte, i.Size)
		if err := s.plan.place.ReadAt(ctx, i.Name, i.Version, b, 0); err != nil {
			return err
		}
		m, err = parseMarker(i.Name, b, s.plan.ID, shard)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.o.Progress != nil {
		s.o.Progress()
	}
	if err != nil {
		s.bad(shard, "%v", err)
		return nil
	}
	for k := range m.Packs {
		pack := &m.Packs[k]
		if pack.Age != s.plan.Age {
			s.bad(shard, "its marker names a pack of age %d, and those of the plan have %d", pack.Age, s.plan.Age)
			return nil
		}
		for name, size := range map[string]int64{pack.File(): pack.Size, pack.SegmentFile(): pack.Segment.Size} {
			switch is, ok := s.listed[name]; {
			case !ok:
				s.bad(shard, "%s is missing", name)
				return nil
			case is.Size != size:
				s.bad(shard, "%s has %d bytes, and its marker says %d", name, is.Size, size)
				return nil
			}
			// A file system that was opened before the shard was done does not know its files.
			if _, err := s.o.FS.Size(filepath.Join(s.dir, name)); errors.Is(err, fs.ErrNotExist) {
				s.report.Missing = append(s.report.Missing, shard)
				return nil
			} else if err != nil {
				return err
			}
		}
	}
	r := s.report
	r.Files, r.Dirs, r.Tombstones = r.Files+m.Files, r.Dirs+m.Dirs, r.Tombstones+m.Tombstones
	r.Faults, r.Bytes = r.Faults+m.Faults, r.Bytes+m.Bytes
	r.Left += m.Failed
	if m.Failed > 0 {
		s.failed = append(s.failed, shard)
		r.Failures = append(r.Failures, m.Failures[:min(len(m.Failures), told-min(told, len(r.Failures)))]...)
	}
	s.made[shard] = m.Packs
	return nil
}

// bad notes what is wrong with what a shard has put.
func (s *survey) bad(shard int, format string, args ...any) {
	s.broken = append(s.broken, shard)
	if len(s.problems) < told {
		s.problems = append(s.problems, fmt.Sprintf("shard %d: ", shard)+fmt.Sprintf(format, args...))
	}
}

// verdict is an error where more is missing than may be.
func (s *survey) verdict(ctx context.Context) error {
	r, p := s.report, s.plan
	var why []string
	url := URL(s.dir, p.ID)
	if len(s.broken) > 0 {
		why = append(why, s.problems...)
		why = append(why, fmt.Sprintf("%d of %d shards are damaged: %s; remove what they have put with pipefs commit --reset I %s, and pack each again with pipefs pack --plan %[4]s --shard I",
			len(s.broken), p.Shards, Ranges(s.broken), url))
	}
	if n := int64(len(r.Missing)); n > 0 && n <= s.o.AllowFailed {
		for _, shard := range r.Missing {
			row, err := p.Row(ctx, shard)
			if err != nil {
				return err
			}
			r.Left += row.Entries
		}
	} else if n > 0 {
		why = append(why, fmt.Sprintf("%d of %d shards are missing: %s; pack each with pipefs pack --plan %s --shard I", n, p.Shards, Ranges(r.Missing), url))
	}
	if r.Left > s.o.AllowFailed {
		for _, f := range r.Failures {
			why = append(why, fmt.Sprintf("left out: %s: %s", f.Path, f.Reason))
		}
		of := ""
		if len(s.failed) > 0 {
			of = ", by shards " + Ranges(s.failed)
		}
		why = append(why, fmt.Sprintf("%d of %d entries are left out%s; plan again if the dataset has changed, or commit without them with --allow-failed %[1]d", r.Left, p.Entries(), of))
	}
	if len(why) == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n  %s", ErrIncomplete, strings.Join(why, "\n  "))
}

// mostRanges is how many ranges of shards are written out.
const mostRanges = 20

// Ranges writes numbers as people and --shard take them: 7, 12..13.
func Ranges(numbers []int) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(numbers)))
	var out []string
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		if len(out) == mostRanges {
			return strings.Join(out, ", ") + fmt.Sprintf(" and %d more", len(sorted)-i)
		}
		if i == j {
			out = append(out, strconv.Itoa(sorted[i]))
		} else {
			out = append(out, fmt.Sprintf("%d..%d", sorted[i], sorted[j]))
		}
		i = j + 1
	}
	return strings.Join(out, ", ")
}

// joiner finds what a store lacks of a dataset. Both are walked once, side by side.
type joiner struct {
	tree Tree
	base *store.Store // nil: there is nothing
	// current reports whether packing would make of an unchanged file what is stored of it.
	current func(*store.Sample) bool
	warn    func(path string, err error) // what cannot be listed: what is stored of it stays
	plan    func(Entry) error            // is called for what is to be packed

	unread []string // paths that could not be listed
	seq    int64    // of the next entry
}

// errStop ends the walk over the index.
var errStop = errors.New("stop")

// stored yields the entries of the base.
func (j *joiner) stored() iter.Seq2[store.Sample, error] {
	return func(yield func(store.Sample, error) bool) {
		if j.base == nil {
			return
		}
		err := j.base.Each(func(s *store.Sample) error {
			if !yield(*s, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(store.Sample{}, err)
		}
	}
}

func (j *joiner) run(ctx context.Context) error {
	next, stop := iter.Pull2(j.stored())
	defer stop()
	s, err, more := next()
	// pass takes the stored entry that comes next; it is gone unless the listing has it.
	pass := func(listed bool) error {
		j.seq = max(j.seq, s.Seq+1)
		if !listed && !below(s.Path, j.unread) {
			if err := j.plan(Entry{Path: s.Path, Kind: store.Tombstone}); err != nil {
				return err
			}
		}
		s, err, more = next()
		return err
	}
	if err != nil {
		return err
	}
	var failed error
	last, first := "", true
	inOrder(ctx, j.tree, func(e Entry, err error) bool {
		failed = func() error {
			switch {
			case err != nil && (e.Path == "" || ctx.Err() != nil):
				return err
			case err != nil:
				j.unread = append(j.unread, e.Path)
				j.warn(e.Path, err)
				return nil
			}
			if err := store.CheckEntry(e.Path, e.Kind); err != nil || len(e.Version) > maxVersion {
				return fmt.Errorf("the dataset has %q, a %v: %w", e.Path, e.Kind, err)
			}
			if !first && comparePaths(last, e.Path) >= 0 {
				return fmt.Errorf("the dataset lists %q after %q", e.Path, last)
			}
			last, first = e.Path, false
			for more && comparePaths(s.Path, e.Path) < 0 {
				if err := pass(false); err != nil {
					return err
				}
			}
			if more && s.Path == e.Path {
				same := s.Kind == e.Kind && s.Mode == e.Mode && s.Source == e.Identity &&
					(s.Kind == store.Dir || j.current(&s))
				if err := pass(true); err != nil || same {
					return err
				}
			}
			return j.plan(e)
		}()
		return failed == nil
	})
	for failed == nil && more {
		failed = pass(false)
	}
	return failed
}
