package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/stats"
	"github.com/pipefs/pipefs/bench/strategy"
)

// noise is bytes that no file system can store in fewer.
func noise(random *rand.ChaCha8, size int64) []byte {
	b := make([]byte, size)
	_, _ = random.Read(b) // never fails
	return b
}

// turns gives each of n things a turn in each of some rounds, in random order.
func turns(ctx context.Context, rounds, n int, do func(i int) error) error {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	for range rounds {
		for _, i := range random.Perm(n) {
			if err := ctx.Err(); err != nil {
				return err
			}
			runtime.GC() // of what was before
			if err := do(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// rawRead is a row of PRESTO's Table 3.
type rawRead struct {
	threads, files   int       // files that each thread reads
	bandwidth, reads []float64 // bytes/s and reads/s, one a round
}

// rawReads reads plain files, from the disk, as PRESTO did with fio: one or eight
// threads, each a large file from end to end or many small ones in random order, in
// reads of 4 KiB through the page cache.
func rawReads(ctx context.Context, dir string, large int64, files, rounds int) ([]*rawRead, error) {
	const small, block, threads = 200_000, 4 << 10, 8
	random := rand.NewChaCha8([32]byte{1})
	order := rand.New(random)
	var sets [2][threads][]string // of large and of small files
	for t := range threads {
		for i := range files + 1 {
			size, set := large, &sets[0][t]
			if i > 0 {
				size, set = small, &sets[1][t]
			}
			name := filepath.Join(dir, fmt.Sprintf("%d-%06d", t, i))
			if err := os.WriteFile(name, noise(random, size), 0o600); err != nil {
				return nil, err
			}
			*set = append(*set, name)
		}
	}
	if err := loader.Forget(dir); err != nil {
		return nil, err
	}
	var rows []*rawRead
	for _, n := range []int{1, threads} {
		rows = append(rows, &rawRead{threads: n, files: 1}, &rawRead{threads: n, files: files})
	}
	return rows, turns(ctx, rounds, len(rows), func(i int) error {
		row, set := rows[i], sets[i%2][:rows[i].threads]
		for _, names := range set {
			if err := loader.Drop(names); err != nil {
				return err
			}
			order.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		}
		var bytes, reads atomic.Int64
		began := time.Now()
		err := loader.Each(ctx, row.threads, row.threads, func(ctx context.Context, _, t int) error {
			buf := make([]byte, block)
			for _, name := range set[t] {
				n, count, err := readBlocks(ctx, name, buf)
				bytes.Add(n)
				reads.Add(count)
				if err != nil {
					return err
				}
			}
			return nil
		})
		seconds := time.Since(began).Seconds()
		row.bandwidth, row.reads = append(row.bandwidth, float64(bytes.Load())/seconds), append(row.reads, float64(reads.Load())/seconds)
		return err
	})
}

// readBlocks reads a file from end to end, and counts bytes and reads.
func readBlocks(ctx context.Context, name string, buf []byte) (bytes, reads int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	for ctx.Err() == nil {
		n, err := f.Read(buf)
		if errors.Is(err, io.EOF) {
			return bytes, reads, nil
		}
		if err != nil {
			return bytes, reads, err
		}
		bytes, reads = bytes+int64(n), reads+1
	}
	return bytes, reads, ctx.Err()
}

// Types of synthetic samples.
var sampleTypes = []string{"uint8", "float32"}

// sizeRow is what reading and deserialising samples of one size took.
type sizeRow struct {
	size    int64  // bytes of a sample
	kind    string // of sampleTypes
	workers int
	seconds map[string][]float64 // by cache, one a round
	shards  []string
	samples int
}

// sampleSizes measures how the size of samples decides on how fast as many bytes are
// read and deserialised: PRESTO's Figures 7, 9 and 11. The samples are noise, in
// TFRecords, one file a worker.
func sampleSizes(ctx context.Context, dir string, total int64, sizes []int64, workers []int, rounds int) ([]*sizeRow, error) {
	random := rand.NewChaCha8([32]byte{1})
	var rows []*sizeRow
	for _, size := range sizes {
		samples, shards := int(total/size), make([]string, slices.Max(workers))
		body := noise(random, size)
		for k := range shards {
			shards[k] = filepath.Join(dir, fmt.Sprintf("%d-%d", size, k))
			err := createRecords(shards[k], func(add func(data []byte) error) error {
				for i := k; i < samples; i += len(shards) {
					binary.LittleEndian.PutUint32(body, uint32(i))
					if err := errors.Join(ctx.Err(), add(body)); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
		for _, kind := range sampleTypes {
			for _, n := range workers {
				rows = append(rows, &sizeRow{size, kind, n, map[string][]float64{}, shards, samples})
			}
		}
	}
	return rows, turns(ctx, rounds, len(rows), func(i int) error {
		row := rows[i]
		if err := loader.Drop(row.shards); err != nil {
			return err
		}
		for _, cache := range strategy.Caches {
			seconds, err := row.epoch(ctx, cache == strategy.Application)
			if err != nil {
				return err
			}
			row.seconds[cache] = append(row.seconds[cache], seconds)
		}
		return nil
	})
}

// epoch reads and deserialises all samples; those that an application has in memory
// it only hands over.
func (r *sizeRow) epoch(ctx context.Context, inMemory bool) (seconds float64, err error) {
	var bytes, count atomic.Int64
	use := func(a any) {
		switch a := a.(type) {
		case []byte:
			bytes.Add(int64(len(a)))
		case []float32:
			bytes.Add(4 * int64(len(a)))
		}
	}
	kept := make([]any, r.samples)
	began := time.Now()
	err = loader.Each(ctx, r.workers, len(r.shards), func(ctx context.Context, _, k int) error {
		return readRecords(ctx, r.shards[k], r.size, func(data []byte) {
			if a := deserialise(data, r.kind); inMemory {
				kept[int(count.Add(1)-1)%len(kept)] = a
			} else {
				use(a)
			}
		})
	})
	if inMemory && err == nil {
		began = time.Now()
		err = loader.Each(ctx, r.workers, len(kept), func(_ context.Context, _, i int) error { use(kept[i]); return nil })
	}
	seconds = time.Since(began).Seconds()
	if want := r.size * int64(r.samples); err == nil && bytes.Load() != want {
		err = fmt.Errorf("%d bytes of samples were read, where %d were written", bytes.Load(), want)
	}
	return seconds, err
}

// deserialise makes an array of its own of a sample's bytes.
func deserialise(b []byte, kind string) any {
	if kind == "uint8" {
		return slices.Clone(b)
	}
	floats := make([]float32, len(b)/4)
	for i := range floats {
		floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return floats
}

// shuffled is what passing on so many samples took, in seconds, one a round.
type shuffled struct {
	size           int64
	samples        int
	plain, through []float64
}

// shuffling measures what a shuffle buffer adds to the time of a sample (PRESTO,
// section 4.5): sizes in bytes, counts of samples, bytes of the buffer.
func shuffling(ctx context.Context, sizes []int64, counts []int, buffer int64, rounds int) ([]*shuffled, error) {
	var rows []*shuffled
	for _, size := range sizes {
		for _, n := range counts {
			rows = append(rows, &shuffled{size: size, samples: n})
		}
	}
	random := rand.New(rand.NewPCG(1, 5))
	return rows, turns(ctx, rounds, 2*len(rows), func(i int) error {
		row, to, room := rows[i/2], &rows[i/2].plain, 0
		if i%2 == 1 {
			to, room = &row.through, int(max(1, min(int64(row.samples), buffer/row.size)))
		}
		began := time.Now()
		err := pass(ctx, row.size, row.samples, room, random)
		*to = append(*to, time.Since(began).Seconds())
		return err
	})
}

// added is the seconds that shuffling adds to all samples of a row, the median.
func (s *shuffled) added() float64 {
	added := make([]float64, min(len(s.plain), len(s.through)))
	for i := range added {
		added[i] = s.through[i] - s.plain[i]
	}
	return stats.Median(added)
}

// pass hands samples on through a buffer of so many; 0 is none. The buffer is filled
// first. Then each new sample takes the place of one that is drawn at random and handed
// on. Memory is reused for the next sample; otherwise the time of the garbage collector
// would be counted, which is shorter the more is kept.
func pass(ctx context.Context, size int64, samples, buffer int, random *rand.Rand) error {
	model, batch := make([]byte, size), make([]byte, size)
	var free []byte
	waiting := make([][]byte, 0, buffer)
	for range samples {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := free
		if b == nil {
			b = make([]byte, size)
		}
		copy(b, model)
		if free = nil; len(waiting) < buffer {
			waiting = append(waiting, b)
			continue
		}
		if buffer > 0 {
			i := random.IntN(buffer)
			b, waiting[i] = waiting[i], b
		}
		copy(batch, b)
		free = b
	}
	// The rest comes out in random order, too.
	for len(waiting) > 0 {
		i, last := random.IntN(len(waiting)), len(waiting)-1
		copy(batch, waiting[i])
		waiting[i], waiting = waiting[last], waiting[:last]
	}
	runtime.KeepAlive(batch)
	return nil
}

// fitLine fits y = slope·x + constant by least squares. r2 is the share of the
// variance that the line explains; 0 where there is none.
func fitLine(x, y []float64) (slope, constant, r2 float64) {
	meanX, meanY := mean(x), mean(y)
	var xx, xy, yy float64
	for i := range x {
		dx, dy := x[i]-meanX, y[i]-meanY
		xx, xy, yy = xx+dx*dx, xy+dx*dy, yy+dy*dy
	}
	if xx > 0 {
		slope = xy / xx
	}
	if xx > 0 && yy > 0 {
		r2 = xy * xy / (xx * yy)
	}
	return slope, meanY - slope*meanX, r2
}
