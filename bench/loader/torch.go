package loader

import (
	"context"
	_ "embed" // the script
	"fmt"
	"path/filepath"
	"sync"
)

//go:embed imagefolder.py
var imageFolder string

// Torch is torchvision's ImageFolder and PyTorch's DataLoader with the standard
// augmentation, in a Python process that lives from one epoch to the next.
type Torch struct {
	python         string
	workers, batch int
	name           string

	mu      sync.Mutex
	running *Conversation // nil after the end of one
}

var _ Loader = (*Torch)(nil)

// usualBatch is the default size of a batch.
const usualBatch = 16

// NewTorch starts an interpreter that [FindTorch] has found. Workers are the
// DataLoader's; 0 loads in the main process, as it does in PyTorch. A batch of 0 is
// that of a job's Compute, or 16.
func NewTorch(ctx context.Context, python string, workers, batch int) (*Torch, error) {
	t := &Torch{python: python, workers: workers, batch: batch}
	if err := t.start(ctx); err != nil {
		return nil, err
	}
	return t, nil
}

// Name implements [Loader].
func (t *Torch) Name() string { return t.name }

// Close implements [Loader]. It waits for an epoch that is being read.
func (t *Torch) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stop()
	return nil
}

// torchJob and torchAnswer are lines of the script's protocol.
type torchJob struct {
	Dir            pythonName   `json:"dir"`
	Files          []pythonName `json:"files,omitempty"`
	Seed           int64        `json:"seed"`
	ComputeSeconds float64      `json:"compute_seconds"`
	ComputeBatch   int          `json:"compute_batch"`
	Warm           int          `json:"warm"`
	Workers        int          `json:"workers"`
	Batch          int          `json:"batch"`
	Work           *Work        `json:"work,omitempty"`
}

type torchAnswer struct {
	Name  string `json:"name"` // the first line's alone
	Error string `json:"error"`
	Epoch
}

// Epoch implements [Loader]. After an error about a file the next epoch can be read. If
// ctx or the process has ended, the next epoch starts a new process.
func (t *Torch) Epoch(ctx context.Context, job Job) (Epoch, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if job.Files != nil && len(job.Files) == 0 {
		return Epoch{}, fmt.Errorf("%s: no pictures to read", job.Dir)
	}
	// The interpreter keeps the working directory that this process had when it was
	// started.
	dir, err := filepath.Abs(job.Dir)
	if err != nil {
		return Epoch{}, err
	}
	if t.running == nil {
		if err := t.start(ctx); err != nil {
			return Epoch{}, err
		}
	}
	line := torchJob{
		Dir: pythonName(dir), Files: make([]pythonName, len(job.Files)), Seed: int64(job.Seed),
		ComputeSeconds: job.Compute.Time.Seconds(), ComputeBatch: job.Compute.Batch,
		Warm: job.Warm, Workers: t.workers, Batch: t.batch, Work: job.Work,
	}
	for i, name := range job.Files {
		line.Files[i] = pythonName(name)
	}
	if line.Batch <= 0 {
		line.Batch = usualBatch
		if job.Compute.Batch > 0 {
			line.Batch = job.Compute.Batch
		}
	}
	a, err := t.ask(ctx, &line)
	if err != nil {
		return Epoch{}, err
	}
	if a.Error != "" {
		return Epoch{}, fmt.Errorf("%s: %s", t.name, a.Error)
	}
	return a.Epoch, nil
}

// start starts the interpreter, and waits until it has loaded PyTorch.
func (t *Torch) start(ctx context.Context) error {
	var err error
	if t.running, err = Converse(t.python, "imagefolder.py", imageFolder, "--serve"); err != nil {
		return err
	}
	a, err := t.ask(ctx, nil)
	if err != nil {
		return err
	}
	t.name = a.Name
	return nil
}

// ask gives the interpreter a job, or nil, and waits for the answer. Without an answer
// the interpreter is ended.
func (t *Torch) ask(ctx context.Context, job any) (a torchAnswer, err error) {
	if err := t.running.Ask(ctx, job, &a); err != nil {
		t.stop()
		return torchAnswer{}, err
	}
	return a, nil
}

func (t *Torch) stop() {
	if t.running != nil {
		t.running.Close()
		t.running = nil
	}
}
