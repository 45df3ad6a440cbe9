package strategy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/stats"
)

// Types of synthetic samples.
const (
	Uint8   = "uint8"
	Float32 = "float32"
)

// SizesConfig is what [SampleSizes] is to do.
type SizesConfig struct {
	// Work is where a directory for the samples is made, and removed at the end.
	Work string
	// Total is the bytes of all samples of one size; 0 means 256 MB. On the disk
	// there is as much for each size.
	Total int64
	// Sizes of samples in bytes, multiples of 4; none means PRESTO's, from 0.01 MB to
	// 20.5 MB, each twice the one before.
	Sizes   []int64
	Types   []string // none means both
	Workers []int    // none means one a core
	Caches  []string // none means all
	Rounds  int      // 0 means 5
	Seed    uint64
	// Progress hears what is being done; nil is nobody.
	Progress func(what string)
}

// PaperSizes are the sizes of samples in PRESTO's figures 7, 9 and 11.
func PaperSizes() (sizes []int64) {
	for n := int64(10_000); n <= 20_480_000; n *= 2 {
		sizes = append(sizes, n)
	}
	return sizes
}

// SizeRow is what reading and deserialising samples of one size took.
type SizeRow struct {
	Size    int64              `json:"size"` // bytes of a sample
	Samples int                `json:"samples"`
	Type    string             `json:"type"`
	Workers int                `json:"workers"`
	Caches  map[string]*Epochs `json:"caches"`
}

// Seconds is the median time for Total bytes with a cache: the samples of a size may
// be a little less than that.
func (r *SizeRow) Seconds(cache string, total int64) float64 {
	rate := r.Caches[cache].Rate()
	if rate == 0 {
		return 0
	}
	return float64(total) / (rate * float64(r.Size))
}

// synthetic is samples of one size, stored.
type synthetic struct {
	size    int64
	samples int
	dir     string
	shards  []string
}

// SampleSizes measures how the size of samples decides on how fast as many bytes are
// read and deserialised: PRESTO's figures 7 and 9, and 11 with several workers. The
// samples are noise. To deserialise is to make an array of its own of each, of bytes
// or of float32. When it is stopped it returns what there is, and the error too.
func SampleSizes(ctx context.Context, c SizesConfig) (rows []SizeRow, err error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(c.Work, "pipefs-sizes-")
	if err != nil {
		return nil, fmt.Errorf("a directory to work in: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var sets []synthetic
	var need int64
	shards := slices.Max(c.Workers)
	for i, size := range c.Sizes {
		s := synthetic{size: size, samples: int(c.Total / size), dir: filepath.Join(dir, fmt.Sprint(i))}
		need += int64(s.samples)*recordSize(size) + int64(shards)*recordSize(trailerSize)
		sets = append(sets, s)
		for _, kind := range c.Types {
			for _, workers := range c.Workers {
				rows = append(rows, SizeRow{Size: size, Samples: s.samples, Type: kind, Workers: workers, Caches: map[string]*Epochs{}})
			}
		}
	}
	if err := checkRoom(dir, need); err != nil {
		return nil, err
	}
	random := rand.NewChaCha8([32]byte{byte(c.Seed)})
	for i := range sets {
		c.Progress(fmt.Sprintf("storing samples of %d bytes", sets[i].size))
		if err := sets[i].store(ctx, shards, random); err != nil {
			return nil, err
		}
	}
	order := rand.New(random)
	for round := range c.Rounds {
		for _, i := range order.Perm(len(rows)) {
			row := &rows[i]
			c.Progress(fmt.Sprintf("reading samples of %d bytes, %s, %d workers, round %d of %d", row.Size, row.Type, row.Workers, round+1, c.Rounds))
			if err := c.turn(ctx, &sets[slices.Index(c.Sizes, row.Size)], row); err != nil {
				return rows, err
			}
		}
	}
	return rows, nil
}

func (c *SizesConfig) complete() error {
	if c.Total <= 0 {
		c.Total = 256e6
	}
	if len(c.Sizes) == 0 {
		c.Sizes = PaperSizes()
	}
	if len(c.Types) == 0 {
		c.Types = []string{Uint8, Float32}
	}
	if len(c.Workers) == 0 {
		c.Workers = []int{runtime.GOMAXPROCS(0)}
	}
	if len(c.Caches) == 0 {
		c.Caches = Caches
	}
	if c.Rounds <= 0 {
		c.Rounds = 5
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	for _, size := range c.Sizes {
		if size < 4 || size%4 != 0 || size > c.Total || c.Total/size > math.MaxInt32 || size > math.MaxInt32 {
			return fmt.Errorf("samples of %d bytes, in all %d; a size is a multiple of 4 and at most all", size, c.Total)
		}
	}
	return errors.Join(checkWorkers(c.Workers), checkWords("type", c.Types, []string{Uint8, Float32}),
		checkWords("cache", c.Caches, Caches), checkTwice("size", c.Sizes))
}

// store writes the samples, one after another into each shard.
func (s *synthetic) store(ctx context.Context, shards int, random *rand.ChaCha8) (err error) {
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return err
	}
	body := make([]byte, s.size)
	if _, err := random.Read(body); err != nil {
		return err
	}
	for k := range shards {
		name := filepath.Join(s.dir, fmt.Sprintf("shard-%03d", k))
		s.shards = append(s.shards, name)
		w, err := createShard(name, None)
		if err != nil {
			return err
		}
		for i := k; i < s.samples && err == nil; i += shards {
			binary.LittleEndian.PutUint32(body, uint32(i))
			if err = ctx.Err(); err == nil {
				err = w.append(uint32(i), body)
			}
		}
		if err != nil {
			w.file.Close()
			return err
		}
		if _, err := w.finish(); err != nil {
			return err
		}
	}
	return nil
}

// turn measures a row once.
func (c *SizesConfig) turn(ctx context.Context, s *synthetic, row *SizeRow) error {
	if err := drop(s.shards); err != nil {
		return err
	}
	for _, cache := range Caches {
		if !slices.Contains(c.Caches, cache) && (cache != NoCache || !slices.Contains(c.Caches, System)) {
			continue
		}
		if row.Caches[cache] == nil && slices.Contains(c.Caches, cache) {
			row.Caches[cache] = &Epochs{}
		}
		var spent cost
		var err error
		if cache == Application {
			memory, e := loader.Memory()
			if e != nil {
				return e
			}
			if need, most := int64(s.samples)*s.size, memory-memory/4; need > most {
				row.Caches[cache].Error = fmt.Sprintf("does not fit in memory: %.1f MB, where %.1f MB can be had", float64(need)/1e6, float64(most)/1e6)
				continue
			}
			spent, err = s.fromMemory(ctx, row)
		} else {
			spent, err = s.fromDisk(ctx, row)
		}
		if err != nil {
			return err
		}
		if slices.Contains(c.Caches, cache) {
			row.Caches[cache].add(spent, s.samples)
		}
	}
	return nil
}

// array is a deserialised sample.
type array struct {
	bytes  []byte
	floats []float32
}

func (a array) size() int64 { return int64(len(a.bytes)) + 4*int64(len(a.floats)) }

// deserialise makes an array of what lies in b.
func deserialise(b []byte, kind string) array {
	if kind == Uint8 {
		return array{bytes: slices.Clone(b)}
	}
	floats := make([]float32, len(b)/4)
	for i := range floats {
		floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return array{floats: floats}
}

// read reads and deserialises all samples once.
func (s *synthetic) read(ctx context.Context, row *SizeRow, use func(i int, a array)) error {
	q := queue{length: len(s.shards)}
	expect := func(i uint32) int64 {
		if int64(i) >= int64(s.samples) {
			return -1
		}
		return s.size
	}
	return each(ctx, row.Workers, func(ctx context.Context, _ int) error {
		var buf []byte
		for k, ok := q.take(); ok; k, ok = q.take() {
			r, err := openShard(s.shards[k], None)
			if err != nil {
				return err
			}
			for err == nil {
				var i uint32
				if i, buf, err = r.next(expect, buf); err == nil {
					use(int(i), deserialise(buf, row.Type))
					err = ctx.Err()
				}
			}
			r.Close()
			if !errors.Is(err, errEnd) {
				return err
			}
		}
		return nil
	})
}

// check wants all bytes of all samples.
func (s *synthetic) check(bytes int64) error {
	if want := s.size * int64(s.samples); bytes != want {
		return fmt.Errorf("%s: %d bytes of samples were read, where %d were written", s.dir, bytes, want)
	}
	return nil
}

func (s *synthetic) fromDisk(ctx context.Context, row *SizeRow) (cost, error) {
	var bytes atomic.Int64
	m := begin()
	err := s.read(ctx, row, func(_ int, a array) { bytes.Add(a.size()) })
	c := m.end()
	if err != nil {
		return c, err
	}
	return c, s.check(bytes.Load())
}

// fromMemory measures an epoch over samples that are deserialised already.
func (s *synthetic) fromMemory(ctx context.Context, row *SizeRow) (cost, error) {
	kept := make([]array, s.samples)
	if err := s.read(ctx, row, func(i int, a array) { kept[i] = a }); err != nil {
		return cost{}, err
	}
	var bytes atomic.Int64
	q := queue{length: len(kept)}
	m := begin()
	err := each(ctx, row.Workers, func(ctx context.Context, _ int) error {
		for i, ok := q.take(); ok; i, ok = q.take() {
			bytes.Add(kept[i].size())
		}
		return nil
	})
	c := m.end()
	if err != nil {
		return c, err
	}
	return c, s.check(bytes.Load())
}

// Speedup is how much faster a row is than the one of the same samples with the
// fewest workers, each round paired.
func Speedup(rows []SizeRow, row *SizeRow, cache string) stats.Interval {
	base := row
	for i := range rows {
		if r := &rows[i]; r.Size == row.Size && r.Type == row.Type && r.Workers < base.Workers {
			base = r
		}
	}
	if row.Caches[cache] == nil || base.Caches[cache] == nil {
		return stats.Interval{}
	}
	return stats.Paired(row.Caches[cache].Rates, base.Caches[cache].Rates)
}
