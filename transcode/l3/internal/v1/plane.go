package v1

// A plane has room for a patch. A row of zeros is before its first row, and a zero to the left
// of each row. A function that fills a row writes a zero behind it.
const (
	// margin keeps rows on cache lines of their own.
	margin = 64
	// stride is the distance of rows: a margin, 255 samples or a block more, and a
	// zero at least before the next margin.
	stride = margin + 256 + margin
)

// planeLen is the size of a plane for patches of a height.
func planeLen(height int) int { return (1 + height) * stride }

// planeAt is the position of a sample of the patch.
func planeAt(x, y int) int { return (1+y)*stride + margin + x }
