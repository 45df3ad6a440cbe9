package loader

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mounts"
)

// process is a running program with a process group of its own, so that its workers
// can be ended with it.
type process struct {
	cmd      *exec.Cmd
	messages tail
	ended    chan struct{} // closed when it has been waited for
	err      error         // of that
}

// start starts a program. Its standard error is kept for messages. The kernel ends the
// program when this process ends; it takes the thread that started the program for its
// parent, so that thread is kept. Processes that the program leaves behind in its group
// are killed with it.
func start(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, messages: tail{most: 8 << 10}, ended: make(chan struct{})}
	cmd.Stderr = &p.messages
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	cmd.WaitDelay = 5 * time.Second // for what left the group and holds a pipe
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = p.wait()
			close(p.ended)
		}
	}()
	return p, <-started
}

// wait waits for the program, and ends the rest of its group.
func (p *process) wait() error {
	pid := p.cmd.Process.Pid
	// Until the program has been waited for, no other process can get the number of the
	// group.
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = unix.Kill(-pid, unix.SIGKILL)
	// They may have files of a mount open until they are gone.
	for began := time.Now(); len(members(pid)) > 0 && time.Since(began) < 5*time.Second; {
		time.Sleep(5 * time.Millisecond)
	}
	return p.cmd.Wait()
}

// kill ends the program and its group, and returns when none of them runs.
func (p *process) kill() {
	select {
	case <-p.ended:
	default:
		_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
		<-p.ended
	}
}

// members lists the processes of a group that run. Zombies do not.
func members(group int) (pids []string) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		f, _ := mounts.StatFields(name) // state, parent, group
		if len(f) > 2 && f[2] == strconv.Itoa(group) && f[0][0] != 'Z' && f[0][0] != 'X' {
			pids = append(pids, filepath.Base(filepath.Dir(name)))
		}
	}
	return pids
}

// failure says how a program ended that should go on, and the end of what it printed.
func (p *process) failure(ctx context.Context, what string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := p.err
	if err == nil {
		err = errors.New("it ended by itself")
	}
	if text := p.messages.lines(40); text != "" { // a traceback of Python's has more than 20
		return fmt.Errorf("%s: %w\n%s", what, err, text)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// tail keeps the end of what is written to it.
type tail struct {
	most int // bytes

	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - t.most; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(b), nil
}

// lines returns the last n lines that are not empty.
func (t *tail) lines(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []string
	for line := range strings.Lines(string(t.kept)) {
		if line = strings.TrimRight(line, " \t\r\n"); line != "" {
			found = append(found, line)
		}
	}
	return strings.Join(found[max(0, len(found)-n):], "\n")
}

// Conversation is a process that answers a line of JSON with a line of JSON.
type Conversation struct {
	*process
	what    string // the process, for errors
	in, out *os.File
	lines   *bufio.Reader // of out
}

// Converse runs a Python script that is part of this program. The script is in memory,
// so that nothing is left behind on any disk.
func Converse(python, name, text string, args ...string) (_ *Conversation, err error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory for %s: %w", name, os.NewSyscallError("memfd_create", err))
	}
	source := os.NewFile(uintptr(fd), name)
	defer source.Close()
	if _, err := source.WriteString(text); err != nil {
		return nil, err
	}
	// Python opens it again, and so reads from its beginning. It is the first file after
	// standard error.
	cmd := exec.Command(python, append([]string{"/proc/self/fd/3"}, args...)...)
	cmd.ExtraFiles = []*os.File{source}
	cmd.Env = append(os.Environ(), "PYTHONUTF8=1")
	c := &Conversation{what: python + ", which runs " + name}
	// These are not the pipes of os/exec: those close when the process ends, even if its
	// last words have not been read.
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	out, stdout, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, err
	}
	defer stdout.Close()
	cmd.Stdin, cmd.Stdout = stdin, stdout
	c.in, c.out, c.lines = in, out, bufio.NewReader(out)
	if c.process, err = start(cmd); err != nil {
		in.Close()
		out.Close()
		return nil, fmt.Errorf("%s: %w", c.what, err)
	}
	return c, nil
}

// Ask writes a question, if it is not nil, and reads the answer. An error ends the
// process.
func (c *Conversation) Ask(ctx context.Context, question, answer any) error {
	done := make(chan error, 1)
	go func() { done <- c.exchange(question, answer) }()
	var err error
	select {
	case err = <-done:
	case <-c.ended: // perhaps after an answer
		err = <-done
	case <-ctx.Done():
		c.kill()
		err = errors.Join(ctx.Err(), <-done)
	}
	if err == nil {
		return nil
	}
	c.kill()
	if errors.Is(err, errAnswer) {
		return fmt.Errorf("%s: %w", c.what, err)
	}
	return c.failure(ctx, c.what)
}

// errAnswer marks a line that is no answer.
var errAnswer = errors.New("an answer that makes no sense")

// exchange waits as long as the process takes.
func (c *Conversation) exchange(question, answer any) error {
	if question != nil {
		if err := json.NewEncoder(c.in).Encode(question); err != nil {
			return err
		}
	}
	line, err := c.lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, answer); err != nil {
		return fmt.Errorf("%w: %q: %w", errAnswer, line, err)
	}
	return nil
}

// Close ends the process and its workers.
func (c *Conversation) Close() {
	c.kill()
	c.in.Close()
	c.out.Close()
}
