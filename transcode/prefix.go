package transcode

// PixelPrefix is a prefix of a plan whose result may be stored as a file of raw samples:
// what the plan can go on from, in place of the sample.
type PixelPrefix struct {
	Key   string // of the representation
	Steps int    // of the plan, that it stands for
	// Stored is the plan that makes the representation.
	Stored Plan
	// Rest makes of the representation what the plan makes of the sample.
	Rest Plan
}

// PixelPrefixes are those of a plan, the shortest first; the plan itself is not among them.
// There are some where it passes through 8-bit RGB pixels, which every format of raw samples
// holds exactly, and ends in such a format, which has no metadata.
func (p Plan) PixelPrefixes() (found []PixelPrefix) {
	last := len(p.steps) - 1
	if last < 1 || p.steps[last].Kind.Frame == nil {
		return nil
	}
	upright := p.steps[last].Out.Orientation
	for n := 1; n <= last && p.steps[n-1].Kind.Draw == nil; n++ {
		at := p.steps[n-1].Out
		// What turns the picture upright needs its metadata.
		if at.Stage != Picture || at.Mode != ModeRGB || at.Type != Uint8 || at.Transparent || at.Mask || at.Orientation != upright {
			continue
		}
		for _, k := range p.registry.ordered {
			if k.Frame == nil || p.registry.decoder(k.Format) == nil || n == last && k == p.steps[last].Kind {
				continue
			}
			if out, ok := k.Shape(at, 0); ok {
				found = append(found, p.pixelPrefix(n, Applied{Step: Step{Kind: k}, Out: out}))
			}
		}
	}
	return found
}

// pixelPrefix is the prefix of n steps, written by one more.
func (p Plan) pixelPrefix(n int, write Applied) PixelPrefix {
	stored, rest := p, p
	stored.steps = append(p.steps[:n:n], write)
	decoded := p.steps[n-1].Out
	rest.source = decoded.Info
	rest.source.Format = write.Kind.Format
	rest.steps = append([]Applied{{Step: Step{Kind: p.registry.decode}, Out: decoded}}, p.steps[n:]...)
	return PixelPrefix{stored.Key(), n, stored, rest}
}
