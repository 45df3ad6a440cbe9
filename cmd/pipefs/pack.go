package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// packConfig is all that a packing can be told.
type packConfig struct {
	dataset, store string // absolute
	recordImages   int
	order          string
	seed           int64 // -1: none was given
	workers        int
	originals      string
	scans          []int // at which JPEG files can be cut; nil: as the store has them
	represent      string
	l3             l3Config
	noFollow       bool
	limits         transcode.Limits
}

func packCommand(env *environ) *command {
	c := &packConfig{seed: -1}
	return &command{
		name: "pack", args: "DATASET STORE", min: 2, max: 2,
		brief: "prepare a dataset ahead of time, as a store",
		about: "The store holds each JPEG scan by scan, losslessly, with the little that gives the file back byte for byte, and every other file as it is; it can be mounted with its dataset (pipefs mount --store STORE DATASET MNT) or without (pipefs mount STORE MNT), by any number of machines at once. Packing again brings it up to date: what did not change is skipped. An interrupted packing goes on where it was.",
		examples: []example{
			{"pipefs pack ~/imagenet /data/in.store", "prepare everything, for random reads"},
			{"pipefs pack --record-images 1024 --order shuffle --seed 1 ~/imagenet /nfs/in.store", "for slow disks and object stores: readers take the samples in packed order"},
			{"pipefs pack --scans 5,10 ~/imagenet /data/in.store", "two fidelities only, in nine scans instead of ten"},
			{"pipefs pack --represent l3 --originals drop ~/photos-png /data/ph.store", "photographs as PNG: three quarters of the bytes, and views of pixels several times as fast"},
		},
		words: []string{"dataset", "store", "record"},
		options: slices.Concat([]*option{
			{name: "record-images", arg: "K", def: "1, or what the store has", set: intoInt(&c.recordImages, 1, 1<<20),
				help: "samples that are stored together, scan group by scan group"},
			{name: "order", arg: "path|shuffle", def: "path, or what the store has", set: intoChoice(&c.order, "path", "shuffle"),
				help: "the order of samples in the store, which is the one in which a mount lists them if it is not by path"},
			{name: "originals", arg: "rebuild|keep|drop", def: "rebuild", set: intoChoice(&c.originals, "rebuild", "keep", "drop"),
				help: "how MNT/original is there without the dataset: rebuild stores what gives each JPEG file back from its scans, and the file where nothing does; keep stores the files; drop stores neither"},
			{name: "scans", arg: "K,K,…", def: "1 to 10, or what the store has", set: intoLevels(&c.scans),
				help: "the fidelities that JPEG files are stored for, 10 is always among them: what lies between two of them comes in one part, in as few scans as JPEG allows. Any other fidelity shows the next lower one"},
			{name: "represent", arg: "l3", set: intoChoice(&c.represent, "l3"),
				help: "store the pictures of PNG, BMP, PNM, TIFF and lossless WebP files as L3 files, which decode far faster and from which every view of pixels is made; --originals drop leaves out the files themselves"},
			{name: "workers", arg: "N", def: "one a core", set: intoInt(&c.workers, 1, 4096), help: "samples that are encoded at once"},
		}, rarely([]*option{
			{name: "seed", arg: "N", def: "0", set: intoInt(&c.seed, 0, math.MaxInt64), help: "of --order shuffle"},
			{name: "no-follow", set: intoBool(&c.noFollow), help: "refuse symbolic links that lead out of the dataset"},
		}...), rarely(l3Options(&c.l3, "dense", "fast")...), limitOptions(&c.limits)),
		run: func(ctx context.Context, args []string) error {
			c.dataset, c.store = args[0], args[1]
			if c.l3.given() && c.represent == "" {
				return exit.Errorf(exit.Usage, "--l3-mode and --patch say how --represent l3 is to be done; add that, or leave them out")
			}
			if c.seed >= 0 && c.order != "shuffle" {
				return exit.Errorf(exit.Usage, "--seed is of the shuffle: add --order shuffle, or leave --seed out")
			}
			return runPack(ctx, env, c)
		},
	}
}

func runPack(ctx context.Context, env *environ, c *packConfig) error {
	err := statSource(c.dataset)
	if err == nil {
		c.dataset, err = mounts.Resolve(c.dataset)
	}
	if err != nil {
		return exit.With(exit.System, err)
	}
	if !mayHoldFiles(c.dataset) {
		return exit.Errorf(exit.System, "%s is empty: there is no file in it, and nothing was packed. If it is where a disk belongs, mount that first", c.dataset)
	}
	if c.store, err = filepath.Abs(c.store); err != nil {
		return err
	}
	if mounts.Inside(c.store, c.dataset) {
		return exit.Errorf(exit.Usage, "the store %s lies inside the dataset, which pipefs never writes to; take a directory outside of it", c.store)
	}
	d, err := source.Open(c.dataset, source.Options{NoFollow: c.noFollow})
	if err != nil {
		return err
	}
	defer d.Close()
	w := &packing{env: env, started: time.Now()}
	w.bar = newProgress(env, "packing", -1)
	counted := (&input{tree: d, registry: codecs.Default(c.limits)}).countFiles(ctx, w.bar)
	report, err := packStore(ctx, c, d, w)
	w.bar.done()
	counted()
	if err != nil {
		return packError(c, report, err)
	}
	w.tell(env.stdout, c, report)
	if err := tellOriginals(env, c); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "mount it with: pipefs mount %s MNT (beside its dataset: pipefs mount --store %[1]s %s MNT)\n", shellWord(c.store), shellWord(c.dataset))
	return nil
}

// tellOriginals tells what a store does not give back on its own, or at a price.
func tellOriginals(env *environ, c *packConfig) error {
	s, err := opening{path: c.store, limits: c.limits}.open(env)
	if err != nil {
		return err
	}
	defer s.close()
	g, err := s.gaps()
	if err != nil {
		return err
	}
	if c.originals == "drop" && g.Describe() != "" {
		note(env.stdout, "without the dataset, %s", g.Describe())
	}
	n, err := s.server.Rebuilt()
	if n > 0 {
		note(env.stdout, "without the dataset, original/ rebuilds %s from scans when they are first read, at %s; --originals keep stores the files instead",
			plural(n, "JPEG file", "JPEG files"), rebuildCost)
	}
	return err
}
