package transcode

import (
	"context"
	"image"
	"io"
)

// Stage says what flows between two steps.
type Stage uint8

// The stages, in the order in which a pipeline passes through them.
const (
	Source  Stage = 1 << iota // bytes in a format that a sample comes in
	Picture                   // integer pixels, interleaved
	Tensor                    // float32 pixels, interleaved
	Planes                    // pixels channel by channel
	File                      // bytes in the format that the view goes out in
)

// Shape is what is known in advance of what flows: everything but the bytes.
type Shape struct {
	Info
	Stage Stage
	Type  Type // of pixels
	// Mask: the sample may hold labels. A step that moves its pixels takes
	// neighbours and keeps the mode.
	Mask bool
}

// Payload is what flows: encoded bytes in the stages Source and File, pixels in
// the others.
type Payload struct {
	Shape  Shape
	Bytes  []byte
	Pixels *Pixels
	// Region of the picture of that shape that Pixels are, empty where they are all of it.
	Region image.Rectangle
}

// Role is what a sample is to its user.
type Role uint8

// The roles. Auto leaves the decision to the sample's mode: palette, 1-bit, grey
// and 16-bit files may be masks and are never harmed.
const (
	Auto Role = iota
	Image
	Mask
)

// Effect says what a step does to the values of a mask.
type Effect uint8

// The effects.
const (
	Exact      Effect = iota // nothing is lost
	Geometric                // pixels move, each of them whole; masks may follow
	Resampling               // pixels move and blend; masks may follow, by nearest neighbour
	Lossy                    // values change; masks never take part
)

// Kind is a kind of step: what `resize` is to `resize256`. Adding a step to
// pipefs means adding a Kind to the registry. Name, Brief, From, ID, Effect, Shape and Apply
// are what every kind has.
type Kind struct {
	// Name is the word in a view's spec, without its argument. It may end in a digit where there is none.
	Name string
	// Min and Max bound the argument; both are 0 where the kind takes none.
	Min, Max int
	// More are numbers behind the argument, each with a low line before it: randaug2_9.
	More []Word
	// Odd: the argument is an odd number.
	Odd bool
	// Usual is the step as it is mostly written, where that is not its name and a number that
	// is an example of many.
	Usual string
	// Words may be attached to the step, behind its argument: rrc224scale5to40.
	Words []Word
	// Brief says in one line what the step does, for help texts.
	Brief string
	// From is the set of stages the step can start at, To the one it leads to;
	// To 0 means that it stays where it is.
	From, To Stage
	// ID names the implementation. It changes whenever the result may change by
	// a single bit, since it is part of the key of what is stored.
	ID string
	// Effect on masks.
	Effect Effect
	// Pictures: a view with this step takes every sample for a picture that the user does
	// not call a mask.
	Pictures bool
	// Follow is set where the step makes pixels of another size of one format only: the
	// step that gives decoded samples of any format the same size.
	Follow *Kind
	// Format of the result of a step that encodes, and the extension of its
	// files without the dot.
	Format Format
	Ext    string
	// Substitute: the result holds the picture with its metadata exactly, and decodes
	// fast; a store can keep it in place of the sample. See [Registry.Substitute].
	Substitute bool
	// Shape says what the step makes of in; ok is false where the step cannot
	// represent the sample exactly, and so does not apply to it.
	Shape func(in Shape, arg int) (out Shape, ok bool)
	// Region is set where the step takes the pixels of a rectangle of the picture, before
	// it does anything else: which, of a picture of shape in. It may reach over the edges.
	// Apply takes the whole picture, and what is cut to the rectangle: see Payload.Region.
	Region func(in Shape, c Call) image.Rectangle
	// Apply runs the step. Its result has the shape that Shape promised, or is cut to
	// Call.Region. It takes the memory of its result, which is all that Plan.Work counts.
	Apply func(ctx context.Context, in Payload, c Call) (Payload, error)
	// Into is set where the step can write its result where it is wanted, left and right
	// exchanged if that is wanted, too. ok is false where it does not, for this call.
	Into func(ctx context.Context, in Payload, c Call, mirror bool, dst []byte, at Layout) (ok bool, err error)
	// Mirrors: the step only exchanges left and right, if it drew that.
	Mirrors bool
	// Change is set where the step changes values and keeps the shape: it does that in place.
	Change func(px *Pixels, c Call)
	// Warps: the step changes values, and may move pixels, too. A mask follows that, and nothing else.
	Warps bool
	// Size is the exact length of the encoded result in bytes, in closed form;
	// nil where the result has to be produced to know it.
	Size func(out Shape) int64
	// Frame is set for files that are a header and raw samples: it makes the file
	// of a picture whose samples are not there yet, in memory from alloc, and says
	// where in it they go. Every other byte of it is set. ok is false where they do
	// not go there as they are.
	Frame func(px *Pixels, alloc Alloc) (file []byte, at Layout, ok bool)
	// Planar: the step only puts the samples channel by channel.
	Planar bool
	// Draw is set for a random step: it draws what Apply then does, given the shape of what
	// the step gets. It depends on nothing but its arguments.
	Draw func(in Shape, s Step, r *Random) Choice
	// Center is set for a random step: the words of a spec that take its place where
	// nothing may be random, for validation. It may be empty.
	Center func(arg int) string
	// Split is set where the results for all arguments are prefixes of one
	// sequence of parts, so that one stored copy serves them all. With reconstruct set
	// it also finds what [Kind.Restore] needs.
	Split func(ctx context.Context, src []byte, lim Limits, reconstruct bool) (Split, error)
	// Restore makes the source, byte for byte, of the result with all parts and of
	// Split.Reconstruction. It is nil where that is never possible.
	Restore func(ctx context.Context, whole, reconstruction []byte, lim Limits) ([]byte, error)
}

// blends reports whether values are mixed or replaced, unless pixels are taken whole.
func (k *Kind) blends() bool { return k.Effect == Resampling || k.Effect == Lossy }

// Encoding makes a Kind.Apply of a function that writes pixels as a file.
func Encoding(encode func(*Pixels) ([]byte, error)) func(context.Context, Payload, Call) (Payload, error) {
	return func(_ context.Context, in Payload, _ Call) (Payload, error) {
		b, err := encode(in.Pixels)
		return Payload{Bytes: b}, err
	}
}

// Word is a word that may be attached to a step. It has two numbers, from and to, as in
// scale5to40, or none where Max is 0.
type Word struct {
	Name     string
	Min, Max int  // bound the numbers
	Single   bool // it has one number, which is both
	Brief    string
}

// Range is what an attached word says. The zero value says nothing.
type Range struct {
	From, To int
	Given    bool
}

// MaxWords is how many words a kind may have, and how many more numbers.
const MaxWords = 3

// Call is how a step is called for one sample.
type Call struct {
	Step
	Nearest bool // the sample is a mask: take neighbours, do not blend
	Limits  Limits
	Choice  Choice // of a random step
	// Region is what the next step takes of the result, empty where that is all. A step
	// may make these pixels only: it need not.
	Region image.Rectangle
}

// Split is a sequence of parts. The result for argument k is the first
// Levels[k-1] parts, then Tail.
type Split struct {
	Data   []byte
	Ends   []int // offset in Data after each part
	Levels []int // for each argument from 1 on, how many parts it takes
	Tail   []byte
	// Reconstruction is the data that restore the source from all parts; nil where they
	// were not asked for, and where the source cannot be restored.
	Reconstruction []byte
}

// Decoder turns one format into pixels.
type Decoder interface {
	Format() Format
	// ID names the implementation, as Kind.ID does. Two decoders that agree bit
	// for bit share it.
	ID() string
	// Extensions of the format's files: lower case, without the dot.
	Extensions() []string
	// Sniff reports whether head, the first 16 bytes or fewer, begins a file of
	// the format.
	Sniff(head []byte) bool
	// Probe reads the header of a file of size bytes.
	Probe(r io.ReaderAt, size int64, lim Limits) (Info, error)
	// Decode decodes the first frame of a whole file.
	Decode(ctx context.Context, src []byte, lim Limits) (*Pixels, error)
}
