package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pipefs/pipefs/store/blob"
)

// readObject returns the bytes of an object of at most limit bytes.
func readObject(ctx context.Context, place blob.Objects, name string, limit int64) ([]byte, error) {
	i, err := place.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	if i.Size > limit {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, i.Size, limit)
	}
	b := make([]byte, i.Size)
	return b, place.ReadAt(ctx, name, i.Version, b, 0)
}

// compareBytes is how much is compared at once.
const compareBytes = 4 << 20

// putAbsent puts an object, unless there is one with the same bytes. The error is of the class
// ErrDiffers where there is one with others.
func putAbsent(ctx context.Context, place blob.Objects, name string, body io.ReaderAt, size int64) error {
	_, err := place.PutIfAbsent(ctx, name, body, size)
	if !errors.Is(err, blob.ErrExists) {
		return err
	}
	is, err := place.Stat(ctx, name)
	if err != nil {
		return err
	}
	if is.Size != size {
		return fmt.Errorf("%s has %d bytes, and here it has %d: %w", name, is.Size, size, ErrDiffers)
	}
	have, want := make([]byte, min(size, compareBytes)), make([]byte, min(size, compareBytes))
	for off := int64(0); off < size; off += compareBytes {
		n := min(compareBytes, size-off)
		if err := place.ReadAt(ctx, name, is.Version, have[:n], off); err != nil {
			return err
		}
		if _, err := body.ReadAt(want[:n], off); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if !bytes.Equal(have[:n], want[:n]) {
			return fmt.Errorf("%s has other bytes than here: %w", name, ErrDiffers)
		}
	}
	return nil
}

func putSame(ctx context.Context, place blob.Objects, name string, b []byte) error {
	return putAbsent(ctx, place, name, bytes.NewReader(b), int64(len(b)))
}
