package transcode

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
