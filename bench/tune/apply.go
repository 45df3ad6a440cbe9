package tune

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/bench/mounted"
	"github.com/pipefs/pipefs/store"
)

// Apply stores what won, within MaxBytes if that is not 0, and has auto lead to it from the next
// mount on. It takes a report that has a winner.
func (c *Config) Apply(ctx context.Context, r *Report) error {
	won := r.Views[r.Winner]
	if won.Encoded != "" {
		if err := c.materialize(ctx, c.View, won.Share, c.MaxBytes); err != nil {
			return err
		}
	}
	if won.Encoded == "l3" {
		left := c.MaxBytes
		if left > 0 {
			left = max(1, left-int64(won.Share*float64(r.Materialized)))
		}
		if err := c.materialize(ctx, "l3", 1, left); err != nil {
			return err
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	return store.WriteAuto(c.Store, store.Auto{View: won.View, Share: won.Share, Host: host, Time: time.Now().UTC().Truncate(time.Second)})
}

// materialize stores what a pipeline makes of a share of the samples: pipefs materialize, as a
// process of its own. most bounds the bytes that the fraction may take; 0 is no bound.
func (c *Config) materialize(ctx context.Context, spec string, share float64, most int64) error {
	args := []string{"materialize", c.Store, spec, "--fraction", strconv.FormatFloat(share, 'g', -1, 64)}
	if c.Dataset != "" {
		args = append(args, "--dataset", c.Dataset)
	}
	if most > 0 && share > 0 {
		args = append(args, "--max-bytes", strconv.FormatInt(most, 10))
	}
	cmd := exec.CommandContext(ctx, c.Program, args...)
	// It keeps what it did when it is interrupted.
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGINT) }
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		if line := mounted.Complaint(stderr.String()); line != "" {
			return fmt.Errorf("storing %s: %s", spec, line)
		}
		return fmt.Errorf("pipefs materialize %s: %w", spec, err)
	}
	return nil
}
