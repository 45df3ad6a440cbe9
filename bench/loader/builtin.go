package loader

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"time"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// Builtin reads whole files of a list and decodes them as Pillow does. Of .npy files it decodes
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
	files := shuffled(job)
	if len(files) == 0 {
		return Epoch{}, fmt.Errorf("%s: no pictures to read", job.Dir)
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
	load := Load(codecs.Default(transcode.Limits{}))
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
func shuffled(job Job) []string {
	names := make([]string, len(job.Files))
	for i, name := range job.Files {
		names[i] = filepath.Join(job.Dir, name)
	}
	rand.New(rand.NewPCG(job.Seed, 0)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}
