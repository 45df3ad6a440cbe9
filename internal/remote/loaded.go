package remote

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/store/vfs"
)

const (
	// smallFile is the longest file that is read into memory, in bytes.
	smallFile = 1 << 20
	// A longer one is fetched in ranges of fetchBytes, so many at once.
	fetchBytes = 8 << 20
	fetches    = 6
)

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d %s\n", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// local is a file that was fetched as a whole.
type local struct {
	entry
	io.ReaderAt
}

// fetched is one that was copied to this machine.
type fetched struct {
	local
	file *os.File
}

// Close implements [io.Closer].
func (f fetched) Close() error { return f.file.Close() }

// load reads a small file into memory, through the block cache if there is one.
func (f *FS) load(i blob.Info) (vfs.File, error) {
	b := make([]byte, i.Size)
	var err error
	switch {
	case i.Size == 0:
	case f.o.Cache != nil:
		_, err = f.o.Cache.Object(f.objects, i).ReadAt(b, 0)
	default:
		err = f.objects.ReadAt(f.ctx, i.Name, i.Version, b, 0)
	}
	return local{entry{f, i}, bytes.NewReader(b)}, err
}

// fetch copies a file to one of this machine that has no name.
func (f *FS) fetch(i blob.Info) (vfs.File, error) {
	const name = "pipefs-fetched-"
	tmp, err := os.CreateTemp(f.o.Temp, name)
	if err != nil {
		tmp, err = os.CreateTemp("", name)
	}
	if err != nil {
		return nil, err
	}
	err = os.Remove(tmp.Name())
	group, ctx := errgroup.WithContext(f.ctx)
	group.SetLimit(fetches)
	for off := int64(0); off < i.Size; off += fetchBytes {
		group.Go(func() error {
			b := make([]byte, min(fetchBytes, i.Size-off))
			err := f.objects.ReadAt(ctx, i.Name, i.Version, b, off)
			if err == nil {
				_, err = tmp.WriteAt(b, off)
			}
			return err
		})
	}
	err = errors.Join(err, group.Wait())
	if err != nil {
		return nil, errors.Join(err, tmp.Close())
	}
	return fetched{local{entry{f, i}, tmp}, tmp}, nil
}
