package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// slow measures epochs on a slow disk, beside raw reads of the same records.
func (s *settings) slow(ctx context.Context) (err error) {
	dir, err := s.store(ctx)
	if err != nil {
		return err
	}
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	records, total, err := s.records(st)
	if err != nil {
		return err
	}
	if s.memory == 0 {
		s.memory = total / 3e6
	}
	group, err := cgroup.Enter(dir, cgroup.Limits{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, group.Close()) }()
	fmt.Printf("%d photographs in a store, %d MB; %d MB of memory for reader, daemon and page cache, %d MB/s from the disk; %s\n",
		len(records), total/1e6, s.memory, s.disk, group)
	limits := cgroup.Limits{BytesPerSecond: s.disk * 1e6, Memory: s.memory * 1e6}
	var raw, view, decoder, ratios []float64
	epoch := 0
	for round := range s.rounds {
		var r, v, d float64
		// Without limits, all in the page cache.
		err := s.mount(ctx, dir, func(m *views.Mount) error {
			if _, _, err := s.rate(m.Dir, &epoch); err != nil {
				return err
			}
			d, _, err = s.rate(m.Dir, &epoch)
			return err
		})
		if err := errors.Join(err, loader.Forget(dir), group.Set(limits)); err != nil {
			return err
		}
		// The daemon is another one, which finds the memory that it has. The page cache is as an epoch
		// leaves it, for both.
		err = s.mount(ctx, dir, func(m *views.Mount) error {
			if _, _, err := s.rate(m.Dir, &epoch); err != nil {
				return err
			}
			var order []string
			if v, order, err = s.rate(m.Dir, &epoch); err != nil {
				return err
			}
			r, err = rawRate(records, order)
			return err
		})
		if err := errors.Join(err, group.Set(cgroup.Limits{})); err != nil {
			return err
		}
		ratio := v / min(r, d)
		fmt.Printf("round %d: raw reads %.0f, decoder %.0f, epoch view %.0f images/s: %.3f of the lesser\n", round, r, d, v, ratio)
		raw, view, decoder, ratios = append(raw, r), append(view, v), append(decoder, d), append(ratios, ratio)
	}
	i := views.Bootstrap(ratios)
	fmt.Printf("medians: raw reads %.0f, decoder %.0f, epoch view %.0f images/s; ratio %.3f (%.3f – %.3f)\n",
		views.Median(raw), views.Median(decoder), views.Median(view), i.Median, i.Low, i.High)
	return nil
}

// rate reads a whole epoch: images a second after the first batch.
func (s *settings) rate(mnt string, epoch *int) (float64, []string, error) {
	r, err := s.read(mnt, place{7, *epoch, 1, 0})
	*epoch++
	if err != nil {
		return 0, nil, err
	}
	return float64(len(r.paths)-s.batch) / (r.seconds - r.first), r.paths, nil
}

// records are readers of the files in a store, by the paths of the samples; total are their bytes.
func (s *settings) records(st *store.Store) (records map[string]*store.Reader, total int64, err error) {
	dataset, err := s.copied()
	if err != nil {
		return nil, 0, err
	}
	names, err := filepath.Glob(filepath.Join(dataset, "*", "*"))
	if err != nil {
		return nil, 0, err
	}
	records = map[string]*store.Reader{}
	for _, name := range names {
		rel, err := filepath.Rel(dataset, name)
		if err != nil {
			return nil, 0, err
		}
		sample, err := st.Lookup(rel)
		if err != nil {
			return nil, 0, err
		}
		rep := sample.Representation(transcode.Original)
		if rep == nil {
			return nil, 0, fmt.Errorf("the store keeps no file of %s", rel)
		}
		if records[rel], err = st.Reader(*rep, 0); err != nil {
			return nil, 0, err
		}
		total += records[rel].Size()
	}
	return records, total, nil
}

// rawRate reads records, eight at once, in an order: images a second.
func rawRate(records map[string]*store.Reader, order []string) (float64, error) {
	next := make(chan string, len(order))
	for _, path := range order {
		next <- path
	}
	close(next)
	var readers errgroup.Group
	start := time.Now()
	for range 8 {
		readers.Go(func() error {
			var buffer []byte
			for path := range next {
				r := records[path]
				if int64(len(buffer)) < r.Size() {
					buffer = make([]byte, r.Size())
				}
				if _, err := r.ReadAt(buffer[:r.Size()], 0); err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
			}
			return nil
		})
	}
	err := readers.Wait()
	return float64(len(order)) / time.Since(start).Seconds(), err
}
