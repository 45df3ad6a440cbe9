package blob

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/minio/minio-go/v7"
)

// writerKey is where an object's metadata holds the random id of the put that made it. Where an
// answer was lost, it tells whether the put was done.
const writerKey = "Pipefs-Writer"

// singlePut is the largest body that one request carries.
const singlePut = 16 << 20 // bytes

// condition says which object a put may replace.
type condition struct {
	absent bool // none
	match  Version
}

func (c condition) options(writer string) minio.PutObjectOptions {
	o := minio.PutObjectOptions{DisableContentSha256: true, UserMetadata: map[string]string{writerKey: writer}}
	if c.absent {
		o.SetMatchETagExcept("*")
	} else {
		o.SetMatchETag(string(c.match))
	}
	return o
}

// PutIfAbsent implements [Objects]. It reads body twice. A large one goes in several requests at once.
func (b *Bucket) PutIfAbsent(ctx context.Context, name string, body io.ReaderAt, size int64) (Version, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	if err := b.checkConditions(ctx); err != nil {
		return "", err
	}
	if size <= singlePut {
		return b.put(ctx, name, condition{absent: true}, body, size)
	}
	if _, err := b.Stat(ctx, name); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fmt.Errorf("%s: %w", b.url(name), ErrExists)
		}
		return "", err
	}
	return b.putParts(ctx, name, body, size)
}

// PutIfMatch implements [Objects]. If the answer was lost, and another writer replaced the object
// before it was read again, the error is ErrChanged although the object was there for a while.
func (b *Bucket) PutIfMatch(ctx context.Context, name string, v Version, data []byte) (Version, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	if err := b.checkConditions(ctx); err != nil {
		return "", err
	}
	v, err := b.put(ctx, name, condition{absent: v == "", match: v}, bytes.NewReader(data), int64(len(data)))
	if errors.Is(err, ErrExists) || errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNoBucket) {
		err = fmt.Errorf("%s: %w", b.url(name), ErrChanged)
	}
	return v, err
}

// put sends an object in one request.
func (b *Bucket) put(ctx context.Context, name string, c condition, body io.ReaderAt, size int64) (Version, error) {
	sums, err := sumsOf(ctx, body, 0, size)
	if err != nil {
		return "", fmt.Errorf("%s: what is to be written: %w", b.url(name), err)
	}
	writer := rand.Text()
	o := c.options(writer)
	o.UserMetadata["X-Amz-Checksum-Crc32c"] = sums.crc
	return b.conditionally(ctx, request{op: OpPut, name: name, size: size}, c, writer, func(ctx context.Context) (Version, error) {
		info, err := b.core.PutObject(ctx, b.bucket, b.key(name), io.NewSectionReader(body, 0, size), size, "", sums.sha, o)
		return Version(info.ETag), err
	})
}

// conditionally sends the request that makes an object visible. If its answer was lost, or may be
// the answer to an earlier attempt, the object says who wrote it. It may be sent again: the
// condition holds once at most.
func (b *Bucket) conditionally(ctx context.Context, r request, c condition, writer string, send func(context.Context) (Version, error)) (Version, error) {
	lost := false
	var v Version
	err := b.do(ctx, r, func(ctx context.Context) (err error) {
		if lost {
			switch i, by, err := b.statOnce(ctx, r.name); {
			case err == nil && by == writer:
				v = i.Version
				return nil
			case err != nil && !errors.Is(classOf(err), fs.ErrNotExist):
				return err
			}
		}
		v, err = send(ctx)
		if err != nil && (judge(err) != final || ctx.Err() != nil) {
			lost = true
		}
		if lost && isRefused(err) {
			if i, by, statErr := b.statOnce(ctx, r.name); statErr == nil && by == writer {
				v, err = i.Version, nil
			} else if statErr != nil && !errors.Is(classOf(statErr), fs.ErrNotExist) {
				return statErr
			}
		}
		return err
	})
	if err == nil && v == "" {
		err = fmt.Errorf("%s: the server at %s gives objects no ETag", b.url(r.name), b.endpoint)
	}
	if c.absent && errors.Is(err, ErrChanged) {
		err = fmt.Errorf("%s: %w", b.url(r.name), ErrExists)
	}
	return v, err
}

// isRefused reports whether the condition of a put did not hold.
func isRefused(err error) bool {
	class := classOf(err)
	return errors.Is(class, ErrChanged) || errors.Is(class, fs.ErrNotExist)
}

// statOnce is stat as part of another request.
func (b *Bucket) statOnce(ctx context.Context, name string) (Info, string, error) {
	b.stats.requests.Add(1)
	o, err := b.core.StatObject(ctx, b.bucket, b.key(name), minio.StatObjectOptions{})
	return Info{Name: name, Size: o.Size, Version: Version(o.ETag), Modified: o.LastModified}, o.UserMetadata[writerKey], err
}

// Delete implements [Objects]. In a bucket that keeps versions, the old ones stay.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	err := b.do(ctx, request{op: OpDelete, name: name}, func(ctx context.Context) error {
		return b.core.RemoveObject(ctx, b.bucket, b.key(name), minio.RemoveObjectOptions{})
	})
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNoBucket) {
		return nil
	}
	return err
}

// sums are what the server checks of a body.
type sums struct {
	crc string // CRC32C, in base64
	sha string // SHA-256 in hex, which the signature covers
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sumsOf(ctx context.Context, body io.ReaderAt, off, size int64) (sums, error) {
	crc, sha := crc32.New(castagnoli), sha256.New()
	n, err := io.Copy(io.MultiWriter(crc, sha), &interruptible{ctx, io.NewSectionReader(body, off, size)})
	if err == nil && n != size {
		err = fmt.Errorf("it ends %d bytes too early: %w", size-n, io.ErrUnexpectedEOF)
	}
	return sums{base64.StdEncoding.EncodeToString(crc.Sum(nil)), hex.EncodeToString(sha.Sum(nil))}, err
}
