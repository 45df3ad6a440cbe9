package mountd

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"runtime/debug"
	"strings"
	"time"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/epoch"
	"github.com/pipefs/pipefs/transcode"
)

// explainPatience is how long the plan of one file may take. Where a view decides by the pixels
// of a file, they are decoded.
const explainPatience = 5 * time.Second

// explain tells how the file at a path of the mount is made.
func (m *Mount) explain(path string) (control.Explanation, error) {
	if rest, ok := strings.CutPrefix(path, epoch.Dir+"/"); ok {
		return m.explainBatch(strings.Split(rest, "/"))
	}
	if name, _, _ := strings.Cut(path, "/"); name == ".pipefs" || m.files()["/"+path] != nil {
		return control.Explanation{}, fmt.Errorf("%s belongs to pipefs: it shows no file of the dataset", path)
	}
	found, err := m.fs.Locate(path)
	if e := (*transcode.SpecError)(nil); errors.As(err, &e) {
		return control.Explanation{}, fmt.Errorf("%w\n    %s", err, strings.ReplaceAll(e.Pointer(), "\n", "\n    "))
	}
	if errors.Is(err, iofs.ErrNotExist) {
		err = fmt.Errorf("no such file in the mount: %s", path)
	}
	if err != nil {
		return control.Explanation{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), explainPatience)
	defer cancel()
	is, err := m.server.Explain(ctx, found.Key, found.File, found.View)
	if err != nil {
		return control.Explanation{}, fmt.Errorf("%s cannot be shown: %w", path, err)
	}
	p, plan := found.View, is.Plan
	e := control.Explanation{View: p.Path(), Sample: found.File.Path, From: is.From, Computed: is.Computed, Failed: is.Failed}
	if is.Size >= 0 {
		e.Bytes = &is.Size
	}
	if info := plan.Info(); info.Mode != transcode.ModeNone {
		e.Is = fmt.Sprintf("%v, mode %v, %d×%d pixels", info.Format, info.Mode, info.Width, info.Height)
	}
	e.Steps = explainSteps(p, plan)
	switch {
	case !plan.Unchanged():
	case p.Len() == 0:
		e.Unchanged = "this view shows every file as it is"
	case !m.registry.IsSample(found.File.Path):
		e.Unchanged = "its name has no extension of a picture, and every view shows such files as they are"
	case p.Stored() && plan.Info() == transcode.Info{}:
		e.Unchanged = "the store does not hold this sample as the view makes it"
	default:
		e.Unchanged = Why(m.registry, p, plan.Info(), plan)
	}
	if d, ok := p.DrawOf(found.File.Path); ok && !plan.Unchanged() {
		e.Draw = &control.Draw{Seed: d.Seed, Epoch: d.Epoch, Repeat: d.Repeat}
		named := strings.HasPrefix(path, transcode.DrawDir+"/")
		switch {
		case !named && found.Opened:
			e.Note = "each open of this file draws again; this was the last draw"
		case !named:
			e.Note = "each open of this file draws again; this is the first draw"
		}
		if pictures := m.config.Roles.PicturesOf(found.File.Path); len(pictures) > 0 {
			e.Note = strings.TrimPrefix(e.Note+"; it is a mask, and follows what is drawn for its picture, "+strings.Join(pictures, " or "), "; ")
		}
	}
	return e, nil
}

// explainBatch tells what a path below .epoch is.
func (m *Mount) explainBatch(parts []string) (control.Explanation, error) {
	p, err := epoch.ParsePath(parts)
	if err == nil && p.View != "" {
		_, err = m.registry.ParseRandom(p.View)
	}
	if err != nil {
		return control.Explanation{}, err
	}
	if p.View == "" || p.Batch == 0 {
		return control.Explanation{}, errors.New("a batch is at MNT/" + epoch.Dir + "/SEED/EPOCH/WORLD/RANK/BATCH/VIEW/FILE")
	}
	return control.Explanation{
		View: p.View,
		Draw: &control.Draw{Seed: p.Seed, Epoch: p.Epoch},
		From: "memory: the daemon makes a batch before it is read",
		Note: fmt.Sprintf("the file belongs to an epoch view: %d samples a batch, rank %d of %d; %s beside it describes the batches", p.Batch, p.Rank, p.World, epoch.IndexName),
	}, nil
}

// explainSteps are the steps of a view, and what the plan of a sample makes of each.
func explainSteps(p transcode.Pipeline, plan transcode.Plan) (steps []control.ExplainedStep) {
	for i, s := range p.Steps() {
		applied := false
		for _, a := range plan.Steps() {
			if a.At == i {
				steps = append(steps, control.ExplainedStep{Step: a.String(), Makes: explainMade(a)})
				applied = applied || a.Kind == s.Kind
			}
		}
		if !applied && s.Kind.Name != "decode" { // users do not write it
			steps = append(steps, control.ExplainedStep{Step: s.String(), LeftOut: explainLeftOut(plan)})
		}
	}
	return steps
}

// explainMade says what a step makes.
func explainMade(a transcode.Applied) string {
	text := fmt.Sprintf("%d×%d pixels", a.Out.Width, a.Out.Height)
	if a.Nearest {
		text += ", by nearest neighbour: the sample is a mask"
	}
	if a.Kind.Draw == nil {
		return text
	}
	if c := a.Choice; len(c.Ops) > 0 {
		text += "; drawn: "
		for i, op := range c.Ops {
			if i > 0 {
				text += ", "
			}
			text += op.Name
			if op.By != 0 {
				text += fmt.Sprintf(" %.4g", op.By)
			}
		}
		if c.Width > 0 {
			text += fmt.Sprintf(" of the box of %d×%d at %d,%d", c.Width, c.Height, c.X, c.Y)
		}
	} else if a.Kind.Change != nil {
		text += "; drawn: nothing changed"
	} else if c.Width > 0 {
		text += fmt.Sprintf("; drawn: the box of %d×%d at %d,%d", c.Width, c.Height, c.X, c.Y)
	} else if c.Flip {
		text += "; drawn: left and right exchanged"
	} else {
		text += "; drawn: nothing exchanged"
	}
	return text
}

// explainLeftOut says why a step does not apply.
func explainLeftOut(plan transcode.Plan) string {
	info := plan.Info()
	switch {
	case plan.Unchanged():
		return "the view shows this file as it is"
	case plan.Spared():
		return "the sample may be a mask; mount with --images GLOB if it is a picture"
	}
	return fmt.Sprintf("it does not apply to a %v file of mode %v with %d×%d pixels", info.Format, describeMode(info), info.Width, info.Height)
}

// Why says why p shows a sample unchanged.
func Why(r *transcode.Registry, p transcode.Pipeline, info transcode.Info, plan transcode.Plan) string {
	last := p.Steps()[p.Len()-1]
	switch {
	case info.Mode == transcode.ModeNone:
		return fmt.Sprintf("it is a flavour of %v that pipefs does not read", info.Format)
	case plan.Spared():
		return fmt.Sprintf("a %v file of mode %v may be a mask, which %s would harm; say that it is a picture (--role image, when mounting --images GLOB), or take the view %s", info.Format, info.Mode, p, r.OfPictures(p))
	case info.Animated && !r.Plan(p, info, transcode.Image).Unchanged():
		return "it has several frames, and a view shows one; say that its first frame is the picture (--role image, when mounting --images GLOB)"
	case last.Kind.Format == info.Format:
		return fmt.Sprintf("it is a %v file already, and nothing else is to be done", info.Format)
	}
	return fmt.Sprintf("%s cannot hold a %v file of mode %v without changing its values", last, info.Format, describeMode(info))
}

func describeMode(i transcode.Info) string {
	s := i.Mode.String()
	if i.Transparent {
		s += " with transparency"
	}
	return s
}

// LeftOut names the steps of p that the plan does not take, as the user writes
// them.
func LeftOut(p transcode.Pipeline, plan transcode.Plan) []string {
	taken, _, _ := strings.Cut(plan.Key(), "@")
	has := map[string]bool{}
	for word := range strings.SplitSeq(taken, "-") {
		has[strings.TrimSuffix(word, "~")] = true
	}
	var out []string
	for word := range strings.SplitSeq(p.String(), "-") {
		if !has[word] {
			out = append(out, word)
		}
	}
	if _, scans := plan.Head(); scans && plan.Len() == 1 { // its key has no argument
		return nil
	}
	return out
}

// version is set by the linker to what scripts/version prints.
var version string

// Version is the tag of a release, v0.1.0, or the pseudo-version of another commit, which
// holds the commit. Go itself stamps it into what `go install` and, in a clone, `go build`
// make. Where neither said anything it is "devel".
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
