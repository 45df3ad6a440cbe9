package loader

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

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
