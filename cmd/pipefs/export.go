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
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// exportConfig is all that an export can be told.
type exportConfig struct {
	source, out string // absolute
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
		},
		words: []string{"dataset", "store", "view"},
		options: append([]*option{
			{name: "force", set: intoBool(&c.force), help: "replace files of OUT that differ"},
			{name: "workers", arg: "N", def: "one a core", set: intoInt(&c.workers, 1, 4096), help: "files that are made at once"},
			{name: "json", set: intoBool(&c.asJSON), help: "print JSON, with the names of all files that failed"},
			{name: "dataset", arg: "DIR", path: true, set: intoString(&c.dataset),
				help: "where the dataset of the store is, for originals that the store cannot give back"},
		}, append(roleOptions(&c.roles), limitOptions(&c.limits)...)...),
		run: func(ctx context.Context, args []string) (err error) {
			c.view = args[1]
			if _, err := codecs.Default(c.limits).Parse(c.view); err != nil {
				return err
			}
			if c.source, err = filepath.Abs(args[0]); err != nil {
				return err
			}
			if c.out, err = filepath.Abs(args[2]); err != nil {
				return err
			}
			return runExport(ctx, env, c, nil)
		},
	}
}

// runExport exports with a registry; nil makes files as the store has them.
func runExport(ctx context.Context, env *environ, c *exportConfig, r *transcode.Registry) error {
	x := &exporting{env: env, force: c.force, allNames: c.asJSON, causes: map[string]*failure{}, started: time.Now()}
	var err error
	x.input, err = opening{path: c.source, dataset: c.dataset, roles: c.roles, limits: c.limits, workers: c.workers, registry: r}.open(env)
	if err != nil {
		return err
	}
	defer x.close()
	if x.view, err = x.registry.Parse(c.view); err != nil {
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
	x.bar = newProgress(env, "exporting", -1)
	counted := x.countFiles(ctx, x.bar)
	err = x.run(ctx, c.workers)
	x.bar.done()
	counted()
	x.tellFailures(env.stderr)
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

// failure is why some files were not exported.
type failure struct {
	Cause string   `json:"cause"`
	Count int64    `json:"count"`
	Files []string `json:"files"` // all with --json, else the first
}

// mostNamed is how many files are named of those that failed for one cause.
const mostNamed = 10

// failed takes note of one file. All are told in the end: each is missing in OUT.
func (x *exporting) failed(path string, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.done.Failed++
	cause := withoutUnfinished(err).Error()
	// The cause is the same for all files that nobody may read.
	if p := (*os.PathError)(nil); errors.As(err, &p) && strings.HasSuffix(p.Path, path) {
		cause = p.Op + ": " + p.Err.Error()
	}
	f := x.causes[cause]
	if f == nil {
		f = &failure{Cause: cause}
		x.causes[cause] = f
		x.done.Failures = append(x.done.Failures, f)
	}
	f.Count++
	if x.allNames || len(f.Files) < mostNamed {
		f.Files = append(f.Files, path)
	}
}

// tellFailures prints one line for each cause.
func (x *exporting) tellFailures(w io.Writer) {
	for _, f := range x.done.Failures {
		slices.Sort(f.Files)
		names := strings.Join(f.Files[:min(len(f.Files), mostNamed)], ", ")
		if more := f.Count - mostNamed; more > 0 {
			names += fmt.Sprintf(" and %s more (--json names all)", formatCount(more))
		}
		fmt.Fprintf(w, "pipefs: not exported: %s: %s\n", names, f.Cause)
	}
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
