package jpeg

// scan is one line of a script: a band of one component, or of all of them.
type scan struct {
	component int // or allComponents, for DC
	ss, se    int
	ah, al    int
}

const allComponents = -1

// defaultScript returns the script that libjpeg uses by default
// (jpeg_simple_progression): 10 scans for YCbCr, 2+4n otherwise.
func defaultScript(components int, model ColorModel) []scan {
	const all, y, cb, cr = allComponents, 0, 1, 2
	if model == ModelYCbCr && components == 3 {
		return []scan{
			{all, 0, 0, 0, 1},
			{y, 1, 5, 0, 2},
			{cr, 1, 63, 0, 1},
			{cb, 1, 63, 0, 1},
			{y, 6, 63, 0, 2},
			{y, 1, 63, 2, 1},
			{all, 0, 0, 1, 0},
			{cr, 1, 63, 1, 0},
			{cb, 1, 63, 1, 0},
			{y, 1, 63, 1, 0},
		}
	}
	var s []scan
	each := func(ss, se, ah, al int) {
		for i := range components {
			s = append(s, scan{i, ss, se, ah, al})
		}
	}
	s = append(s, scan{all, 0, 0, 0, 1})
	each(1, 5, 0, 2)
	each(6, 63, 0, 2)
	each(1, 63, 2, 1)
	s = append(s, scan{all, 0, 0, 1, 0})
	each(1, 63, 1, 0)
	return s
}

// Levels returns how many scans of the default script each fidelity level takes,
// and how many scans there are. Level k is element k-1.
//
// Level k of a YCbCr picture is its first k scans. Any other picture has only
// scans of the kinds that luma has in a YCbCr picture, and its level k takes
// those that would have been there for luma:
//
//	YCbCr                    1  2  3  4  5  6  7  8  9 10
//	grey                     1  2  2  2  3  4  5  5  5  6
//	RGB (n = 3 components)   1  4  4  4  7 10 11 11 11 14
//	n components             1, 1+n ×3, 1+2n, 1+3n, 2+3n ×3, 2+4n
func Levels(components int, model ColorModel) (levels [10]uint8, scans int) {
	if model == ModelYCbCr && components == 3 {
		return [10]uint8{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 10
	}
	n := uint8(components)
	return [10]uint8{1, 1 + n, 1 + n, 1 + n, 1 + 2*n, 1 + 3*n, 2 + 3*n, 2 + 3*n, 2 + 3*n, 2 + 4*n}, 2 + 4*components
}
