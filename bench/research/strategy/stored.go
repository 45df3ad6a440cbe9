package strategy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/transcode"
)

// stored is a split with a compression, and what was stored of it. Of the split
// Unprocessed nothing is stored.
type stored struct {
	*task
	split       int // index into task.splits
	compression string
	shards      []string
	bytes       int64 // that are read in an epoch
	offline     cost
}

// at is the split.
func (s *stored) at() Split { return s.splits[s.split] }

// room is the most bytes that are stored. Compression makes them fewer, or a little more.
func (s *stored) room(shards int) int64 {
	if !s.at().Stored {
		return 0
	}
	n := int64(shards) * 4 * overhead // the types of the stream
	for _, sample := range s.samples {
		n += overhead + sample.bodies[s.split]
	}
	if s.compression != None {
		n += n / 1000
	}
	return n
}

// payloads is how many bytes all samples take in memory, deserialised.
func (s *stored) payloads() (n int64) {
	for _, sample := range s.samples {
		n += sample.bodies[s.split]
	}
	return n
}

// forget makes the next epoch read from the disk.
func (s *stored) forget() error {
	if s.at().Stored {
		return loader.Drop(s.shards)
	}
	return loader.Drop(s.files)
}

// store runs the prefix on all samples and stores the results, in a directory that
// it makes.
func (s *stored) store(ctx context.Context, dir string, workers int) error {
	if !s.at().Stored {
		for _, sample := range s.samples {
			s.bytes += sample.bytes
		}
		return nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	s.shards = make([]string, workers)
	sizes := make([]int64, workers)
	var next atomic.Int64
	m := begin()
	err := loader.Each(ctx, workers, workers, func(ctx context.Context, _, w int) (err error) {
		s.shards[w] = filepath.Join(dir, fmt.Sprintf("shard-%03d", w))
		sizes[w], err = s.shard(ctx, s.shards[w], &next)
		return err
	})
	if err != nil {
		return err
	}
	s.offline = m.end()
	for _, n := range sizes {
		s.bytes += n
	}
	return nil
}

// shard writes one shard, of samples that no other shard has taken: next counts them.
func (s *stored) shard(ctx context.Context, name string, next *atomic.Int64) (size int64, err error) {
	size, err = writeShard(name, s.compression, func(add func(record) error) error {
		var file []byte
		for i := next.Add(1) - 1; i < int64(len(s.samples)); i = next.Add(1) - 1 {
			if err := ctx.Err(); err != nil {
				return err
			}
			sample := s.samples[i]
			var err error
			if file, err = loader.ReadFile(sample.name, file); err != nil {
				return err
			}
			if err := sample.same(file); err != nil {
				return err
			}
			p, err := sample.run(ctx, s.limits, sample.source(file), 0, s.at().Steps)
			if err != nil {
				return sample.changed(err)
			}
			r, err := recordOf(int(i), p, s.meta)
			if err != nil {
				return sample.changed(err)
			}
			if err := add(r); err != nil {
				return fmt.Errorf("storing the results of %s: %w", s.at().Name, err)
			}
		}
		return nil
	})
	return size, err
}

// visit is called with the number of a sample and its payload. The payload is valid until
// visit returns, unless it was read with keep.
type visit func(ctx context.Context, i int, p transcode.Payload) error

// read reads what is stored, or the files, once. With keep each payload has memory
// of its own.
func (s *stored) read(ctx context.Context, workers int, random *rand.Rand, keep bool, do visit) error {
	if s.at().Stored {
		return s.readShards(ctx, workers, keep, do)
	}
	return s.readFiles(ctx, workers, random, keep, do)
}

// readFiles reads the files of the dataset in random order.
func (s *stored) readFiles(ctx context.Context, workers int, random *rand.Rand, keep bool, do visit) error {
	order := random.Perm(len(s.samples))
	bufs := make([][]byte, workers)
	return loader.Each(ctx, workers, len(order), func(ctx context.Context, w, k int) (err error) {
		sample := s.samples[order[k]]
		if keep {
			bufs[w] = nil
		}
		if bufs[w], err = loader.ReadFile(sample.name, bufs[w]); err != nil {
			return err
		}
		if err := sample.same(bufs[w]); err != nil {
			return err
		}
		return sample.changed(do(ctx, order[k], sample.source(bufs[w])))
	})
}

// readShards reads each shard from its beginning to its end.
func (s *stored) readShards(ctx context.Context, workers int, keep bool, do visit) error {
	most := int64(0)
	for _, sample := range s.samples {
		most = max(most, sample.bodies[s.split])
	}
	return loader.Each(ctx, workers, len(s.shards), func(ctx context.Context, _, k int) error {
		return readShard(s.shards[k], s.compression, most, keep, func(r *record) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if r.Index < 0 || r.Index >= len(s.samples) {
				return fmt.Errorf("%s: what was stored cannot be read back: there is no sample %d", s.shards[k], r.Index)
			}
			sample := s.samples[r.Index]
			p, err := r.payload(sample.shape(s.at().Steps))
			if err != nil {
				return fmt.Errorf("%s: what was stored cannot be read back: %w", s.shards[k], err)
			}
			return sample.changed(do(ctx, r.Index, p))
		})
	})
}

// Epochs is what epochs with one cache took.
type Epochs struct {
	// Rates are in samples/s, one a round.
	Rates []float64 `json:"rates,omitempty"`
	// CPU is seconds a sample, user and system; Disk is bytes an epoch that came from
	// a disk. Medians of the rounds.
	CPU  float64 `json:"cpu_seconds"`
	Disk float64 `json:"disk_bytes"`
	// Error is why there are no figures.
	Error string `json:"error,omitempty"`

	cpus, disks []float64
}

// Rate is the median of the rounds.
func (e *Epochs) Rate() float64 {
	if e == nil {
		return 0
	}
	return views.Median(e.Rates)
}

// add adds an epoch over n samples.
func (e *Epochs) add(c cost, n int) {
	e.Rates = append(e.Rates, float64(n)/c.seconds)
	e.cpus = append(e.cpus, c.cpu/float64(n))
	e.disks = append(e.disks, float64(c.disk))
	e.CPU, e.Disk = views.Median(e.cpus), views.Median(e.disks)
}

// epoch runs the online part of a strategy: it makes the final result of every sample
// once, from what payloads hands over.
func (s *stored) epoch(ctx context.Context, check visit, payloads func(ctx context.Context, do visit) error) (cost, error) {
	var count, bytes atomic.Int64
	m := begin()
	err := payloads(ctx, func(ctx context.Context, i int, p transcode.Payload) error {
		out, err := s.samples[i].run(ctx, s.limits, p, s.at().Steps, s.steps)
		if err != nil {
			return err
		}
		count.Add(1)
		bytes.Add(size(out))
		if check != nil {
			return check(ctx, i, out)
		}
		return nil
	})
	c := m.end()
	if err != nil {
		return c, err
	}
	var want int64
	for _, sample := range s.samples {
		want += sample.result
	}
	if count.Load() != int64(len(s.samples)) || bytes.Load() != want {
		return c, fmt.Errorf("%s gave %d results of %d bytes, where %d of %d were expected: the dataset has changed, or what was stored is damaged",
			s.at().Name, count.Load(), bytes.Load(), len(s.samples), want)
	}
	return c, nil
}

// fromDisk reads once what is stored.
func (s *stored) fromDisk(workers int, random *rand.Rand) func(context.Context, visit) error {
	return func(ctx context.Context, do visit) error { return s.read(ctx, workers, random, false, do) }
}

// load deserialises everything into memory, and returns a function that visits all of it.
func (s *stored) load(ctx context.Context, workers int, random *rand.Rand) (func(context.Context, visit) error, error) {
	kept := make([]transcode.Payload, len(s.samples))
	err := s.read(ctx, workers, random, true, func(_ context.Context, i int, p transcode.Payload) error {
		kept[i] = p
		return nil
	})
	return func(ctx context.Context, do visit) error {
		return loader.Each(ctx, workers, len(kept), func(ctx context.Context, _, i int) error {
			return s.samples[i].changed(do(ctx, i, kept[i]))
		})
	}, err
}
