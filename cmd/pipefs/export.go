package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// exportConfig is all that an export can be told.
type exportConfig struct {
	source, out string // absolute; source may be a URL
	remote      remote.Access
	view        string
	dataset     string // of a store, absolute
	roles       transcode.Roles
	limits      transcode.Limits
	workers     int
	force       bool
	asJSON      bool
}

func exportCommand(env *environ) *command {
	c := &exportConfig{}
	return &command{
		name: "export", args: "STORE|DATASET VIEW OUT", min: 3, max: 3,
		brief: "write all files of a view into a directory",
		about: "OUT becomes what a mount would show as MNT/VIEW, in plain files: the names that the view lists, every other file unchanged, with the permissions and times of the dataset. Nothing is mounted. Each file appears in OUT when it is whole; those that are there already, with the size and time that they should have, are skipped, so that an interrupted export goes on where it was.",
		examples: []example{
			{"pipefs export /data/in.store original ~/imagenet", "give the dataset back, byte for byte"},
			{"pipefs export ~/imagenet resize256-jpeg90 ~/imagenet-small", "a smaller dataset, for programs that shall not wait for a mount"},
			{"pipefs export ~/imagenet .draw/7/0/rrc224-hflip-npy ~/epoch0", "what a random view shows in epoch 0 of seed 7"},
		},
		words: []string{"dataset", "store", "view"},
		options: append([]*option{
			{name: "force", set: intoBool(&c.force), help: "replace files of OUT that differ"},
			{name: "workers", arg: "N", def: "one a core", set: intoInt(&c.workers, 1, 4096), help: "files that are made at once"},
			{name: "json", set: intoBool(&c.asJSON), help: "print JSON, with the names of all files that failed"},
			{name: "dataset", arg: "DIR", path: true, set: intoString(&c.dataset),
				help: "where the dataset of the store is, for originals that the store cannot give back"},
		}, slices.Concat(roleOptions(&c.roles), remoteOptions(&c.remote), limitOptions(&c.limits))...),
		run: func(ctx context.Context, args []string) (err error) {
			c.view = args[1]
			if _, err := exportedView(codecs.Default(c.limits), c.view); err != nil {
				return err
			}
			if c.source, err = placeOf(args[0]); err != nil {
				return err
			}
			if c.out, err = filepath.Abs(args[2]); err != nil {
				return err
			}
			return runExport(ctx, env, c, nil)
		},
	}
}

// exportedView reads the view to be exported: one whose files are the same whenever they are
// read, or one epoch of a random view.
func exportedView(r *transcode.Registry, spec string) (transcode.Pipeline, error) {
	p, err := r.ParsePath(spec)
	if err == nil && p.Undrawn() {
		err = exit.Errorf(exit.Usage, "%s is a random view, whose files are others in each epoch; say which epoch: %s/SEED/EPOCH/%[1]s, such as %[2]s/7/0/%[1]s", p, transcode.DrawDir)
	}
	return p, err
}

// runExport exports with a registry; nil makes files as the store has them.
func runExport(ctx context.Context, env *environ, c *exportConfig, r *transcode.Registry) error {
	x := &exporting{env: env, force: c.force, failures: failures{allNames: c.asJSON}, started: time.Now()}
	var err error
	x.input, err = opening{path: c.source, remote: c.remote, dataset: c.dataset, roles: c.roles, limits: c.limits, workers: c.workers, registry: r}.open(ctx, env)
	if err != nil {
		return err
	}
	defer x.close()
	if x.view, err = exportedView(x.registry, c.view); err != nil {
		return err
	}
	if x.files, err = x.input.files(env, c.roles); err != nil {
		return err
	}
	if err := mayExportTo(c); err != nil {
		return err
	}
	if x.out, err = openOutput(c.out); err != nil {
		return err
	}
	defer x.out.close()
	x.done.Spared = x.server.NewSpared(x.view)
	x.bar = newProgress(env, "exporting", -1)
	counted := x.countFiles(ctx, x.bar)
	err = x.run(ctx, c.workers)
	x.bar.done()
	counted()
	x.failures.tell(env.stderr, "not exported")
	noteSpared(env.stderr, x.done.Spared)
	x.done.Failures = x.failures.list
	if err == nil {
		err = x.out.sync()
	}
	if err != nil {
		return x.explain(c, err)
	}
	if c.asJSON {
		if err := printJSON(env.stdout, &x.done); err != nil {
			return err
		}
	} else {
		x.tell(env.stdout)
	}
	if x.done.Files+x.done.Skipped+x.done.Failed == 0 {
		fmt.Fprintf(env.stderr, "pipefs: note: %s\n", listing{}.nothing(c.source))
	}
	if x.done.Failed > 0 {
		return exit.Errorf(exit.System, "%s not exported; the same command tries again, and skips the others", plural(x.done.Failed, "file was", "files were"))
	}
	return nil
}

// mayExportTo refuses places that pipefs never writes to.
func mayExportTo(c *exportConfig) error {
	for _, dir := range []string{c.source, c.dataset} {
		if dir != "" && mounts.Inside(c.out, dir) {
			return exit.Errorf(exit.Usage, "%s lies inside %s, which an export never writes to; take a directory outside of it", c.out, dir)
		}
	}
	m, err := mounts.Holding(existing(c.out))
	if err == nil && m != nil && m.Ours() {
		return exit.Errorf(exit.Usage, "%s lies inside a mount of pipefs, of %s, which cannot be written to; take another directory", c.out, m.Source)
	}
	return err
}

// existing is the nearest directory above a path, or the path itself, that is
// there, with links followed.
func existing(path string) string {
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return real
		}
		up := filepath.Dir(path)
		if up == path {
			return path
		}
		path = up
	}
}

// explain says how to go on after an export that did not come to its end.
func (x *exporting) explain(c *exportConfig, err error) error {
	const goesOn = "what was written is whole, and the same command goes on from there"
	switch {
	case errors.Is(err, context.Canceled):
		return exit.Errorf(exit.Interrupted, "interrupted after %s; %s", plural(x.done.Files+x.done.Skipped, "file", "files"), goesOn)
	case isFull(err):
		return exit.Errorf(exit.System, "%s cannot be written to: %w; %s", c.out, withoutUnfinished(err), goesOn)
	}
	return fmt.Errorf("exporting to %s: %w", c.out, err)
}

func (x *exporting) tell(w io.Writer) {
	fmt.Fprintf(w, "exported %s, skipped %s that were there\n", plural(x.done.Files, "file", "files"), formatCount(x.done.Skipped))
	fmt.Fprintf(w, "%s written in %s\n", formatSize(x.done.Bytes), time.Since(x.started).Round(100*time.Millisecond))
}

// failed takes note of one file. All are told in the end: each is missing in OUT.
func (x *exporting) failed(path string, err error) {
	x.mu.Lock()
	x.done.Failed++
	x.mu.Unlock()
	x.failures.add(path, withoutUnfinished(err))
}

// withoutUnfinished leaves out of an error the names that only we know.
func withoutUnfinished(err error) error {
	var p *os.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p) && strings.HasPrefix(filepath.Base(p.Path), unfinishedPrefix):
		return p.Err
	case errors.As(err, &l) && strings.HasPrefix(filepath.Base(l.Old), unfinishedPrefix):
		return l.Err
	}
	return err
}
