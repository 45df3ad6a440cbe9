package v1

// A plane has room for a patch. Before its first row is one of zeros, and to the left of
// each row is a zero. Whoever fills a row puts another one behind it.
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
