package transcode

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Draw says which of the endless results of a random view one file shows. It names fixed
// bytes: on any machine, in any order, as often as it is asked for.
type Draw struct {
	Seed, Epoch uint64
	// Path of the sample, relative to the dataset's root.
	Path string
	// Repeat tells several draws of one sample in one epoch apart, from 0.
	Repeat uint32
}

// Random returns the numbers that a kind of step draws from. Steps do not share a stream:
// what one of them takes, or that it stands elsewhere in a view, does not change what
// another one gets.
//
// The generator is ChaCha8 (C2SP, chacha8rand), a cipher that counts: its n-th number is a
// function of the key and n. The key is the SHA-256 of all that the draw depends on. Both
// are specified and stable, so that another program can compute the same draws, and both
// are in Go's library. With the hash, a draw takes a microsecond: nothing beside the
// pixels.
func (d Draw) Random(kind string) *Random {
	h := sha256.New()
	var head [8 * 3]byte
	binary.LittleEndian.PutUint64(head[0:], d.Seed)
	binary.LittleEndian.PutUint64(head[8:], d.Epoch)
	binary.LittleEndian.PutUint64(head[16:], uint64(d.Repeat))
	h.Write([]byte("pipefs draw 1 " + kind + "\n"))
	h.Write(head[:])
	h.Write([]byte(d.Path))
	return &Random{rand.NewChaCha8([32]byte(h.Sum(nil)))}
}

// Random is a sequence of numbers from which a step draws.
type Random struct{ bits *rand.ChaCha8 }

// Float returns a number from 0 to less than 1, a multiple of 2^-53.
func (r *Random) Float() float64 { return float64(r.bits.Uint64()>>11) / (1 << 53) }

// Uniform returns a number from lo to less than hi.
func (r *Random) Uniform(lo, hi float64) float64 {
	// The conversion keeps the compiler from fusing, which some machines would do and
	// others not.
	return lo + float64((hi-lo)*r.Float())
}

// Upto returns a whole number from 0 to most, each as likely as any other but for 2^-32.
func (r *Random) Upto(most int) int {
	n, _ := bits.Mul64(r.bits.Uint64(), uint64(most)+1)
	return int(n)
}

// Coin returns true half of the time.
func (r *Random) Coin() bool { return r.bits.Uint64()>>63 == 1 }

// Choice is what a random step has drawn for one sample.
type Choice struct {
	// X, Y, Width, Height is a box in the pixels that the step gets. It may reach over
	// their edges; there is nothing but 0. Width is 0 where the step takes no box.
	X, Y, Width, Height int
	// Flip: left and right are exchanged.
	Flip bool
	// Ops are done one after the other.
	Ops []Op
}

// Op is an operation that a step has drawn.
type Op struct {
	Name string  `json:"op"`
	By   float64 `json:"by"` // its number, 0 where it takes none
}

func (c Choice) String() string {
	text := ""
	if c.Width > 0 {
		text = fmt.Sprintf("+%d+%d+%d+%d", c.X, c.Y, c.Width, c.Height)
	}
	if c.Flip {
		text += "+flip"
	}
	for _, op := range c.Ops {
		text += fmt.Sprintf("+%s(%v)", op.Name, op.By)
	}
	return text
}

// Random reports whether p has steps that draw.
func (p Pipeline) Random() bool { return p.Fixed() < len(p.steps) }

// Fixed is the number of steps before the first one that draws. What follows is never
// stored.
func (p Pipeline) Fixed() int {
	for i, s := range p.steps {
		if s.Kind.Draw != nil {
			return i
		}
	}
	return len(p.steps)
}

// DrawDir is the directory of a mount below which the files of random views are, as
// DrawDir/SEED/EPOCH/VIEW, or DrawDir/SEED/EPOCH.REPEAT/VIEW.
const DrawDir = ".draw"

// draw is the seed, epoch and repeat of a pipeline that has them.
type draw struct {
	seed, epoch uint64
	repeat      uint32
	known       bool
}

// In is the pipeline in one epoch of one seed: every file is drawn once.
func (p Pipeline) In(seed, epoch uint64) Pipeline {
	p.draw = draw{seed, epoch, 0, true}
	return p
}

// Repeat is another draw of every file in the same epoch; 0 is what [Pipeline.In] returns.
func (p Pipeline) Repeat(n uint32) Pipeline {
	p.draw.repeat = n
	return p
}

// EpochDir is the name of the directory of an epoch: EPOCH, or EPOCH.REPEAT of another draw
// in that epoch. The repeat belongs to the epoch and not to the view: two views of one
// repeat take the same numbers, and so an item of several pictures numbers them through.
func EpochDir(epoch uint64, repeat uint32) string {
	if repeat == 0 {
		return strconv.FormatUint(epoch, 10)
	}
	return fmt.Sprintf("%d.%d", epoch, repeat)
}

// ParseEpochDir is the reverse of [EpochDir]. There is one name for each.
func ParseEpochDir(name string) (epoch uint64, repeat uint32, ok bool) {
	first, second, repeats := strings.Cut(name, ".")
	epoch, err := strconv.ParseUint(first, 10, 64)
	if err == nil && repeats {
		var n uint64
		n, err = strconv.ParseUint(second, 10, 32)
		repeat = uint32(n)
	}
	return epoch, repeat, err == nil && EpochDir(epoch, repeat) == name
}

// Path is where a mount has the view: its spec, or a path below [DrawDir].
func (p Pipeline) Path() string {
	if !p.draw.known {
		return p.String()
	}
	return fmt.Sprintf("%s/%d/%s/%s", DrawDir, p.draw.seed, EpochDir(p.draw.epoch, p.draw.repeat), p)
}

// DrawOf is what p draws for a sample; ok is false where nobody said in which epoch.
func (p Pipeline) DrawOf(sample string) (d Draw, ok bool) {
	return Draw{Seed: p.draw.seed, Epoch: p.draw.epoch, Path: sample, Repeat: p.draw.repeat}, p.draw.known
}

// Undrawn reports whether p has steps that draw, and nobody said in which epoch.
func (p Pipeline) Undrawn() bool { return !p.draw.known && p.Random() }

// Validation is the spec of the view for validation that belongs to p, in which nothing is
// random.
func (p Pipeline) Validation() string {
	var words []string
	for _, s := range p.steps {
		word := s.String()
		if s.Kind.Draw != nil {
			word = s.Kind.Center(s.Arg)
		}
		if word != "" && word != decodeName {
			words = append(words, word)
		}
	}
	if p.own {
		words = append(words, Own)
	}
	return strings.Join(words, "-")
}

// Past reports whether q is p in an epoch that comes before that of p, and is not the one
// right before it, in which slower readers may be.
func (p Pipeline) Past(q Pipeline) bool {
	return p.draw.known && q.draw.known && p.spec == q.spec && p.draw.seed == q.draw.seed && p.draw.repeat == q.draw.repeat && q.draw.epoch+1 < p.draw.epoch
}

// Drawn is the plan with the choices that its steps draw. A plan that draws nothing stays
// as it is.
func (p Plan) Drawn(d Draw) Plan {
	at := Shape{Info: p.source, Stage: Source}
	steps := make([]Applied, len(p.steps))
	for i, s := range p.steps {
		if s.Kind.Draw != nil {
			s.Choice = s.Kind.Draw(at, s.Step, d.Random(s.Kind.Name))
			s.drawn = true
		}
		steps[i], at = s, s.Out
	}
	p.steps = steps
	return p
}

// LeavesOut is a step of v that draws, and that does not apply to the sample.
func (p Plan) LeavesOut(v Pipeline) (s Step, ok bool) {
	for i, s := range v.steps {
		if s.Kind.Draw != nil && !slices.ContainsFunc(p.steps, func(a Applied) bool { return a.At == i && a.Kind == s.Kind }) {
			return s, true
		}
	}
	return Step{}, false
}

// Random reports whether steps of the plan draw.
func (p Plan) Random() bool {
	for _, s := range p.steps {
		if s.Kind.Draw != nil {
			return true
		}
	}
	return false
}

// Move is what one step of a plan does to the places of pixels: the point x, y of what it
// gets is at (x-Box.X)*Out.Width/Box.Width, (y-Box.Y)*Out.Height/Box.Height of what it
// makes, and if Flip is set its x is taken from the other edge.
type Move struct {
	Step string `json:"step"`
	// Box is the rectangle of what the step gets that it shows: x, y, width, height in
	// pixels. It may reach over the edges.
	Box [4]int `json:"box"`
	// Size of what the step makes: width and height in pixels.
	Size [2]int `json:"size"`
	Flip bool   `json:"flip"`
	// Orientation is that of EXIF which the step undoes before all else; 0 of other steps.
	Orientation uint8 `json:"orientation,omitempty"`
}

// DrawnOp is an operation that a step of a plan has drawn.
type DrawnOp struct {
	Step string `json:"step"`
	Op
	// Box is what is erased: x, y, width, height.
	Box *[4]int `json:"box,omitempty"`
}

// Ops are the operations that the steps of a plan have drawn, in order.
func (p Plan) Ops() []DrawnOp {
	ops := []DrawnOp{}
	for i := range p.steps {
		c := &p.steps[i].Choice
		for _, op := range c.Ops {
			d := DrawnOp{Step: p.steps[i].String(), Op: op}
			if c.Width > 0 {
				d.Box = &[4]int{c.X, c.Y, c.Width, c.Height}
			}
			ops = append(ops, d)
		}
	}
	return ops
}

// Moves are what the steps of a plan do to the places of pixels, in order. Steps that move
// nothing are left out.
func (p Plan) Moves() []Move {
	moves := []Move{}
	at := Shape{Info: p.source, Stage: Source}
	for i := range p.steps {
		s := &p.steps[i]
		in := at
		at = s.Out
		if s.Kind.Effect != Geometric && s.Kind.Effect != Resampling {
			continue
		}
		m := Move{Step: s.String(), Size: [2]int{at.Width, at.Height}, Box: [4]int{0, 0, in.Width, in.Height}, Flip: s.Choice.Flip}
		if s.Kind.Region != nil {
			r := s.Kind.Region(in, s.call(p.registry.limits))
			m.Box = [4]int{r.Min.X, r.Min.Y, r.Dx(), r.Dy()}
		}
		switch {
		case in.Orientation != at.Orientation:
			m.Orientation = in.Orientation
			if in.Orientation >= 5 { // the sides are exchanged
				m.Box[2], m.Box[3] = in.Height, in.Width
			}
		case s.Kind.Effect == Geometric:
			// Each pixel is taken whole: where there are more, they stand around.
			for side, out := range m.Size {
				m.Box[side] -= (out - m.Box[2+side]) / 2
				m.Box[2+side] = out
			}
		}
		moves = append(moves, m)
	}
	return moves
}
