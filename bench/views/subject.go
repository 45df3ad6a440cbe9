package views

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/bench/loader"
)

// subject is a row in the making.
type subject struct {
	Row
	plain  string       // the directory of a control, which is not mounted
	source string       // of a view's mounts
	work   *loader.Work // nil is the usual augmentation, as float32
	passes int          // of a random view

	first, cold, cached []taken   // one a round
	stored              []float64 // bytes a sample
}

// taken is what an epoch took.
type taken struct {
	loader.Epoch
	daemon Usage      // of this epoch alone, but for the memory
	shares loader.Use // of the processors
}

// perSample is seconds or bytes of each sample.
func (t taken) perSample(v float64) float64 { return v / float64(max(1, t.Samples)) }

// fail ends a subject's turns.
func (s *subject) fail(err error) { s.Error = err.Error() }

// turn measures a subject once. An error of the subject is kept in its row; an error that
// is returned ends the run.
func (s *subject) turn(ctx context.Context, r *runner, round int) error {
	if s.Error != "" {
		return nil
	}
	err := s.measure(ctx, r, round)
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), err)
	}
	if errors.Is(err, unix.ENOSPC) {
		return err // the other rows would not fare better
	}
	if err != nil {
		s.fail(err)
	}
	return nil
}

func (s *subject) measure(ctx context.Context, r *runner, round int) error {
	seed := uint64(2*round + 1)
	again := s.plain != ""
	if !again {
		var err error
		if again, err = s.firstEpoch(ctx, r, seed); err != nil {
			return err
		}
	}
	if again {
		err := r.mounted(ctx, s, false, func(m *Mount) error {
			cold, err := s.fromDisk(ctx, r, m, seed)
			if err != nil {
				return err
			}
			return s.fromMemory(ctx, r, m, cold, seed+1)
		})
		if err != nil {
			return err
		}
	}
	if round > 0 || r.Blind {
		return nil
	}
	return r.mounted(ctx, s, false, func(m *Mount) error {
		if err := r.forgetSource(m, s); err != nil {
			return err
		}
		return s.raw(ctx, r, s.dir(r, m))
	})
}

// firstEpoch reads a view that nobody has prepared. If that has left nothing on the disk,
// it reads the view again, from memory. Otherwise again is true: then cold epochs differ
// from the first, and are measured apart.
func (s *subject) firstEpoch(ctx context.Context, r *runner, seed uint64) (again bool, err error) {
	err = r.mounted(ctx, s, true, func(m *Mount) error {
		first, err := s.fromDisk(ctx, r, m, seed)
		if err != nil {
			return err
		}
		kept, err := sizeOf(r.kept())
		if err != nil {
			return err
		}
		if s.Split == nil {
			s.stored = append(s.stored, first.perSample(float64(kept)))
		}
		if again = kept > 0; again {
			s.First, s.first = append(s.First, first.Rate), append(s.first, first)
			return nil
		}
		return s.fromMemory(ctx, r, m, first, seed+1)
	})
	return again, err
}

// fromDisk reads what is not cached. It checks that a loader which finds files by
// itself read them through the mount.
func (s *subject) fromDisk(ctx context.Context, r *runner, m *Mount, seed uint64) (t taken, err error) {
	if err := r.forgetSource(m, s); err != nil {
		return t, err
	}
	before, err := begun(ctx, m)
	if err != nil {
		return t, err
	}
	if t, err = r.epoch(ctx, s, m, s.dir(r, m), seed); err != nil {
		return t, err
	}
	after, err := begun(ctx, m)
	if read := after - before; err == nil && m != nil && r.Blind && float64(read) < enough*float64(len(r.files)) {
		err = fmt.Errorf("the loader read %d of %d samples through the mount: it may have lists of files with absolute paths, which lead past it", read, len(r.files))
	}
	return t, err
}

// enough is the share of the samples that has to be read through the mount.
const enough = 0.9

// begun is how many files have been read through a mount.
func begun(ctx context.Context, m *Mount) (int64, error) {
	if m == nil {
		return 0, nil
	}
	st, err := m.Stats(ctx)
	return Begun(st), err
}

// fromMemory reads what an epoch from the disk has left in memory, and takes note of both.
func (s *subject) fromMemory(ctx context.Context, r *runner, m *Mount, cold taken, seed uint64) error {
	s.Cold, s.cold = append(s.Cold, cold.Rate), append(s.cold, cold)
	cached, err := r.epoch(ctx, s, m, s.dir(r, m), seed)
	if err != nil {
		return err
	}
	s.Cached, s.cached = append(s.Cached, cached.Rate), append(s.cached, cached)
	s.Resident = max(s.Resident, cold.daemon.Resident, cached.daemon.Resident)
	return nil
}

// raw reads files without decoding anything.
func (s *subject) raw(ctx context.Context, r *runner, dir string) error {
	paths := make([]string, len(r.files))
	for i, name := range r.files {
		paths[i] = filepath.Join(dir, name)
	}
	r.random.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	result, err := loader.Pass{Workers: r.Workers}.Run(ctx, paths)
	if err != nil {
		return err
	}
	s.Raw, s.P50, s.P99 = []float64{result.Rate()}, result.P50, result.P99
	return nil
}

// pilot estimates the rate of the first subject that can be read.
func (r *runner) pilot(ctx context.Context, files []string) (rate float64, err error) {
	r.files = files
	for _, s := range r.subjects {
		err = r.mounted(ctx, s, true, func(m *Mount) error {
			t, err := r.epoch(ctx, s, m, s.dir(r, m), 0)
			rate = t.Rate
			return err
		})
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return rate, err
}

// list is the files that a loader is to read; nil where it finds them by itself.
func (r *runner) list() []string {
	if r.Blind {
		return nil
	}
	return r.files
}

// epoch reads an epoch, and records what daemon and loader used.
func (r *runner) epoch(ctx context.Context, s *subject, m *Mount, dir string, seed uint64) (t taken, err error) {
	var idle loader.Use
	if r.Blind {
		idle = atRest()
	}
	watch := loader.Watch()
	t.daemon, err = m.Spent(func() (err error) {
		t.Epoch, err = r.Loader.Epoch(ctx, loader.Job{Dir: dir, Files: r.list(), Seed: seed, Compute: r.Compute, Warm: min(warmest, len(r.files)/8), Work: s.work})
		return err
	})
	if err != nil {
		return t, err
	}
	used := t.daemon.CPU
	if _, here := r.Loader.(loader.Builtin); !here {
		used += t.CPU
	}
	t.shares = watch.Since(used)
	if r.Blind {
		others := min(t.shares.Others, idle.Others)
		t.shares.Others, t.shares.Uncounted = others, t.shares.Others-others
	}
	if t.Bytes == 0 { // it did not tell
		if t.Bytes, err = sizeOfView(dir, r.files); err != nil {
			return t, err
		}
	}
	if t.Samples == 0 {
		t.Samples = len(r.files)
		if t.Rate == 0 {
			t.Rate = float64(t.Samples) / t.Seconds
		}
	}
	if !r.Blind && t.Samples != len(r.files) {
		return t, fmt.Errorf("the loader read %d of %d samples", t.Samples, len(r.files))
	}
	return t, nil
}

// atRest is how busy the processors are while nothing is measured. The loader of a user
// may work in processes that are not counted as its own, as in a container. Then others
// are only those that are also busy now.
func atRest() loader.Use {
	const long = 300 * time.Millisecond
	watch := loader.Watch()
	time.Sleep(long)
	return watch.Since(0)
}

// Quiet looks whether other processes use the processors before something is measured,
// and waits for them for that long. It returns the share that they use all the same, 0 if
// it is too small to matter.
func Quiet(ctx context.Context, wait time.Duration, tell func(string)) float64 {
	for until := time.Now().Add(wait); ; {
		others := atRest().Others
		switch {
		case others <= OthersShare:
			return 0
		case ctx.Err() != nil || !time.Now().Before(until):
			return others
		}
		tell(fmt.Sprintf("waiting for other processes, which use %.0f %% of the processors", 100*others))
	}
}

// warmest bounds the samples that are read before the clock starts: five batches.
const warmest = 5 * 16

// mounted mounts, does something, and unmounts. fresh: nothing is prepared. A control has no mount.
func (r *runner) mounted(ctx context.Context, s *subject, fresh bool, do func(*Mount) error) error {
	if s.plain != "" {
		return do(nil)
	}
	m, err := r.mount(ctx, s.source, fresh)
	if err != nil {
		return err
	}
	return m.Use(ctx, do)
}

func (r *runner) mount(ctx context.Context, source string, fresh bool) (*Mount, error) {
	if r.Mount != "" {
		return AttachMount(ctx, r.Program, r.Mount)
	}
	if fresh {
		if err := os.RemoveAll(r.kept()); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(r.kept(), 0o700); err != nil {
		return nil, err
	}
	options := append([]string{"--no-background", "--create-store", "--store", r.kept()}, r.Options...)
	if r.pipeline() { // each read makes what is not stored
		options = append(options, "--store-max", "0")
	}
	return OpenMount(ctx, r.Program, source, options...)
}

// summarize makes the row of what was measured.
func (s *subject) summarize(r *runner) {
	median := func(all []taken, of func(taken) float64) float64 {
		var values []float64
		for _, t := range all {
			values = append(values, of(t))
		}
		return Median(values)
	}
	client := func(t taken) float64 { return t.perSample(t.CPU) }
	daemon := func(t taken) float64 { return t.perSample(t.daemon.CPU) }
	s.FileBytes = int64(median(s.cold, func(t taken) float64 { return t.perSample(float64(t.Bytes)) }))
	s.DiskBytes = int64(median(s.cold, func(t taken) float64 { return t.perSample(float64(t.Disk + t.daemon.Read)) }))
	s.StoredBytes, s.DaemonFirst = int64(Median(s.stored)), median(s.first, daemon)
	s.ClientCold, s.DaemonCold = median(s.cold, client), median(s.cold, daemon)
	s.ClientCached, s.DaemonCached = median(s.cached, client), median(s.cached, daemon)
	read := s.FileBytes
	if s.Random && s.DiskBytes > 0 {
		read = s.DiskBytes // what is read again is the source
	}
	s.Fits = read > 0 && read*int64(len(r.Files)) < r.report.Memory/2 // the rest is for the training
	lasting := s.cold
	if s.cachedLast() {
		lasting = s.cached
	}
	s.Utilisation = median(lasting, func(t taken) float64 { return t.Utilisation })
	s.Wait99 = median(lasting, func(t taken) float64 { return t.Wait99 })
	var shares []loader.Use
	for _, t := range lasting {
		s.Seconds, shares = append(s.Seconds, t.Seconds), append(shares, t.shares)
	}
	use := loader.Mean(shares, s.Seconds)
	s.Busy, s.Others, s.uncounted = use.Busy, use.Others, use.Uncounted
	s.analyse(r.Compute, r.report.Machine.Cores)
}

// analyse divides the time of an epoch: the rates of DS-Analyzer (CoorDL, VLDB 2021,
// section 3), from the seconds of one sample with synthetic data (t1), from the disk (t2)
// and from memory (t3). Their code takes n/t2 for the fetch rate; the paper takes what
// the disk adds, as is done here.
func (s *subject) analyse(c loader.Compute, cores int) {
	cold, cached := Median(s.Cold), Median(s.Cached)
	if cold == 0 || cached == 0 {
		return
	}
	a := &s.Analysis
	t1, t2, t3 := c.Per(1).Seconds(), 1/cold, 1/cached
	if t1 > 0 {
		a.Ingest = 1 / t1
		total := max(t2, t3, t1)
		a.Computing = min(1, t1/total)
		a.PrepStall = max(0, t3-t1) / total
		a.FetchStall = max(0, total-max(t1, t3)) / total
	}
	a.Prep = cached
	if t2 > t3 {
		a.Fetch = 1 / (t2 - t3)
	}
	s.Bottleneck = s.bottleneck(cores)
}

// The shares from which a resource counts as the bottleneck.
const (
	working = 0.9 // of the accelerator
	slower  = 0.9 // cold against cached, for the disk to matter
)

// bottleneck is what the lasting epochs wait for.
func (s *subject) bottleneck(cores int) string {
	client, daemon := s.CPU()
	limited := s.Busy >= InUse || (client+daemon)*Median(s.Lasting()) >= InUse*float64(cores)
	switch {
	case s.Utilisation >= working:
		return "the accelerator"
	case limited && daemon > client:
		return "the daemon's processor time"
	case limited:
		return "the loader's processor time"
	case !s.Fits && Median(s.Cold) < slower*Median(s.Cached):
		return "the disk"
	}
	return "latency: neither processors nor disk are used up"
}
