package main

import (
	"context"
	_ "embed" // for pillow.py
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

//go:embed pillow.py
var pillowPy string

// pillow is Pillow in a process of its own.
type pillow struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	stderr strings.Builder
	// About says which versions it is of.
	About string
}

func (e *env) pillow(ctx context.Context) (_ *pillow, err error) {
	script, err := e.script("pillow.py", pillowPy)
	if err != nil {
		return nil, err
	}
	p := &pillow{cmd: exec.CommandContext(ctx, e.python, script)}
	p.cmd.Stderr = &p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	answer, err := p.ask(map[string]any{"do": "about"})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pillow (Debian: python3-pil): %w", err), p.close())
	}
	p.About = answer.About
	return p, nil
}

// withPillow is an experiment that uses Pillow.
func withPillow(run func(ctx context.Context, e *env, p *pillow) (*result, error)) experiment {
	return func(ctx context.Context, e *env) (r *result, err error) {
		p, err := e.pillow(ctx)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, p.close()) }()
		return run(ctx, e, p)
	}
}

type pillowAnswer struct {
	Bytes   int64
	Seconds float64
	About   string
	Error   string
}

func (p *pillow) ask(request any) (a pillowAnswer, err error) {
	if err = json.NewEncoder(p.in).Encode(request); err == nil {
		err = p.out.Decode(&a)
	}
	if err != nil {
		return a, fmt.Errorf("pillow.py: %w: %s", err, tail(p.stderr.String()))
	}
	if a.Error != "" {
		err = fmt.Errorf("pillow.py: %s", a.Error)
	}
	return a, err
}

func (p *pillow) encode(src, dst, format string, options map[string]any) (int64, error) {
	a, err := p.ask(map[string]any{"do": "encode", "src": src, "dst": dst, "format": format, "options": options})
	return a.Bytes, err
}

func (p *pillow) decode(files []string) (seconds float64, err error) {
	a, err := p.ask(map[string]any{"do": "decode", "files": files})
	return a.Seconds, err
}

func (p *pillow) close() error {
	return errors.Join(p.in.Close(), p.cmd.Wait())
}
