package strategy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/pipefs/pipefs/bench/stats"
)

// RawConfig is what [RawRead] is to do. The zero value of a field means what is said
// of it, which is PRESTO's workload, made smaller.
type RawConfig struct {
	// Work is where a directory for the files is made, and removed at the end.
	Work    string
	Threads []int // 1 and 8
	// FileBytes is the size of the one file that each thread reads from end to end:
	// 128 MB. The paper has 5 GB.
	FileBytes int64
	// Files of FileSize bytes each are what each thread reads in random order: 500
	// of 0.2 MB. The paper has 5,000.
	Files    int
	FileSize int64
	Block    int // bytes of a read, 4 KiB
	Rounds   int // 5
	Seed     uint64
	// Progress hears what is being done; nil is nobody.
	Progress func(what string)
}

// RawRow is a line of PRESTO's table 3.
type RawRow struct {
	Threads int   `json:"threads"`
	Files   int   `json:"files"` // that each thread reads
	Bytes   int64 `json:"bytes"` // that all threads read
	// Bandwidth is in bytes/s, IOPS in reads/s, one a round.
	Bandwidth []float64 `json:"bandwidth"`
	IOPS      []float64 `json:"iops"`
	// Mean, P50 and P99 are the seconds that one read takes, of all rounds.
	Mean float64 `json:"mean_seconds"`
	P50  float64 `json:"p50_seconds"`
	P99  float64 `json:"p99_seconds"`
	// Disk is bytes a round that came from a disk, median.
	Disk float64 `json:"disk_bytes"`

	times *hdrhistogram.Histogram
	disks []float64
}

// RawRead reads plain files, from the disk, as PRESTO did with fio for its table 3:
// each thread one large file from end to end, or many small ones in random order, in
// small reads through the page cache. When it is stopped it returns what there is,
// and the error too.
func RawRead(ctx context.Context, c RawConfig) (rows []RawRow, err error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(c.Work, "pipefs-raw-")
	if err != nil {
		return nil, fmt.Errorf("a directory to work in: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	most := slices.Max(c.Threads)
	if err := checkRoom(dir, int64(most)*(c.FileBytes+int64(c.Files)*c.FileSize)); err != nil {
		return nil, err
	}
	c.Progress("writing files")
	large, small, err := c.write(ctx, dir, most)
	if err != nil {
		return nil, err
	}
	var sets [][][]string
	for _, n := range c.Threads {
		for _, files := range [][][]string{large, small} {
			sets = append(sets, files[:n])
			rows = append(rows, RawRow{Threads: n, Files: len(files[0]), times: newTimes()})
		}
	}
	random := rand.New(rand.NewPCG(c.Seed, 7))
	for round := range c.Rounds {
		for _, i := range random.Perm(len(rows)) {
			row := &rows[i]
			c.Progress(fmt.Sprintf("%d threads, %d files each, round %d of %d", row.Threads, row.Files, round+1, c.Rounds))
			if err := c.turn(ctx, row, sets[i], random); err != nil {
				return rows, err
			}
		}
	}
	return rows, nil
}

func newTimes() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(time.Minute), 3) // ns
}

func (c *RawConfig) complete() error {
	if len(c.Threads) == 0 {
		c.Threads = []int{1, 8}
	}
	if c.FileBytes <= 0 {
		c.FileBytes = 128e6
	}
	if c.Files <= 0 {
		c.Files = 500
	}
	if c.FileSize <= 0 {
		c.FileSize = 200_000
	}
	if c.Block <= 0 {
		c.Block = 4 << 10
	}
	if c.Rounds <= 0 {
		c.Rounds = 5
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return checkWorkers(c.Threads)
}

// write makes the files of all threads.
func (c *RawConfig) write(ctx context.Context, dir string, threads int) (large, small [][]string, err error) {
	random := rand.NewChaCha8([32]byte{byte(c.Seed)})
	for t := range threads {
		sub := filepath.Join(dir, fmt.Sprint(t))
		if err := os.Mkdir(sub, 0o700); err != nil {
			return nil, nil, err
		}
		name := filepath.Join(sub, "large")
		if err := writeNoise(ctx, name, c.FileBytes, random); err != nil {
			return nil, nil, err
		}
		large = append(large, []string{name})
		var names []string
		for i := range c.Files {
			name := filepath.Join(sub, fmt.Sprintf("%06d", i))
			if err := writeNoise(ctx, name, c.FileSize, random); err != nil {
				return nil, nil, err
			}
			names = append(names, name)
		}
		small = append(small, names)
	}
	return large, small, settle(dir)
}

// writeNoise makes a file that no file system can store in fewer bytes.
func writeNoise(ctx context.Context, name string, size int64, random *rand.ChaCha8) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := make([]byte, min(size, block))
	for size > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := buf[:min(size, int64(len(buf)))]
		if _, err := random.Read(b); err != nil {
			return err
		}
		if _, err := f.Write(b); err != nil {
			return err
		}
		size -= int64(len(b))
	}
	return nil
}

// turn measures a row once.
func (c *RawConfig) turn(ctx context.Context, row *RawRow, files [][]string, random *rand.Rand) error {
	for _, names := range files {
		if err := drop(names); err != nil {
			return err
		}
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	}
	times := make([]*hdrhistogram.Histogram, row.Threads)
	var bytes, reads atomic.Int64
	m := begin()
	err := each(ctx, row.Threads, func(ctx context.Context, t int) error {
		times[t] = newTimes()
		buf := make([]byte, c.Block)
		var n, count int64
		for _, name := range files[t] {
			if err := readBlocks(ctx, name, buf, func(got int, took time.Duration) {
				n, count = n+int64(got), count+1
				_ = times[t].RecordValue(max(1, took.Nanoseconds()))
			}); err != nil {
				return err
			}
		}
		bytes.Add(n)
		reads.Add(count)
		return nil
	})
	spent := m.end()
	if err != nil {
		return err
	}
	row.Bytes = bytes.Load()
	row.Bandwidth = append(row.Bandwidth, float64(bytes.Load())/spent.seconds)
	row.IOPS = append(row.IOPS, float64(reads.Load())/spent.seconds)
	row.disks = append(row.disks, float64(spent.disk))
	row.Disk = stats.Median(row.disks)
	for _, t := range times {
		row.times.Merge(t)
	}
	row.Mean = row.times.Mean() / 1e9
	row.P50, row.P99 = float64(row.times.ValueAtQuantile(50))/1e9, float64(row.times.ValueAtQuantile(99))/1e9
	return nil
}

// readBlocks reads a file from end to end.
func readBlocks(ctx context.Context, name string, buf []byte, record func(int, time.Duration)) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for ctx.Err() == nil {
		began := time.Now()
		n, err := f.Read(buf)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		record(n, time.Since(began))
	}
	return ctx.Err()
}
