package loader

import (
	"bytes"
	"context"
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
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		// After the name in brackets: state, parent, group.
		f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		if len(f) > 2 && string(f[2]) == strconv.Itoa(group) && f[0][0] != 'Z' && f[0][0] != 'X' {
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
	if text := p.messages.lines(12); text != "" {
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
