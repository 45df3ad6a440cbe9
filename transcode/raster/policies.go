package raster

import (
	"math"

	"github.com/pipefs/pipefs/transcode"
)

// operation is one of a policy: what it draws its number from.
type operation struct {
	name string
	// The numbers lie evenly from the first to the second. Where both are 0 it takes none.
	from, to float64
	signed   bool // the number is negative in half of the draws
	factor   bool // the number is added to 1
	bits     bool // it is rounded, and taken from 8
}

// wide are the operations of TrivialAugmentWide, in its order.
var wide = []operation{
	{name: "identity"},
	{name: "shearx", to: .99, signed: true},
	{name: "sheary", to: .99, signed: true},
	{name: "translatex", to: 32, signed: true},
	{name: "translatey", to: 32, signed: true},
	{name: "rotate", to: 135, signed: true},
	{name: "brightness", to: .99, signed: true, factor: true},
	{name: "saturation", to: .99, signed: true, factor: true},
	{name: "contrast", to: .99, signed: true, factor: true},
	{name: "sharpness", to: .99, signed: true, factor: true},
	{name: "posterize", to: 6, bits: true},
	{name: "solarize", from: 255},
	{name: "autocontrast"},
	{name: "equalize"},
}

// narrow are those of RandAugment and AutoAugment for a picture, and invert, which only
// AutoAugment has.
func narrow(in transcode.Shape) []operation {
	return []operation{
		{name: "identity"},
		{name: "shearx", to: .3, signed: true},
		{name: "sheary", to: .3, signed: true},
		{name: "translatex", to: 150. / 331. * float64(in.Width), signed: true},
		{name: "translatey", to: 150. / 331. * float64(in.Height), signed: true},
		{name: "rotate", to: 30, signed: true},
		{name: "brightness", to: .9, signed: true, factor: true},
		{name: "saturation", to: .9, signed: true, factor: true},
		{name: "contrast", to: .9, signed: true, factor: true},
		{name: "sharpness", to: .9, signed: true, factor: true},
		{name: "posterize", to: 4, bits: true},
		{name: "solarize", from: 255},
		{name: "autocontrast"},
		{name: "equalize"},
		{name: "invert"},
	}
}

// op is the operation with number i of n.
func (o *operation) op(i, n int, negative bool) transcode.Op {
	by := evenly(o.from, o.to, i, n)
	if o.bits {
		by = 8 - math.RoundToEven(float64(i)/(float64(n-1)/o.to))
	}
	if o.signed && negative {
		by = -by
	}
	switch {
	case o.factor:
		by++
	case o.name == "translatex" || o.name == "translatey":
		by = math.Trunc(by)
	}
	return transcode.Op{Name: o.name, By: by + 0} // and not -0
}

// evenly is number i of n from one to another, as torch.linspace rounds it on processors that
// multiply and add at once.
func evenly(from, to float64, i, n int) float64 {
	first, last := float64(float32(from)), float64(float32(to))
	step := float64((float32(to) - float32(from)) / float32(n-1))
	if i <= (n-1)/2 {
		return single(first + float64(step*float64(i)))
	}
	return single(last - float64(step*float64(n-i-1)))
}

// magnitudes are how many numbers TrivialAugment and RandAugment take an operation's from.
const magnitudes = 31

func drawTrivialAugment(_ transcode.Shape, _ transcode.Step, r *transcode.Random) transcode.Choice {
	o, i := &wide[r.Upto(len(wide)-1)], r.Upto(magnitudes-1)
	return transcode.Choice{Ops: []transcode.Op{o.op(i, magnitudes, r.Coin())}}
}

func drawRandAugment(in transcode.Shape, s transcode.Step, r *transcode.Random) (c transcode.Choice) {
	all := narrow(in)
	all = all[:len(all)-1] // no invert
	for range s.Arg {
		o := &all[r.Upto(len(all)-1)]
		c.Ops = append(c.Ops, o.op(s.More[0], magnitudes, r.Coin()))
	}
	return c
}

// imagenet is AutoAugment's policy: two operations each, the share of the draws in tenths, and the
// number of ten.
var imagenet = [25][2]struct {
	name     string
	share, i int
}{
	{{"posterize", 4, 8}, {"rotate", 6, 9}},
	{{"solarize", 6, 5}, {"autocontrast", 6, 0}},
	{{"equalize", 8, 0}, {"equalize", 6, 0}},
	{{"posterize", 6, 7}, {"posterize", 6, 6}},
	{{"equalize", 4, 0}, {"solarize", 2, 4}},
	{{"equalize", 4, 0}, {"rotate", 8, 8}},
	{{"solarize", 6, 3}, {"equalize", 6, 0}},
	{{"posterize", 8, 5}, {"equalize", 10, 0}},
	{{"rotate", 2, 3}, {"solarize", 6, 8}},
	{{"equalize", 6, 0}, {"posterize", 4, 6}},
	{{"rotate", 8, 8}, {"saturation", 4, 0}},
	{{"rotate", 4, 9}, {"equalize", 6, 0}},
	{{"equalize", 0, 0}, {"equalize", 8, 0}},
	{{"invert", 6, 0}, {"equalize", 10, 0}},
	{{"saturation", 6, 4}, {"contrast", 10, 8}},
	{{"rotate", 8, 8}, {"saturation", 10, 2}},
	{{"saturation", 8, 8}, {"solarize", 8, 7}},
	{{"sharpness", 4, 7}, {"invert", 6, 0}},
	{{"shearx", 6, 5}, {"equalize", 10, 0}},
	{{"saturation", 4, 0}, {"equalize", 6, 0}},
	{{"equalize", 4, 0}, {"solarize", 2, 4}},
	{{"solarize", 6, 5}, {"autocontrast", 6, 0}},
	{{"invert", 6, 0}, {"equalize", 10, 0}},
	{{"saturation", 6, 4}, {"contrast", 10, 8}},
	{{"equalize", 8, 0}, {"equalize", 6, 0}},
}

func drawAutoAugment(in transcode.Shape, _ transcode.Step, r *transcode.Random) (c transcode.Choice) {
	policy := &imagenet[r.Upto(len(imagenet)-1)]
	all := narrow(in)
	for _, p := range policy {
		applies, negative := r.Float()*10 < float64(p.share), r.Coin()
		for i := range all {
			if applies && all[i].name == p.name {
				c.Ops = append(c.Ops, all[i].op(p.i, 10, negative))
			}
		}
	}
	return c
}
