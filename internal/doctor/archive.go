package doctor

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/control"
)

// logBytes is how much of the end of the log is kept.
const logBytes = 256 << 10

// Archive is that of `pipefs debug`: what a maintainer needs to know of a mount and its machine, without pictures,
// credentials, and names of files.
type Archive struct {
	Version   string // of this program
	Seconds   int    // that the CPU profile takes
	WithPaths bool
	// Ask asks the daemon of the mount.
	Ask    func(context.Context, control.Request) (control.Reply, error)
	Doctor func(context.Context) []Finding
}

// part is one file of the archive.
type part struct {
	name string
	make func() ([]byte, error)
}

// Write writes it. What cannot be had of a daemon that hangs is in errors.txt instead.
func (o *Archive) Write(ctx context.Context, w io.Writer) error {
	program, err := programText()
	if err != nil {
		return err
	}
	zipped := gzip.NewWriter(w)
	t := tar.NewWriter(zipped)
	now := time.Now()
	add := func(name string, b []byte) error {
		h := &tar.Header{Name: "pipefs-debug/" + name, Mode: 0o600, Size: int64(len(b)), ModTime: now, Typeflag: tar.TypeReg}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err := t.Write(b)
		return err
	}
	reply, failed := o.Ask(ctx, control.Request{Op: control.OpStats})
	stats := reply.Stats
	if stats == nil {
		stats = &control.Stats{}
	}
	theirs := ""
	if stats.PID > 0 {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", stats.PID)) // that of a daemon elsewhere cannot be had
		theirs = string(b)
	}
	s := newScrubber(o.WithPaths, program, strings.Join(os.Environ(), "\x00"), theirs)
	var missing strings.Builder
	miss := func(name string, err error) {
		if err != nil {
			fmt.Fprintf(&missing, "%s: %s\n", name, s.text(err.Error()))
		}
	}
	miss("stats.json", failed)
	for _, p := range o.parts(ctx, s, stats) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		b, err := p.make()
		if err != nil {
			miss(p.name, err)
			continue
		}
		if err := add(p.name, b); err != nil {
			return err
		}
	}
	if missing.Len() > 0 {
		err = add("errors.txt", []byte(missing.String()))
	}
	return errors.Join(err, t.Close(), zipped.Close())
}

// parts are all files of the archive.
func (o *Archive) parts(ctx context.Context, s *scrubber, stats *control.Stats) []part {
	asJSON := func(v any) func() ([]byte, error) { return func() ([]byte, error) { return s.json(v) } }
	file := func(name string) func() ([]byte, error) {
		return func() ([]byte, error) {
			b, err := os.ReadFile(name)
			return []byte(s.text(string(b))), err
		}
	}
	profile := func(name string, seconds int) func() ([]byte, error) {
		return func() ([]byte, error) {
			r, err := o.Ask(ctx, control.Request{Op: control.OpPprof, Profile: name, Seconds: seconds})
			if err != nil || name == "goroutine" { // which is text
				return r.Profile, err
			}
			return s.profile(r.Profile)
		}
	}
	parts := []part{
		{"version.json", func() ([]byte, error) { return s.json(o.machine(stats)) }},
		{"stats.json", asJSON(stats)},
		{"config.json", func() ([]byte, error) {
			r, err := o.Ask(ctx, control.Request{Op: control.OpConfig})
			if err != nil {
				return nil, err
			}
			return s.json(r.Config)
		}},
		{"doctor.json", func() ([]byte, error) { return s.json(o.Doctor(ctx)) }},
		{"goroutines.txt", profile("goroutine", 0)},
		{"heap.pprof", profile("heap", 0)},
		{"cpu.pprof", profile("cpu", o.Seconds)},
		{"mountinfo.txt", file("/proc/self/mountinfo")},
		{"meminfo.txt", file("/proc/meminfo")},
		{"pressure-io.txt", file("/proc/pressure/io")},
		{"pressure-cpu.txt", file("/proc/pressure/cpu")},
	}
	if stats.PID > 0 {
		parts = append(parts, part{"status.txt", file(fmt.Sprintf("/proc/%d/status", stats.PID))},
			part{"limits.txt", file(fmt.Sprintf("/proc/%d/limits", stats.PID))})
	}
	if stats.Log != "" {
		parts = append(parts, part{"log.txt", func() ([]byte, error) {
			b, err := tail(stats.Log)
			return []byte(s.text(string(b))), err
		}})
	}
	return parts
}

// machine is what is asked first.
func (o *Archive) machine(stats *control.Stats) map[string]any {
	var u unix.Utsname
	_ = unix.Uname(&u)
	return map[string]any{
		"pipefs": o.Version, "daemon": stats.Version, "go": runtime.Version(), "arch": runtime.GOARCH, "processors": runtime.NumCPU(),
		"kernel":    strings.Join([]string{unix.ByteSliceToString(u.Sysname[:]), unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Version[:])}, " "),
		"variables": variables(), "uid": os.Geteuid(), "written": time.Now(),
	}
}

// variables are those that change what pipefs does. They hold no credentials.
func variables() map[string]string {
	m := map[string]string{}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "PIPEFS_") || strings.HasPrefix(name, "GO") {
			m[name] = value
		}
	}
	return m
}

// tail is the end of a file, from the beginning of a line.
func tail(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	from := max(size-logBytes, 0)
	b := make([]byte, size-from)
	n, err := f.ReadAt(b, from)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	text := string(b[:n])
	if _, rest, cut := strings.Cut(text, "\n"); cut && from > 0 {
		text = rest
	}
	return []byte(text), err
}
