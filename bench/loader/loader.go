package loader

import (
	"context"
	"fmt"
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
	// loader shuffles them by Seed. Nil lets it look for files itself.
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
