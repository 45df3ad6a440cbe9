package views

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/mounts"
)

// Mount is a mount for the length of a measurement.
type Mount struct {
	// Dir is where it is mounted.
	Dir string
	// PID of the daemon.
	PID int

	program, source string
	parent          string // of Dir and of all that the daemon keeps
	log             string
	socket          string // where it is not below parent, as its path would be too long
	made            bool   // the mount was
	attached        bool   // it is somebody else's
	process         int    // descriptor of the daemon, -1 before there is one
}

// ErrGone marks a mount whose daemon has ended unexpectedly.
var ErrGone = errors.New("the mount went away")

// How long things may take.
const (
	unmounting   = time.Minute
	interrupting = 10 * time.Second // of a command that is told to end
	ending       = 2 * time.Second  // of a daemon that has no mount, or is told to
)

// OpenMount mounts a dataset or store in a temporary directory. Program is the path of pipefs.
// What the mount prepares is kept and removed with it. With the options --create-store
// --store DIR it is kept in DIR, and stays.
func OpenMount(ctx context.Context, program, source string, options ...string) (_ *Mount, err error) {
	parent, err := os.MkdirTemp("", "pipefs-bench-")
	if err != nil {
		return nil, err
	}
	m := &Mount{
		Dir: filepath.Join(parent, "mnt"), parent: parent, program: program, source: source,
		log: filepath.Join(parent, "log"), process: -1,
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	for _, dir := range []string{m.Dir, filepath.Join(parent, "run")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	}
	args := append([]string{"mount", "--log-file", m.log, source, m.Dir}, options...)
	if _, err := m.run(ctx, args...); err != nil {
		return nil, fmt.Errorf("%s could not be mounted: %w", source, err)
	}
	m.made = true
	if socket, err := os.Readlink(filepath.Join(m.Dir, control.Link)); err == nil && !mounts.Inside(socket, parent) {
		m.socket = socket
	}
	stats, err := m.Stats(ctx)
	if err != nil {
		return nil, err
	}
	m.PID = stats.PID
	if m.process, err = unix.PidfdOpen(m.PID, 0); err != nil {
		return nil, fmt.Errorf("the daemon, process %d: %w", m.PID, err)
	}
	return m, nil
}

// Use hands the mount over, and closes it. If the daemon has ended, that is the error:
// it is why all else failed.
func (m *Mount) Use(ctx context.Context, use func(*Mount) error) error {
	err := use(m)
	if err != nil && ctx.Err() == nil {
		if gone := m.Gone(); gone != nil {
			err = gone
		}
	}
	return errors.Join(err, m.Close())
}

// With mounts without background work, and uses the mount.
func With(ctx context.Context, program, source string, options []string, use func(*Mount) error) error {
	m, err := OpenMount(ctx, program, source, append([]string{"--no-background"}, options...)...)
	if err != nil {
		return err
	}
	return m.Use(ctx, use)
}

// run runs pipefs with the directories of the mount.
func (m *Mount) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, m.program, args...)
	cmd.WaitDelay = interrupting
	if !m.attached {
		cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(m.parent, "cache"),
			"XDG_STATE_HOME="+filepath.Join(m.parent, "state"), "XDG_RUNTIME_DIR="+filepath.Join(m.parent, "run"))
	}
	return output(ctx, cmd)
}

// Pipefs runs a command of pipefs, which keeps what it did when it is interrupted. An
// error is what it complained of.
func Pipefs(ctx context.Context, program string, args ...string) error {
	_, err := output(ctx, exec.CommandContext(ctx, program, args...))
	return err
}

// output is what a pipefs prints. When ctx ends it is told to end, and cleans up.
func output(ctx context.Context, cmd *exec.Cmd) ([]byte, error) {
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch line := Complaint(stderr.String()); {
	case err == nil:
		return stdout.Bytes(), nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case line != "":
		return nil, errors.New(line)
	}
	return nil, fmt.Errorf("pipefs %s: %w", cmd.Args[1], err)
}

// Complaint is the error that a pipefs ended with, as one line, from its standard error.
// The name of the program is left out, and so is the name of the log, which is removed
// with the mount.
func Complaint(stderr string) string {
	const name = "pipefs: "
	if at := strings.LastIndex("\n"+stderr, "\n"+name); at >= 0 {
		stderr = stderr[at+len(name):]
	}
	var words []string
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "(log: ") {
			words = append(words, strings.Fields(line)...)
		}
	}
	return strings.Join(words, " ")
}

// Stats is what `pipefs stats` tells: the counters of the daemon.
func (m *Mount) Stats(ctx context.Context) (control.Stats, error) {
	var stats control.Stats
	out, err := m.run(ctx, "stats", "--json", m.Dir)
	if err != nil {
		if gone := m.Gone(); gone != nil {
			return stats, gone
		}
		return stats, err
	}
	if err := json.Unmarshal(out, &stats); err != nil {
		return stats, fmt.Errorf("pipefs stats: %w", err)
	}
	return stats, nil
}

// Begun is how many files of all views were read from their first byte, as the daemon
// counted. Whoever reads a dataset through its mount begins each file.
func Begun(s control.Stats) int64 {
	var n int64
	for _, c := range s.Counters {
		if c.Name == "files begun" {
			n += c.Value
		}
	}
	return n
}

// ended waits until the daemon has ended, or for patience.
func (m *Mount) ended(patience time.Duration) bool {
	for end := time.Now().Add(patience); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(m.process), Events: unix.POLLIN}}, int(max(0, time.Until(end)).Milliseconds()))
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

// Alive returns an error of the kind ErrGone, with the end of the log, if the daemon has
// ended. Ask it when files of the mount cannot be read.
func (m *Mount) Alive() error {
	if m.process < 0 || !m.ended(0) {
		return nil
	}
	return fmt.Errorf("%w: the daemon of %s, process %d, has ended; its log ends with: %s", ErrGone, m.source, m.PID, m.tail())
}

// Gone is Alive after an error: files of a mount may fail shortly before its daemon has
// ended.
func (m *Mount) Gone() error {
	if m.process >= 0 && mounts.Dead(mounts.Probe(m.Dir)) {
		m.ended(ending)
	}
	return m.Alive()
}

// tail is the last line of the log, or the line in which Go says why it ended the
// program.
func (m *Mount) tail() string {
	b, err := os.ReadFile(m.log)
	if err != nil {
		return err.Error()
	}
	last := ""
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return strings.TrimSpace(line)
		}
		if line = strings.TrimSpace(line); line != "" {
			last = line
		}
	}
	return last
}

// Close unmounts, ends the daemon and removes all that it kept. It also works when a
// context or the daemon has ended. A mount that is in use is unmounted, too; then the
// error says by whom it is used.
func (m *Mount) Close() error {
	if m.attached {
		return unix.Close(m.process)
	}
	ctx, cancel := context.WithTimeout(context.Background(), unmounting)
	defer cancel()
	var errs []error
	if m.made && (m.process < 0 || !m.ended(0)) {
		if _, err := m.run(ctx, "umount", m.Dir); err != nil {
			errs = append(errs, err)
		}
	}
	m.made = false
	// What is still mounted is busy, dead, or the mount of a daemon that was not waited
	// for.
	for range 16 {
		if there, err := mounts.At(m.Dir); err != nil || there == nil {
			errs = append(errs, err)
			break
		}
		if err := mounts.Unmount(m.Dir, true); err != nil {
			errs = append(errs, err)
			break
		}
	}
	if m.process >= 0 {
		// After one signal the daemon still serves open files; after the second it ends.
		for _, s := range []unix.Signal{0, unix.SIGTERM, unix.SIGTERM, unix.SIGKILL} {
			if s != 0 && unix.PidfdSendSignal(m.process, s, nil, 0) != nil || m.ended(ending) {
				break
			}
		}
		unix.Close(m.process)
		m.process = -1
	}
	if m.socket != "" {
		_ = os.Remove(m.socket)
	}
	// Nothing below a mount may be removed.
	if err := os.Remove(m.Dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return errors.Join(append(errs, err)...)
	}
	return errors.Join(append(errs, os.RemoveAll(m.parent))...)
}

// AttachMount uses an existing mount. Close does not unmount it.
func AttachMount(ctx context.Context, program, dir string) (_ *Mount, err error) {
	m := &Mount{Dir: dir, program: program, process: -1, attached: true}
	stats, err := m.Stats(ctx)
	if err != nil {
		return nil, err
	}
	m.PID, m.source, m.log = stats.PID, stats.Source, stats.Log
	if m.process, err = unix.PidfdOpen(m.PID, 0); err != nil {
		return nil, fmt.Errorf("the daemon of %s, process %d: %w", dir, m.PID, err)
	}
	return m, nil
}

// workPrefix is that of directories for measurements; the process's number follows.
const workPrefix = "bench-"

// WorkDir makes a directory in parent for what is prepared for a measurement, and takes away those
// of processes that were killed.
func WorkDir(parent string) (string, error) {
	left, err := filepath.Glob(filepath.Join(parent, workPrefix+"*"))
	if err != nil {
		return "", err
	}
	for _, dir := range left {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), workPrefix), "-")
		if pid, err := strconv.Atoi(number); err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			if err := os.RemoveAll(dir); err != nil {
				return "", err
			}
		}
	}
	return os.MkdirTemp(parent, fmt.Sprintf("%s%d-", workPrefix, os.Getpid()))
}

// Usage is what the daemon has used since it was started.
type Usage struct {
	CPU float64 // seconds, user and system
	// Read is how many bytes it had fetched from a disk, the page cache not counted,
	// and Resident the most memory that it had at once. 0 where the system does not
	// tell.
	Read     int64
	Resident int64
}

// Usage is what the daemon has used so far.
func (m *Mount) Usage() (u Usage, err error) {
	if u.CPU, err = m.CPU(); err != nil {
		return Usage{}, err
	}
	if u.Read, err = m.proc("io", "read_bytes:", 1); err != nil {
		return Usage{}, err
	}
	if u.Resident, err = m.proc("status", "VmHWM:", 1<<10); err != nil {
		return Usage{}, err
	}
	return u, nil
}

// Spent is what the daemon uses while something is done; Resident is the most so far.
// Of no mount it is nothing.
func (m *Mount) Spent(do func() error) (Usage, error) {
	if m == nil {
		return Usage{}, do()
	}
	before, err := m.Usage()
	if err != nil {
		return Usage{}, err
	}
	if err := do(); err != nil {
		return Usage{}, err
	}
	u, err := m.Usage()
	u.CPU, u.Read = u.CPU-before.CPU, u.Read-before.Read
	return u, err
}

// CPU is the CPU seconds, user and system, that the daemon has used.
func (m *Mount) CPU() (float64, error) {
	f, err := mounts.StatFields(fmt.Sprintf("/proc/%d/stat", m.PID))
	if gone := m.Alive(); gone != nil {
		return 0, gone
	}
	if err != nil {
		return 0, err
	}
	if len(f) < 13 { // utime and stime are the 12th and 13th
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", m.PID, len(f))
	}
	user, err := strconv.ParseInt(f[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(f[12], 10, 64)
	const ticks = 100 // USER_HZ, the same on all architectures that Go knows
	return float64(user+system) / ticks, err
}

// proc is the number after a key in a file of the daemon's directory in /proc, 0
// where this kernel does not have it, or does not tell this user.
func (m *Mount) proc(file, key string, unit int64) (int64, error) {
	n, _ := cgroup.Field(fmt.Sprintf("/proc/%d/%s", m.PID, file), key)
	if gone := m.Alive(); gone != nil {
		return 0, gone
	}
	return n * unit, nil
}
