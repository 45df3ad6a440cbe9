package walk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
	"github.com/pipefs/pipefs/store/blob"
)

// config is what is mounted, and how.
type config struct {
	source     string // directory, store, beside or bucket
	cache      string // page or daemon
	supervised bool
	full       bool // the disk of the caches fills up
	small      bool // the daemon has little memory
}

func (c config) String() string {
	s := c.source + " " + c.cache
	if c.supervised {
		s += " supervised"
	}
	if c.full {
		s += " full"
	}
	if c.small {
		s += " small"
	}
	return s
}

func parseConfig(s string) (c config) {
	words := strings.Fields(s)
	c.source, c.cache = words[0], words[1]
	c.supervised, c.full = strings.Contains(s, "supervised"), strings.Contains(s, "full")
	c.small = strings.Contains(s, "small")
	return c
}

// refreshed says whether edits are shown after a refresh, and not by themselves.
func (c config) refreshed() bool { return c.source == "store" || c.source == "bucket" }

// do does an operation of the world.
func (w *walk) do(o Op) error {
	if w.away && (o.Do != "kill" && o.Do != "sync") {
		if err := w.comeBack(); err != nil || o.Do == "away" {
			return err
		}
	}
	switch o.Do {
	case "sync":
		w.pending.Wait()
		return nil
	case "settle":
		w.pending.Wait()
		return w.settle()
	case "replace", "write":
		return w.put(o.Path, int(o.N), o.Do == "write" && !w.refreshed(), o.M == 1)
	case "touch":
		if w.have[o.Path] == absent {
			return nil
		}
		defer w.becomes(o.Path, w.have[o.Path])()
		return os.Chtimes(w.file(o.Path), time.Now(), time.Now())
	case "delete":
		if w.have[o.Path] == absent {
			return nil
		}
		defer w.becomes(o.Path, absent)()
		return os.Remove(w.file(o.Path))
	case "rename":
		to := edited[o.Slot]
		if w.have[o.Path] == absent || to == o.Path || filepath.Ext(to) != filepath.Ext(o.Path) {
			return nil
		}
		defer w.becomes(to, w.have[o.Path])()
		defer w.becomes(o.Path, absent)()
		return os.Rename(w.file(o.Path), w.file(to))
	case "away":
		if w.refreshed() {
			return nil
		}
		for _, name := range edited {
			defer w.history.begin(name, absent)()
		}
		w.away = true
		return os.Rename(w.file("live"), w.dataset+".away")
	case "refresh":
		return w.refresh()
	case "kill":
		pid, err := w.pid()
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGKILL)
		}
		w.kills++
		return err
	case "takeover":
		return w.command("mount", "--takeover", w.mnt)
	case "end":
		return w.end(int(o.N))
	case "fidelity":
		return w.command("fidelity", w.mnt, fmt.Sprint(o.N))
	case "clear":
		return w.command("cache", "clear", "--all")
	case "fill":
		return w.fill()
	}
	return fmt.Errorf("there is no operation %q", o.Do)
}

func (w *walk) file(name string) string { return filepath.Join(w.dataset, name) }

// becomes notes that a file gets a version, which is shown at once or after a refresh.
func (w *walk) becomes(name string, version int) (done func()) {
	w.have[name] = version
	if w.refreshed() {
		w.edited[name] = true
		return func() {}
	}
	return w.history.begin(name, version)
}

// put gives a file a version: as a new file in its place, or written into the one that is there.
func (w *walk) put(name string, version int, inPlace, truncated bool) error {
	content, err := os.ReadFile(filepath.Join(originals(version), name))
	if err != nil {
		return err
	}
	if !inPlace {
		staged := w.dataset + ".staged"
		if err := os.WriteFile(staged, content, 0o644); err != nil {
			return err
		}
		defer w.becomes(name, version)()
		return os.Rename(staged, w.file(name))
	}
	defer func() { w.becomes(name, version)() }()
	defer w.history.begin(name, torn)()
	flags := os.O_WRONLY | os.O_CREATE
	if truncated {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(w.file(name), flags, 0o644)
	if err != nil {
		return err
	}
	half := len(content) / 2
	_, err = f.Write(content[:half])
	_, err2 := f.Write(content[half:])
	return errors.Join(err, err2, f.Truncate(int64(len(content))), f.Close())
}

// comeBack undoes away.
func (w *walk) comeBack() error {
	for name, version := range w.have {
		defer w.history.begin(name, version)()
	}
	w.away = false
	return os.Rename(w.dataset+".away", w.file("live"))
}

// refresh has the mount show what the dataset has become.
func (w *walk) refresh() error {
	for name := range w.edited { // a file that was written again is another one, though its bytes are the same
		defer w.history.begin(name, w.have[name])()
	}
	clear(w.edited)
	switch w.source {
	case "directory":
		return nil
	case "bucket":
		if err := w.upload(); err != nil {
			return err
		}
	default:
		if err := w.command("pack", w.dataset, w.store); err != nil {
			return err
		}
	}
	return w.command("refresh", w.mnt)
}

// upload puts into the bucket what the dataset has.
func (w *walk) upload() error {
	there := map[string]bool{}
	err := fs.WalkDir(os.DirFS(w.dataset), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(w.file(name))
		was, uploaded := w.uploaded[name]
		if there[name] = true; err != nil || uploaded && was == string(data) {
			return err
		}
		version := blob.Version("")
		if i, err := w.bucket.Stat(context.Background(), name); err == nil {
			version = i.Version
		}
		_, err = w.bucket.PutIfMatch(context.Background(), name, version, data)
		w.uploaded[name] = string(data)
		return err
	})
	for name := range w.uploaded {
		if !there[name] {
			err = errors.Join(err, w.bucket.Delete(context.Background(), name))
			delete(w.uploaded, name)
		}
	}
	return err
}

// settle wants readers to be shown what there is now.
func (w *walk) settle() error {
	if w.refreshed() || w.source == "beside" {
		if err := w.refresh(); err != nil {
			return err
		}
	}
	for _, path := range w.paths {
		name := source(path)
		if name == "" {
			continue
		}
		version := w.history.latest(name)
		for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			seen, err := w.readers[0].ask(Op{Do: "whole", Path: path})
			is := version == absent && seen.Errno == unix.ENOENT ||
				version >= 0 && seen.Errno == 0 && (drawn(path) || seen.Equal&anywhere(1<<version) != 0)
			if err != nil || is {
				if err != nil {
					return err
				}
				break
			}
			if time.Now().After(deadline) {
				return wrong(path, "it is not shown as it is: it has version %d, and a reader gets %s", version, seen)
			}
		}
	}
	w.history.settled()
	return nil
}

func (w *walk) pid() (int, error) {
	out, err := w.output("stats", "--json", w.mnt)
	if err != nil {
		return 0, err
	}
	var stats control.Stats
	err = json.Unmarshal(out, &stats)
	return stats.PID, err
}

// end ends the mount without waiting for its readers, and makes it again.
func (w *walk) end(how int) error {
	pid, err := w.pid()
	if err != nil {
		return err
	}
	parent := parentOf(pid)
	w.down.begin.Store(now())
	switch how {
	case 0:
		err = syscall.Kill(pid, syscall.SIGKILL)
	case 1:
		err = w.command("umount", "--force", w.mnt)
	case 2:
		err = errors.Join(syscall.Kill(parent, syscall.SIGTERM), syscall.Kill(parent, syscall.SIGINT))
	default:
		err = syscall.Kill(pid, syscall.SIGTERM)
	}
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(10 * time.Second); alive(pid) || alive(parent); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("processes of the mount that was ended (way %d) are still there: %s", how, waiting())
		}
	}
	w.pending.Wait() // readers get their errors
	if at, err := mounts.At(w.mnt); err != nil || at != nil {
		if err := w.command("umount", w.mnt); err != nil {
			return err
		}
	}
	w.ends++
	if err := w.mount(); err != nil {
		return err
	}
	w.down.end.Store(now())
	return nil
}

func (w *walk) mount() error {
	args := []string{"mount", "--log-file", w.log, "--cache", w.cache, "--cache-bytes", "8M", "--allow-other"}
	if w.supervised {
		args = append(args, "--supervise", "--deaths", "1000000")
	}
	what := w.dataset
	switch w.source {
	case "store":
		what = w.store
	case "beside":
		args = append(args, "--store", w.store)
	case "bucket":
		what = w.url
	}
	cmd := exec.Command(testmount.Binary(w.t), append(args, what, w.mnt)...)
	if w.group != "" {
		cmd = exec.Command("sh", append([]string{"-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, w.group}, cmd.Args...)...)
	}
	if _, err := w.result(cmd); err != nil {
		return err
	}
	return w.command("fidelity", w.mnt, fmt.Sprint(fidelities[0]))
}

// fill leaves no room for the caches, or gives it back.
func (w *walk) fill() error {
	name := filepath.Join(w.home, "fill")
	if w.filled = !w.filled; !w.filled {
		return os.Remove(name)
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 1<<20); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		return err
	}
	return nil
}

// output runs the program.
func (w *walk) output(args ...string) ([]byte, error) {
	return w.result(exec.Command(testmount.Binary(w.t), args...))
}

func (w *walk) result(cmd *exec.Cmd) ([]byte, error) {
	cmd.Env = w.env
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return out, fmt.Errorf("%s: %w", cmd, err)
	}
	return out, nil
}

func (w *walk) command(args ...string) error {
	_, err := w.output(args...)
	return err
}

func alive(pid int) bool {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return err == nil && (len(threads) > 1 || !mounts.Zombie(pid))
}

func parentOf(pid int) (parent int) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(status), "PPid:")
	_, _ = fmt.Sscan(rest, &parent)
	return parent
}

// waiting tells which threads wait in the kernel, and cannot be interrupted.
func waiting() string {
	var b strings.Builder
	stats, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*/stat")
	for _, name := range stats {
		stat, _ := os.ReadFile(name)
		if strings.Contains(string(stat), "(pipefs) D") || strings.Contains(string(stat), "(walk.test) D") {
			in, _ := os.ReadFile(strings.TrimSuffix(name, "stat") + "wchan")
			fmt.Fprintf(&b, " %s waits in %s;", name, in)
		}
	}
	return b.String()
}

// openBucket starts a server, and puts the dataset into it.
func (w *walk) openBucket() {
	server := testenv.S3(w.t)
	for _, e := range server.Env() {
		k, v, _ := strings.Cut(e, "=")
		w.env = append(w.env, e)
		if k == "AWS_ACCESS_KEY_ID" || k == "AWS_SECRET_ACCESS_KEY" {
			testenv.Must(w.t, os.Setenv(k, v))
		}
	}
	w.url = "s3://" + server.Bucket + "/data"
	var err error
	w.bucket, err = blob.Open(context.Background(), w.url, blob.Options{Endpoint: server.Endpoint, Region: server.Region})
	testenv.Must(w.t, err)
	w.uploaded = map[string]string{}
	testenv.Must(w.t, w.upload())
}
