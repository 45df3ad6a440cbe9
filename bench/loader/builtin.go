package loader

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// Builtin reads whole files and decodes them as Pillow does. Of .npy files it decodes
// nothing. It transforms nothing. The zero value is ready.
type Builtin struct {
	// Workers read at the same time; 0 means one a core.
	Workers int
}

var _ Loader = Builtin{}

func (b Builtin) workers() int {
	if b.Workers > 0 {
		return b.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// Name implements [Loader].
func (b Builtin) Name() string {
	return fmt.Sprintf("built-in, %d workers", b.workers())
}

// Close implements [Loader].
func (Builtin) Close() error { return nil }

// Epoch implements [Loader]. CPU and Disk are those of this process.
func (b Builtin) Epoch(ctx context.Context, job Job) (Epoch, error) {
	registry := codecs.Default(transcode.Limits{})
	files, err := shuffled(registry, job)
	if err != nil {
		return Epoch{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began, cpu, disk := time.Now(), OwnCPU(), OwnDisk()
	a := newAccelerator(job, len(files))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.run(ctx)
	}()
	load := Load(registry)
	r, err := Pass{Workers: b.workers(), Decode: func(ctx context.Context, data []byte) error {
		if err := load(ctx, data); err != nil {
			return err
		}
		return a.put(ctx)
	}}.Run(ctx, files)
	if err != nil {
		cancel()
	}
	<-ended
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return Epoch{}, err
	}
	e := Epoch{Bytes: r.Bytes, Seconds: time.Since(began).Seconds(), CPU: OwnCPU() - cpu, Disk: OwnDisk() - disk}
	a.fill(&e)
	return e, nil
}

// shuffled returns the files of a job in the order of its seed.
func shuffled(r *transcode.Registry, job Job) ([]string, error) {
	names := slices.Clone(job.Files)
	if job.Files == nil {
		var err error
		if names, err = samples(r, job.Dir); err != nil {
			return nil, err
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no pictures to read", job.Dir)
	}
	for i, name := range names {
		names[i] = filepath.Join(job.Dir, name)
	}
	rand.New(rand.NewPCG(job.Seed, 0)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names, nil
}

// samples lists the pictures below dir, and the .npy files that views make of them. It
// follows links.
func samples(r *transcode.Registry, dir string) ([]string, error) {
	d, err := source.Open(dir, source.Options{})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var found []string
	for name, err := range source.Files(d.List) {
		if err != nil {
			return nil, err
		}
		if r.IsSample(name) || path.Ext(name) == ".npy" {
			found = append(found, name)
		}
	}
	return found, nil
}
