package l3

import (
	"context"
	"sync"

	v2 "github.com/pipefs/pipefs/transcode/l3/internal/v2"
)

// Job is a picture to be decoded.
type Job struct {
	Samples *Samples
	Dst     Target
	// Err is why it was not decoded, or nil.
	Err error
}

// Backend decodes batches of pictures. It is safe for concurrent use.
type Backend interface {
	// Decode decodes all jobs and sets their Err. It returns an error if the backend
	// itself failed or ctx ended: then jobs may not have been decoded.
	Decode(ctx context.Context, jobs []Job) error
	// Close gives its resources back.
	Close() error
}

// CPU is the Backend that decodes with this package.
type CPU struct {
	Workers int // pictures at once; 0 means 1
}

// Decode implements [Backend].
func (c CPU) Decode(ctx context.Context, jobs []Job) error {
	var work sync.WaitGroup
	next := make(chan *Job)
	for range max(1, c.Workers) {
		work.Go(func() {
			for j := range next {
				j.Err = j.Samples.Decode(j.Dst)
			}
		})
	}
	var err error
	for i := range jobs {
		if err = ctx.Err(); err != nil {
			break
		}
		next <- &jobs[i]
	}
	close(next)
	work.Wait()
	return err
}

// Close implements [Backend].
func (CPU) Close() error { return nil }

// scratches are the working memory of decodings.
var scratches = sync.Pool{New: func() any { return new(v2.Scratch) }}
