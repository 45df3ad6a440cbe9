package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

func convertCommand(env *environ) *cli.Command {
	var view string
	var force bool
	var limits transcode.Limits
	var how l3Config
	role := "auto"
	return &cli.Command{
		Name: "convert", ArgsUsage: "[--view VIEW] IN OUT", Category: everyday, Usage: "apply a view to one file, without a mount",
		Description: "Writes the file that a mount would show, byte for byte. IN and OUT may be - for standard input and output. OUT may be a directory. Without --view, the extension of OUT chooses the format.",
		UsageText: `pipefs convert --view scan3 in.jpg coarse.jpg
pipefs convert --view resize256-bmp in.jpg /tmp/      # makes /tmp/in.bmp
pipefs convert in.png out.l3
cat in.jpg | pipefs convert --view npy - - >out.npy`,
		Flags: slices.Concat([]cli.Flag{
			opt("view", "VIEW", "what OUT's extension says", intoString(&view), "apply these steps, joined by hyphens (see pipefs views --steps)"),
			opt("role", "auto|image|mask", "auto, by the file's mode", intoChoice(&role, "auto", "image", "mask"), "treat the file as a picture or as a mask"),
			&cli.BoolFlag{Name: "force", Destination: &force, Usage: "write OUT even if its extension does not match the result"},
		}, l3Flags(&how, "dense", "fast", "v1"), limitFlags(&limits)),
		Action: takes(2, 2, func(ctx context.Context, args []string) error {
			r := codecs.New(limits, codecs.Options{L3: how.Options})
			if view == "" {
				if view = viewOf(r, args[1]); view == "" {
					return exit.Errorf(exit.Usage, "convert needs a view where the extension of OUT does not say what to make: --view resize256-bmp (pipefs views --steps lists the steps)")
				}
			}
			return convert(ctx, env, r, conversion{view: view, role: roleOf(role), in: args[0], out: args[1], force: force, l3: how.given()})
		}),
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

// conversion is what is to be made of which file.
type conversion struct {
	view    string
	role    transcode.Role
	in, out string // - for the standard input and output
	force   bool   // whatever the extension of out
	l3      bool   // options of L3 files were given
}

func convert(ctx context.Context, env *environ, r *transcode.Registry, c conversion) error {
	p, err := r.ParsePath(c.view)
	switch {
	case err != nil:
		return err
	case p.Random():
		return exit.Errorf(exit.Usage, "%s is a random view: what it draws depends on the seed, the epoch and the path of the file in its dataset, and a file by itself has none. A mount shows it at MNT/%s/SEED/EPOCH/%[1]s, and pipefs export DATASET %[2]s/7/0/%[1]s OUT writes an epoch. The view that draws nothing is %[3]s",
			p, transcode.DrawDir, p.Validation())
	case p.Stored():
		return exit.Errorf(exit.Usage, "%s shows what a store holds, and a file by itself is in none; write --view %s", p, p.Whole())
	case c.l3 && (p.Len() == 0 || p.Steps()[p.Len()-1].Kind.Format != transcode.L3):
		return exit.Errorf(exit.Usage, "--l3-mode says how L3 files are written, and %s writes none: leave it out", p)
	}
	if whole := p.Whole(); whole.String() != p.String() {
		return exit.Errorf(exit.Usage, "%s says what a file is called, and OUT says that here; write --view %s", p, whole)
	}
	if c.in == "-" {
		if info, err := os.Stat(c.out); err == nil && info.IsDir() {
			return exit.Errorf(exit.Usage, "%s is a directory, and the standard input has no name to give the file in it; name the file", c.out)
		}
	}
	src, err := readInput(env, c.in, r.Limits())
	if err != nil {
		return err
	}
	made, err := c.apply(ctx, env, r, p, src)
	if err != nil {
		return fmt.Errorf("%s: %w", c.in, err)
	}
	return c.write(env, r, p, made)
}

// converted is a file that was made, and what it is.
type converted struct {
	data      []byte
	format    transcode.Format // Unknown: what no codec reads
	unchanged bool
}

// apply makes the view of one file and tells the user what it did not do.
func (c *conversion) apply(ctx context.Context, env *environ, r *transcode.Registry, p transcode.Pipeline, src []byte) (converted, error) {
	info, err := r.ProbeBytes(src)
	if errors.Is(err, transcode.ErrUnsupported) {
		fmt.Fprintf(env.stderr, "pipefs: %s appears unchanged: %v\n", c.in, err)
		return converted{data: src, unchanged: true}, nil
	}
	if err != nil {
		return converted{}, err
	}
	role := p.Role(c.role)
	if pixels, err := r.Parse("rgb-npy"); err == nil && r.Undecided(p, info, role) {
		if made, err := r.Plan(pixels, info, role).Run(ctx, src); err == nil && transcode.LookOfArray(info, transcode.ModeRGB, made) == transcode.LookPicture {
			role = transcode.Image
		}
	}
	plan := r.Plan(p, info, role)
	if plan.Unchanged() {
		if p.Len() > 0 {
			fmt.Fprintf(env.stderr, "pipefs: %s appears unchanged: %s\n", c.in, mountd.Why(r, p, info, plan))
		}
		return converted{src, info.Format, true}, nil
	}
	last := plan.Steps()[plan.Len()-1].Kind
	if role == transcode.Auto && plan.Blends() && info.MayBeLabels() {
		if px, err := r.Decode(ctx, src); err == nil && transcode.LookOf(px) == transcode.LookLabels {
			return converted{}, exit.Errorf(exit.Usage, "it has few colours and hard edges, as masks have, and %s would blend them; say --role mask if it is a mask, or --role image if it is a picture", p)
		}
	}
	if out := mountd.LeftOut(p, plan); len(out) > 0 {
		fmt.Fprintf(env.stderr, "pipefs: %s: left out %s, which would harm a mask (--role image says that it is a picture)\n", c.in, strings.Join(out, ", "))
	}
	if info.Orientation > 1 && !strings.Contains(p.String(), "upright") && info.Format != last.Format {
		fmt.Fprintf(env.stderr, "pipefs: %s has EXIF orientation %d, which the view does not apply; begin it with upright to turn it\n", c.in, info.Orientation)
	}
	format := last.Format
	if format == transcode.Unknown { // scans of a JPEG are a JPEG
		format = info.Format
	}
	data, err := plan.Run(ctx, src)
	return converted{data, format, false}, err
}

// readInput reads a whole file, or the standard input, within the limits: what is
// longer would appear unchanged, and there is nothing to convert.
func readInput(env *environ, in string, lim transcode.Limits) ([]byte, error) {
	from := env.stdin
	size := int64(0)
	if in != "-" {
		f, err := os.Open(in)
		if err != nil {
			return nil, fmt.Errorf("IN: %w", err)
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil {
			size = info.Size()
		}
		from = f
	}
	if err := lim.CheckFile(size); err != nil {
		return nil, fmt.Errorf("IN: %w", err)
	}
	// One byte more tells a pipe or a device that goes on.
	most := cmp.Or(lim.MaxFile, transcode.DefaultMaxFile)
	src := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	if _, err := src.ReadFrom(io.LimitReader(from, most+1)); err != nil {
		return nil, fmt.Errorf("IN: %w", err)
	}
	if err := lim.CheckFile(int64(src.Len())); err != nil {
		return nil, fmt.Errorf("IN: %w", err)
	}
	return src.Bytes(), nil
}

func (c *conversion) write(env *environ, r *transcode.Registry, p transcode.Pipeline, made converted) error {
	if c.out == "-" {
		if f, ok := env.stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return exit.Errorf(exit.Usage, "the result is not for a terminal; redirect the output or name a file")
		}
		_, err := env.stdout.Write(made.data)
		return err
	}
	out := c.out
	info, err := os.Stat(out)
	switch {
	case err == nil && info.IsDir():
		out = filepath.Join(out, r.Name(p, filepath.Base(c.in), c.role))
		info, err = os.Stat(out)
	case err != nil && strings.HasSuffix(out, "/"):
		return fmt.Errorf("OUT: %w", err)
	case err == nil && !info.Mode().IsRegular(): // a pipe or device: nothing to replace
		return os.WriteFile(out, made.data, 0o666)
	}
	if err == nil {
		if source, err := os.Stat(c.in); err == nil && os.SameFile(source, info) {
			return exit.Errorf(exit.Usage, "IN and OUT are the same file, %s; the original would be lost", out)
		}
	}
	if out == c.out { // in a directory the file has the name that the view lists
		if err := c.checkExtension(r, made); err != nil {
			return err
		}
	}
	return replace(out, made.data)
}

// checkExtension refuses a name that says something else than the file is: many
// loaders go by the name.
func (c *conversion) checkExtension(r *transcode.Registry, made converted) error {
	ext := strings.ToLower(strings.TrimPrefix(filepath.Ext(c.out), "."))
	right := r.Extensions(made.format)
	switch {
	case c.force, ext == "", slices.Contains(right, ext):
		return nil
	case made.unchanged && (c.in == "-" && len(right) == 0 || strings.EqualFold(filepath.Ext(c.in), "."+ext)):
		return nil // the name that it has, or nobody knows a better one
	case len(right) == 0:
		return exit.Errorf(exit.Usage, "OUT: the result is the file %s unchanged, and .%s is not its extension; name it %s, or say --force", c.in, ext, filepath.Ext(c.in))
	}
	return exit.Errorf(exit.Usage, "OUT: the result is a %s file, and .%s is no extension of one; write .%s, or say --force", made.format, ext, right[0])
}

// replace makes out hold data, or leaves it as it was.
func replace(out string, data []byte) error {
	// Links stay, what they point to is replaced.
	if real, err := filepath.EvalSymlinks(out); err == nil {
		out = real
	}
	err := renameio.WriteFile(out, data, 0o666, renameio.WithExistingPermissions(), renameio.WithTempDir(filepath.Dir(out)))
	if p := (*os.PathError)(nil); errors.As(err, &p) {
		err = p.Err // its path is that of the temporary file
	}
	if err != nil {
		return fmt.Errorf("OUT: %s: %w", out, err)
	}
	return nil
}
