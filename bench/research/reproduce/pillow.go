package main

import (
	"context"
	_ "embed" // for pillow.py
	"fmt"

	"github.com/pipefs/pipefs/bench/loader"
)

//go:embed pillow.py
var pillowPy string

// pillow is Pillow in a process of its own.
type pillow struct {
	*loader.Conversation
	// About says which versions it is of.
	About string
}

// withPillow is an experiment that uses Pillow.
func withPillow(run func(ctx context.Context, e *env, p *pillow) (*result, error)) experiment {
	return func(ctx context.Context, e *env) (r *result, err error) {
		p := &pillow{}
		if p.Conversation, err = loader.Converse(e.python, "pillow.py", pillowPy); err != nil {
			return nil, err
		}
		defer p.Close()
		about, err := p.ask(ctx, map[string]any{"do": "about"})
		if err != nil {
			return nil, fmt.Errorf("pillow (Debian: python3-pil): %w", err)
		}
		p.About = about.About
		return run(ctx, e, p)
	}
}

type pillowAnswer struct {
	Bytes   int64
	Seconds float64
	About   string
	Error   string
}

func (p *pillow) ask(ctx context.Context, request any) (a pillowAnswer, err error) {
	if err = p.Ask(ctx, request, &a); err == nil && a.Error != "" {
		err = fmt.Errorf("pillow.py: %s", a.Error)
	}
	return a, err
}

func (p *pillow) encode(ctx context.Context, src, dst, format string, options map[string]any) (int64, error) {
	a, err := p.ask(ctx, map[string]any{"do": "encode", "src": src, "dst": dst, "format": format, "options": options})
	return a.Bytes, err
}

func (p *pillow) decode(ctx context.Context, files []string) (seconds float64, err error) {
	a, err := p.ask(ctx, map[string]any{"do": "decode", "files": files})
	return a.Seconds, err
}
