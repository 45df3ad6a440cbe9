// Command epochs measures epoch views where bench/research/peers does not: on a slow disk with
// little memory, by several ranks at once, and at the beginning of an epoch of many files.
//
//	bin/research/epochs -program bin/pipefs -pictures DIR slow
//	bin/research/epochs -program bin/pipefs -pictures DIR ranks
//	bin/research/epochs -program bin/pipefs -pictures DIR first
//
// slow packs copies of the photographs and limits disk and memory by a cgroup, which takes root. In
// each round it reads the records of an epoch as they are, in the order of the epoch, and then an
// epoch; the decoder's rate is that of an epoch without limits. All of them read other seeds.
//
// ranks reads the same dataset by one reader, and by eight as eight ranks of a world, in turns.
//
// first opens epochs of many files, and compares the time to the first batch with that between
// batches.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pipefs/pipefs/bench/research/run"
	"github.com/pipefs/pipefs/bench/views"
)

// settings are the flags.
type settings struct {
	run.Paths
	pictures              string
	view                  string
	batch, copies, rounds int
	disk, memory          int64 // MB/s, MB
	files                 int
	options, cache        string
}

var measurements = map[string]func(*settings, context.Context) error{"slow": (*settings).slow, "ranks": (*settings).ranks, "first": (*settings).first}

func main() { run.Main("epochs", measure) }

func measure(ctx context.Context) (err error) {
	var s settings
	s.Flags("bin/bench-epochs", "on the disk that is measured: datasets and stores, which are kept there")
	flag.StringVar(&s.pictures, "pictures", "", "directory of JPEG photographs")
	flag.StringVar(&s.view, "view", "rrc224-hflip-npy", "of the epochs")
	flag.IntVar(&s.batch, "batch", 64, "samples of a batch")
	flag.IntVar(&s.copies, "copies", 10, "of each photograph")
	flag.IntVar(&s.rounds, "rounds", 3, "how often everything is measured")
	flag.Int64Var(&s.disk, "disk", 100, "slow: MB/s")
	flag.Int64Var(&s.memory, "memory", 0, "slow: MB for daemon and reader with the page cache of what they read; 0 is a third of the photographs")
	flag.IntVar(&s.files, "files", 300_000, "first: links to the photographs, in 100 directories")
	flag.StringVar(&s.cache, "cache-bytes", "64M", "of the mount: the memory for batches, too")
	flag.StringVar(&s.options, "batches", "", "what follows the number of samples of a batch in the path, such as -window4096")
	flag.Parse()
	of := measurements[flag.Arg(0)]
	if flag.NArg() != 1 || of == nil || s.pictures == "" {
		return errors.New("name slow, ranks or first, and -pictures")
	}
	if s.pictures, err = filepath.Abs(s.pictures); err != nil {
		return err
	}
	if err := s.Make(); err != nil {
		return err
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Printf("load of the machine before: %s\n", strings.Join(strings.Fields(string(b))[:2], " "))
	}
	return of(&s, ctx)
}

// dataset is the photographs, each copied or linked to so many files in so many classes; it is
// made once.
func (s *settings) dataset(name string, files, classes int, write func(from, to string) error) (string, error) {
	dir := filepath.Join(s.Out, fmt.Sprintf("%s-%d", name, files))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	names, err := filepath.Glob(filepath.Join(s.pictures, "*.[jJ][pP]*[gG]"))
	if err != nil || len(names) == 0 {
		return "", errors.Join(err, fmt.Errorf("%s has no JPEG files", s.pictures))
	}
	if files == 0 {
		files = s.copies * len(names)
	}
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return "", err
	}
	for i := range files {
		class := filepath.Join(partial, fmt.Sprintf("class%03d", i%classes))
		if i < classes {
			if err := os.MkdirAll(class, 0o755); err != nil {
				return "", err
			}
		}
		if err := write(names[i%len(names)], filepath.Join(class, fmt.Sprintf("%06d.jpg", i))); err != nil {
			return "", err
		}
	}
	return dir, os.Rename(partial, dir)
}

// copies are real copies: links would be one file to the page cache.
func (s *settings) copied() (string, error) {
	return s.dataset(fmt.Sprintf("copies%d", s.copies), 0, 10, func(from, to string) error {
		b, err := os.ReadFile(from)
		return errors.Join(err, os.WriteFile(to, b, 0o644))
	})
}

// store is the photographs packed, with the files as they are.
func (s *settings) store(ctx context.Context) (string, error) {
	dataset, err := s.copied()
	if err != nil {
		return "", err
	}
	store := dataset + ".store"
	if _, err := os.Stat(store); err == nil {
		return store, nil
	}
	partial := store + ".partial"
	if err := run.Command(ctx, s.Program, "pack", "--originals", "keep", dataset, partial); err != nil {
		return "", err
	}
	return store, os.Rename(partial, store)
}

func (s *settings) mount(ctx context.Context, source string, use func(m *views.Mount) error) error {
	return views.With(ctx, s.Program, source, []string{"--no-background", "--cache-bytes", s.cache}, use)
}
