// Package loader reads directories of pictures as a training does.
//
// # Nouns
//
// A [Loader] reads epochs; a [Job] says of what, and an [Epoch] is what that took.
// There are three: [Builtin] reads and decodes as Pillow does, on goroutines, so that
// views can be compared without Python; [Torch] is torchvision's ImageFolder and
// PyTorch's DataLoader, unmodified; [Command] is the user's own.
//
// A [Pass] reads a list of files once, on several workers, in the order of the
// list, and decodes each or not: whole files, in the blocks in which CPython reads
// them. A [Result] is what it took: seconds, CPU seconds of this process, bytes, and
// how long single files took.
//
// An accelerator is emulated by sleeping. The samples that a loader reads before its
// clock starts are warm-up; they count all the same where fewer follow them.
//
// [Forget] makes the page cache drop what lies below a directory, so that the next pass
// finds it on the disk, as the first epoch of a training does.
package loader

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Loader reads an epoch of a directory as a training does.
type Loader interface {
	// Name says which loader it is, with versions: "torch 1.13.1, torchvision 0.14.1,
	// Pillow 9.4.0".
	Name() string
	// Epoch reads all files of a job once. An error says what the loader printed.
	Epoch(ctx context.Context, job Job) (Epoch, error)
	// Close ends the processes of the loader.
	Close() error
}

// Job is an epoch to be read.
type Job struct {
	// Dir is what the loader is pointed at: a view, or a plain directory.
	Dir string
	// Files are the samples, by their names below Dir, which all views resolve. The
	// loader shuffles them by Seed. Nil lets it look for files itself, but for [Builtin].
	Files []string
	Seed  uint64
	// Compute is the emulated accelerator; the zero value takes no time.
	Compute Compute
	// Warm is how many samples are read before the clock of Epoch.Rate starts: by then
	// the workers have started, and the queues are full.
	Warm int
	// Work is what is done to the pictures; nil is the usual augmentation, and batches of
	// float32. Only loaders with PyTorch do any.
	Work *Work
}

// Compute emulates an accelerator by sleeping: it takes Time for a batch of so many
// samples, as MLPerf Storage does. A queue of a few batches stands before it. When the
// queue is empty it waits.
type Compute struct {
	Time  time.Duration
	Batch int
}

// Per is the time that samples take.
func (c Compute) Per(samples int) time.Duration {
	if c.Batch == 0 {
		return 0
	}
	return time.Duration(float64(c.Time) * float64(samples) / float64(c.Batch))
}

// ParseCompute reads "0.224s/400", the time of a batch and its size.
func ParseCompute(s string) (Compute, error) {
	t, n, ok := strings.Cut(s, "/")
	d, err := time.ParseDuration(t)
	batch, e := strconv.Atoi(n)
	if !ok || err != nil || e != nil || d < 0 || batch < 1 {
		return Compute{}, fmt.Errorf("%q is not the time of a batch and its size, such as 0.224s/400", s)
	}
	return Compute{d, batch}, nil
}

// Epoch is what reading an epoch took.
type Epoch struct {
	Samples int     `json:"samples"`
	Bytes   int64   `json:"bytes"`   // of the files that were read
	Seconds float64 `json:"seconds"` // of wall time, all of it
	// Rate is in samples/s, those of Job.Warm not counted.
	Rate float64 `json:"rate"`
	// CPU is the seconds, user and system, that the loader used, workers included.
	CPU float64 `json:"cpu_seconds"`
	// Disk is how many bytes the loader itself read from a disk. What a mount reads is
	// counted by its daemon.
	Disk int64 `json:"disk_bytes"`
	// Utilisation is the share of the time in which the accelerator computed. Wait99 is
	// how long it waited for one batch in a hundred, in seconds. Both only with a
	// Compute.
	Utilisation float64 `json:"utilisation,omitempty"`
	Wait99      float64 `json:"wait99_seconds,omitempty"`
}

// deep is the most batches that wait for an accelerator: as many as two workers of a
// DataLoader fetch ahead.
const deep = 4

// accelerator takes batches of samples from a bounded queue and counts them. If the job
// emulates an accelerator, it sleeps for as long as computing would take.
type accelerator struct {
	compute       Compute
	samples, warm int // of the epoch, and those before the clock starts
	queue         chan struct{}

	seen     int // samples
	since    time.Time
	before   int             // samples that were seen at that time
	waits    []time.Duration // for a batch each, since then
	computed time.Duration   // since then
}

func newAccelerator(job Job, samples int) *accelerator {
	return &accelerator{
		compute: job.Compute, samples: samples, warm: job.Warm,
		queue: make(chan struct{}, deep*max(1, job.Compute.Batch)), since: time.Now(),
	}
}

// put hands a sample over, and waits where the queue is full.
func (a *accelerator) put(ctx context.Context) error {
	select {
	case a.queue <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run takes all samples. It returns early when ctx ends.
func (a *accelerator) run(ctx context.Context) {
	for a.seen < a.samples {
		asked := time.Now()
		n := min(max(1, a.compute.Batch), a.samples-a.seen)
		for range n {
			select {
			case <-a.queue:
			case <-ctx.Done():
				return
			}
		}
		a.seen += n
		if took := a.compute.Per(n); took > 0 {
			a.waits = append(a.waits, time.Since(asked))
			a.computed += took
			select {
			case <-time.After(took):
			case <-ctx.Done():
				return
			}
		}
		if a.warm > 0 && a.before == 0 && a.seen >= a.warm && a.samples-a.seen >= a.warm {
			a.since, a.before, a.waits, a.computed = time.Now(), a.seen, nil, 0
		}
	}
}

// fill writes what was seen until now into e.
func (a *accelerator) fill(e *Epoch) {
	seconds := time.Since(a.since).Seconds()
	e.Samples, e.Rate = a.seen, float64(a.seen-a.before)/seconds
	if len(a.waits) > 0 {
		e.Utilisation = a.computed.Seconds() / seconds
		slices.Sort(a.waits)
		e.Wait99 = a.waits[len(a.waits)-1-len(a.waits)/100].Seconds()
	}
}
