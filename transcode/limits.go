package transcode

// Limits bounds what hostile input may cost. The zero value of each field means
// its default. A file over a limit is ErrUnsupported: it is not broken, and with
// a higher limit it can be read.
type Limits struct {
	// MaxFile is the longest file that is read as a sample, in bytes: it is read
	// into memory as a whole. Default: DefaultMaxFile.
	MaxFile int64
	// MaxPixels is the largest width times height that is decoded. Default:
	// DefaultMaxPixels.
	MaxPixels int64
	// MaxScans and MaxSegments are carried to package jpeg, which defines them and
	// their defaults: the most scans a JPEG may have, and the most segments that
	// are none.
	MaxScans, MaxSegments int
}

// DefaultMaxPixels is twice the size of the largest pictures in common datasets
// (satellite scenes of 10,000 by 10,000); an RGB picture of that size takes
// 600 MB.
const DefaultMaxPixels = 200 << 20

// DefaultMaxFile is larger than the pixels of the largest picture that
// DefaultMaxPixels allows, and so larger than nearly every file of one.
const DefaultMaxFile = 1 << 30

// CheckFile returns an error unless a file of size bytes is within the limits.
func (l Limits) CheckFile(size int64) error {
	limit := l.MaxFile
	if limit == 0 {
		limit = DefaultMaxFile
	}
	if size > limit {
		return Errorf(ErrUnsupported, "file of %d bytes, more than %d; --max-file raises the limit", size, limit)
	}
	return nil
}

// CheckSize returns an error unless a picture of width by height pixels is
// within the limits. Both sides must be positive.
func (l Limits) CheckSize(width, height int) error {
	limit := l.MaxPixels
	if limit == 0 {
		limit = DefaultMaxPixels
	}
	if width <= 0 || height <= 0 {
		return Errorf(ErrBad, "picture of %d by %d pixels", width, height)
	}
	if int64(width) > limit/int64(height) {
		return Errorf(ErrUnsupported, "picture of %d by %d pixels, more than %d; --max-pixels raises the limit", width, height, limit)
	}
	return nil
}
