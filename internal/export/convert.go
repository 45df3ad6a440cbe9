package export

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
	"golang.org/x/term"

	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/usage"
	"github.com/pipefs/pipefs/transcode"
)

// ViewOf is the view that only writes files with the extension of name, or "".
func ViewOf(r *transcode.Registry, name string) string {
	ext := strings.TrimPrefix(filepath.Ext(name), ".")
	for _, k := range r.Kinds() {
		if ext != "" && k.Ext == ext && k.Max == 0 {
			return k.Name
		}
	}
	return ""
}

// Conversion is what is to be made of which file.
type Conversion struct {
	View    string
	Role    transcode.Role
	In, Out string // - for the standard input and output
	Force   bool   // whatever the extension of Out
	L3      bool   // it was said how L3 files are to be written

	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Run makes the file.
func (c *Conversion) Run(ctx context.Context, r *transcode.Registry) error {
	p, err := r.ParsePath(c.View)
	switch {
	case err != nil:
		return err
	case p.Random():
		return usage.Errorf("%s is a random view: what it draws depends on the seed, the epoch and the path of the file in its dataset, and a file by itself has none. A mount shows it at MNT/%s/SEED/EPOCH/%[1]s, and pipefs export DATASET %[2]s/7/0/%[1]s OUT writes an epoch. The view that draws nothing is %[3]s",
			p, transcode.DrawDir, p.Validation())
	case p.Stored():
		return usage.Errorf("%s shows what a store holds, and a file by itself is in none; write --view %s", p, p.Whole())
	case c.L3 && (p.Len() == 0 || p.Steps()[p.Len()-1].Kind.Format != transcode.L3):
		return usage.Errorf("--l3-mode says how L3 files are written, and %s writes none: leave it out", p)
	}
	if whole := p.Whole(); whole.String() != p.String() {
		return usage.Errorf("%s says what a file is called, and OUT says that here; write --view %s", p, whole)
	}
	if c.In == "-" {
		if info, err := os.Stat(c.Out); err == nil && info.IsDir() {
			return usage.Errorf("%s is a directory, and the standard input has no name to give the file in it; name the file", c.Out)
		}
	}
	src, err := readInput(c.Stdin, c.In, r.Limits())
	if err != nil {
		return err
	}
	made, err := c.apply(ctx, r, p, src)
	if err != nil {
		return fmt.Errorf("%s: %w", c.In, err)
	}
	return c.write(r, p, made)
}

// converted is a file that was made, and what it is.
type converted struct {
	data      []byte
	format    transcode.Format // Unknown: what no codec reads
	unchanged bool
}

// apply makes the view of one file and tells the user what it did not do.
func (c *Conversion) apply(ctx context.Context, r *transcode.Registry, p transcode.Pipeline, src []byte) (converted, error) {
	info, err := r.ProbeBytes(src)
	if errors.Is(err, transcode.ErrUnsupported) {
		fmt.Fprintf(c.Stderr, "pipefs: %s appears unchanged: %v\n", c.In, err)
		return converted{data: src, unchanged: true}, nil
	}
	if err != nil {
		return converted{}, err
	}
	role := p.Role(c.Role)
	if pixels, err := r.Parse("rgb-npy"); err == nil && r.Undecided(p, info, role) {
		if made, err := r.Plan(pixels, info, role).Run(ctx, src); err == nil && transcode.LookOfArray(info, transcode.ModeRGB, made) == transcode.LookPicture {
			role = transcode.Image
		}
	}
	plan := r.Plan(p, info, role)
	if plan.Unchanged() {
		if p.Len() > 0 {
			fmt.Fprintf(c.Stderr, "pipefs: %s appears unchanged: %s\n", c.In, mountd.Why(r, p, info, plan))
		}
		return converted{src, info.Format, true}, nil
	}
	last := plan.Steps()[plan.Len()-1].Kind
	if role == transcode.Auto && plan.Blends() && info.MayBeLabels() {
		if px, err := r.Decode(ctx, src); err == nil && transcode.LookOf(px) == transcode.LookLabels {
			return converted{}, usage.Errorf("it has few colours and hard edges, as masks have, and %s would blend them; say --role mask if it is a mask, or --role image if it is a picture", p)
		}
	}
	if out := mountd.LeftOut(p, plan); len(out) > 0 {
		fmt.Fprintf(c.Stderr, "pipefs: %s: left out %s, which would harm a mask (--role image says that it is a picture)\n", c.In, strings.Join(out, ", "))
	}
	if info.Orientation > 1 && !strings.Contains(p.String(), "upright") && info.Format != last.Format {
		fmt.Fprintf(c.Stderr, "pipefs: %s has EXIF orientation %d, which the view does not apply; begin it with upright to turn it\n", c.In, info.Orientation)
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
func readInput(stdin io.Reader, in string, lim transcode.Limits) ([]byte, error) {
	from := stdin
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

func (c *Conversion) write(r *transcode.Registry, p transcode.Pipeline, made converted) error {
	if c.Out == "-" {
		if f, ok := c.Stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return usage.Errorf("the result is not for a terminal; redirect the output or name a file")
		}
		_, err := c.Stdout.Write(made.data)
		return err
	}
	out := c.Out
	info, err := os.Stat(out)
	switch {
	case err == nil && info.IsDir():
		out = filepath.Join(out, r.Name(p, filepath.Base(c.In), c.Role))
		info, err = os.Stat(out)
	case err != nil && strings.HasSuffix(out, "/"):
		return fmt.Errorf("OUT: %w", err)
	case err == nil && !info.Mode().IsRegular(): // a pipe or device: nothing to replace
		return os.WriteFile(out, made.data, 0o666)
	}
	if err == nil {
		if source, err := os.Stat(c.In); err == nil && os.SameFile(source, info) {
			return usage.Errorf("IN and OUT are the same file, %s; the original would be lost", out)
		}
	}
	if out == c.Out { // in a directory the file has the name that the view lists
		if err := c.checkExtension(r, made); err != nil {
			return err
		}
	}
	return replace(out, made.data)
}

// checkExtension refuses a name that says something else than the file is: many
// loaders go by the name.
func (c *Conversion) checkExtension(r *transcode.Registry, made converted) error {
	ext := strings.ToLower(strings.TrimPrefix(filepath.Ext(c.Out), "."))
	right := r.Extensions(made.format)
	switch {
	case c.Force, ext == "", slices.Contains(right, ext):
		return nil
	case made.unchanged && (c.In == "-" && len(right) == 0 || strings.EqualFold(filepath.Ext(c.In), "."+ext)):
		return nil // the name that it has, or nobody knows a better one
	case len(right) == 0:
		return usage.Errorf("OUT: the result is the file %s unchanged, and .%s is not its extension; name it %s, or say --force", c.In, ext, filepath.Ext(c.In))
	}
	return usage.Errorf("OUT: the result is a %s file, and .%s is no extension of one; write .%s, or say --force", made.format, ext, right[0])
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
