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

	"golang.org/x/term"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/transcode"
)

func convertCommand(env *environ) *command {
	var view string
	var limits transcode.Limits
	var how l3Config
	role := "auto"
	return &command{
		name: "convert", args: "[--view VIEW] IN OUT", min: 2, max: 2,
		brief: "run a view's steps on one file, without any mount",
		about: "The quickest way to see what a view does to an image: the result is the file that the view would show, byte for byte. IN may be - for the standard input; OUT may be - for the standard output, or a directory, in which the file gets the name that the view lists. Without --view the extension of OUT says what to make.",
		examples: []example{
			{"pipefs convert --view scan3 in.jpg coarse.jpg", "the first three scans of in.jpg"},
			{"pipefs convert --view resize256-bmp in.jpg /tmp/", "makes /tmp/in.bmp, 256 pixels on its shorter side"},
			{"pipefs convert in.png out.l3", "a smaller file that decodes far faster, without loss; and convert out.l3 back.png"},
			{"cat in.jpg | pipefs convert --view npy - - | python3 -c 'import sys,io,numpy as np; print(np.load(io.BytesIO(sys.stdin.buffer.read())).shape)'", "in a pipe"},
		},
		words: []string{"step", "view", "mask"},
		options: slices.Concat([]*option{
			{name: "view", arg: "VIEW", def: "what OUT's extension says", set: intoString(&view), help: "the steps, joined by hyphens; pipefs views --steps lists them"},
			{name: "role", arg: "auto|image|mask", def: "auto, by the file's mode", set: intoChoice(&role, "auto", "image", "mask"),
				help: "whether the file is a picture or a mask"},
		}, l3Options(&how, "dense", "fast", "v1"), limitOptions(&limits)),
		run: func(ctx context.Context, args []string) error {
			r := registryWith(limits, how)
			if view == "" {
				if view = viewOf(r, args[1]); view == "" {
					return exit.Errorf(exit.Usage, "convert needs a view where the extension of OUT does not say what to make: --view resize256-bmp (pipefs views --steps lists the steps)")
				}
			}
			return convert(ctx, env, r, view, roleOf(role), args[0], args[1])
		},
	}
}

// viewOf is the view that only writes files with the extension of name, or "".
func viewOf(r *transcode.Registry, name string) string {
	ext := strings.TrimPrefix(filepath.Ext(name), ".")
	for _, k := range r.Kinds() {
		if ext != "" && k.Ext == ext && k.Max == 0 {
			return k.Name
		}
	}
	return ""
}

func roleOf(s string) transcode.Role {
	return map[string]transcode.Role{"image": transcode.Image, "mask": transcode.Mask}[s]
}

func convert(ctx context.Context, env *environ, r *transcode.Registry, view string, role transcode.Role, in, out string) error {
	p, err := r.Parse(view)
	if err != nil {
		return err
	}
	if p.Stored() {
		return exit.Errorf(exit.Usage, "%s shows what a store holds, and a file by itself is in none; write --view %s", p, p.Whole())
	}
	if in == "-" {
		if info, err := os.Stat(out); err == nil && info.IsDir() {
			return exit.Errorf(exit.Usage, "%s is a directory, and the standard input has no name to give the file in it; name the file", out)
		}
	}
	src, err := readInput(env, in)
	if err != nil {
		return err
	}
	result, err := apply(ctx, env, r, p, role, in, src)
	if err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	return writeOutput(env, r, p, role, in, out, result)
}

// apply makes the view of one file and tells the user what it did not do.
func apply(ctx context.Context, env *environ, r *transcode.Registry, p transcode.Pipeline, role transcode.Role, in string, src []byte) ([]byte, error) {
	info, err := r.ProbeBytes(src)
	if errors.Is(err, transcode.ErrUnsupported) {
		fmt.Fprintf(env.stderr, "pipefs: %s appears unchanged: %v\n", in, err)
		return src, nil
	}
	if err != nil {
		return nil, err
	}
	plan := r.Plan(p, info, role)
	if plan.Unchanged() {
		if c := causeOf(r, p, info, role); p.Len() > 0 {
			fmt.Fprintf(env.stderr, "pipefs: %s appears unchanged: %s\n", in, why(c, p, info))
		}
		return src, nil
	}
	if out := leftOut(p, plan); len(out) > 0 {
		fmt.Fprintf(env.stderr, "pipefs: %s: left out %s, which would harm a mask (--role image says that it is a picture)\n", in, strings.Join(out, ", "))
	}
	if info.Orientation > 1 && !strings.Contains(p.String(), "upright") && info.Format != p.Steps()[p.Len()-1].Kind.Format {
		fmt.Fprintf(env.stderr, "pipefs: %s has EXIF orientation %d, which the view does not apply; begin it with upright to turn it\n", in, info.Orientation)
	}
	return plan.Run(ctx, src)
}

func readInput(env *environ, in string) ([]byte, error) {
	if in == "-" {
		return io.ReadAll(env.stdin)
	}
	src, err := os.ReadFile(in)
	if err != nil {
		return nil, fmt.Errorf("IN: %w", err)
	}
	return src, nil
}

func writeOutput(env *environ, r *transcode.Registry, p transcode.Pipeline, role transcode.Role, in, out string, data []byte) error {
	if out == "-" {
		if f, ok := env.stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return exit.Errorf(exit.Usage, "the result is not for a terminal; redirect the output or name a file")
		}
		_, err := env.stdout.Write(data)
		return err
	}
	info, err := os.Stat(out)
	switch {
	case err == nil && info.IsDir():
		out = filepath.Join(out, r.Name(p, filepath.Base(in), role))
		info, err = os.Stat(out)
	case err != nil && strings.HasSuffix(out, "/"):
		return fmt.Errorf("OUT: %w", err)
	}
	if err == nil {
		if source, err := os.Stat(in); err == nil && os.SameFile(source, info) {
			return exit.Errorf(exit.Usage, "IN and OUT are the same file, %s; the original would be lost", out)
		}
		if !info.Mode().IsRegular() { // a pipe or device: nothing to replace
			return os.WriteFile(out, data, 0o666)
		}
	}
	return replace(out, data)
}

// replace makes out hold data, or leaves it as it was.
func replace(out string, data []byte) (err error) {
	// Links stay, what they point to is replaced.
	if real, err := filepath.EvalSymlinks(out); err == nil {
		out = real
	}
	mode := os.FileMode(0o666) &^ umask()
	if info, err := os.Stat(out); err == nil {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(out), ".pipefs-*.tmp")
	if err != nil {
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err // its path is that of the temporary file
		}
		return fmt.Errorf("OUT: %s: %w", out, err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("OUT: %w", err)
	}
	return os.Rename(f.Name(), out)
}
