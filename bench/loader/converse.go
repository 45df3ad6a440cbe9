package loader

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// conversation is a process that answers a line of JSON with a line of JSON.
type conversation struct {
	*process
	what    string // the process, for errors
	in, out *os.File
	lines   *bufio.Reader // of out
}

// converse starts a program.
func converse(cmd *exec.Cmd, what string) (*conversation, error) {
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
	p, err := start(cmd)
	if err != nil {
		in.Close()
		out.Close()
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return &conversation{p, what, in, out, bufio.NewReader(out)}, nil
}

// ask writes a question, if it is not nil, and reads the answer. An error ends the
// process.
func (c *conversation) ask(ctx context.Context, question, answer any) error {
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
func (c *conversation) exchange(question, answer any) error {
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

// close ends the process and its workers.
func (c *conversation) close() {
	c.kill()
	c.in.Close()
	c.out.Close()
}
