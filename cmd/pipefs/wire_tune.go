package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"

	benchmount "github.com/pipefs/pipefs/bench/mounted"
	"github.com/pipefs/pipefs/bench/tune"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
)

// openTuned opens a store with its fractions.
func openTuned(env *environ, c *tuneConfig) (_ tune.Opened, err error) {
	var done []func() error
	closeAll := func() error {
		var errs []error
		for i := len(done) - 1; i >= 0; i-- {
			errs = append(errs, done[i]())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()
	s, err := store.Open(c.store, store.Options{Logger: quiet(env)})
	if errors.Is(err, store.ErrNotStore) {
		return tune.Opened{}, exit.Errorf(exit.Usage, "%s is no store: pack the dataset first (pipefs pack DATASET STORE), and tune that", c.store)
	} else if err != nil {
		return tune.Opened{}, err
	}
	done = append(done, s.Close)
	o := serve.Options{Registry: mountd.Registry(c.limits, s, nil), Source: serve.StoreTree(s), Store: s, Log: quiet(env)}
	if c.dataset != "" {
		d, err := source.Open(c.dataset, source.Options{})
		if err != nil {
			return tune.Opened{}, err
		}
		done = append(done, d.Close)
		o.Dataset = d
	}
	p, err := serve.New(o)
	if err != nil {
		return tune.Opened{}, err
	}
	done = append(done, p.Close)
	shares := map[string]float64{}
	for _, f := range s.Fractions() {
		shares[f.Spec()] = f.Share()
	}
	return tune.Opened{Server: p, Registry: o.Registry, Shares: shares, Close: closeAll}, nil
}

// materializeApart runs pipefs materialize as a process of its own. most bounds the
// bytes that the fraction may take; 0 is no bound.
func materializeApart(ctx context.Context, program string, c *tuneConfig, spec string, share float64, most int64) error {
	args := []string{"materialize", c.store, spec, "--fraction", strconv.FormatFloat(share, 'g', -1, 64)}
	if c.dataset != "" {
		args = append(args, "--dataset", c.dataset)
	}
	if most > 0 && share > 0 {
		args = append(args, "--max-bytes", strconv.FormatInt(most, 10))
	}
	cmd := exec.CommandContext(ctx, program, args...)
	// It keeps what it did when it is interrupted.
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGINT) }
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		if line := benchmount.Complaint(stderr.String()); line != "" {
			return fmt.Errorf("storing %s: %s", spec, line)
		}
		return fmt.Errorf("pipefs materialize %s: %w", spec, err)
	}
	return nil
}
