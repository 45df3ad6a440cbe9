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
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"
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

const (
	smallestPart = 16 << 20 // bytes
	mostParts    = 10000    // that a server takes
	partsAtOnce  = 4
)

// putParts sends a large object part by part. It becomes visible with the last request, which has
// the condition.
func (b *Bucket) putParts(ctx context.Context, name string, body io.ReaderAt, size int64) (v Version, err error) {
	c, writer := condition{absent: true}, rand.Text()
	begin := minio.PutObjectOptions{UserMetadata: map[string]string{writerKey: writer, "X-Amz-Checksum-Algorithm": "CRC32C"}}
	var id string
	err = b.do(ctx, request{op: OpPut, name: name}, func(ctx context.Context) (err error) {
		id, err = b.core.NewMultipartUpload(ctx, b.bucket, b.key(name), begin)
		return err
	})
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			b.abort(ctx, name, id)
		}
	}()
	parts, err := b.sendParts(ctx, name, id, body, size)
	if err != nil {
		return "", err
	}
	complete := c.options(writer)
	complete.UserMetadata = nil // the first request has said it
	r := request{op: OpPut, name: name}
	return b.conditionally(ctx, r, c, writer, func(ctx context.Context) (Version, error) {
		info, err := b.core.CompleteMultipartUpload(ctx, b.bucket, b.key(name), id, parts, complete)
		return Version(info.ETag), err
	})
}

func (b *Bucket) sendParts(ctx context.Context, name, id string, body io.ReaderAt, size int64) ([]minio.CompletePart, error) {
	length := max(smallestPart, (size+mostParts-1)/mostParts)
	parts := make([]minio.CompletePart, (size+length-1)/length)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(partsAtOnce)
	for i := range parts {
		off := int64(i) * length
		n := min(length, size-off)
		group.Go(func() error {
			sums, err := sumsOf(ctx, body, off, n)
			if err != nil {
				return fmt.Errorf("%s: what is to be written: %w", b.url(name), err)
			}
			return b.do(ctx, request{op: OpPut, name: name, size: n}, func(ctx context.Context) error {
				part, err := b.core.PutObjectPart(ctx, b.bucket, b.key(name), id, i+1, io.NewSectionReader(body, off, n), n,
					minio.PutObjectPartOptions{
						Sha256Hex: sums.sha, DisableContentSha256: true,
						CustomHeader: http.Header{"X-Amz-Checksum-Crc32c": {sums.crc}},
					})
				parts[i] = minio.CompletePart{PartNumber: i + 1, ETag: part.ETag, ChecksumCRC32C: sums.crc}
				return err
			})
		})
	}
	return parts, group.Wait()
}

// abort gives the parts of a failed upload back, which cost money. What cannot be given back is
// left to the rules of the bucket.
func (b *Bucket) abort(ctx context.Context, name, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := b.core.AbortMultipartUpload(ctx, b.bucket, b.key(name), id); err != nil {
		b.log.Warn("parts of an unfinished upload are left in the bucket; let a rule of its life cycle remove incomplete uploads",
			"url", b.url(name), "upload", id, "err", b.scrub(err))
	}
}

// Upload is one in parts that was begun and neither completed nor given up. Its parts cost money
// and are in no list of objects.
type Upload struct {
	Name  string // that the object was to have
	Begun time.Time
	id    string
}

// Uploads returns the uploads below the prefix that were not ended.
func (b *Bucket) Uploads(ctx context.Context) ([]Upload, error) {
	var all []Upload
	key, id := "", ""
	for {
		var page minio.ListMultipartUploadsResult
		err := b.do(ctx, request{op: OpList}, func(ctx context.Context) (err error) {
			page, err = b.core.ListMultipartUploads(ctx, b.bucket, b.prefix, key, id, "", pageSize)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, u := range page.Uploads {
			if name, ok := strings.CutPrefix(u.Key, b.prefix); ok {
				all = append(all, Upload{Name: name, Begun: u.Initiated, id: u.UploadID})
			}
		}
		if !page.IsTruncated || page.NextKeyMarker == key && page.NextUploadIDMarker == id {
			return all, nil
		}
		key, id = page.NextKeyMarker, page.NextUploadIDMarker
	}
}

// GiveUp ends an upload, and removes its parts.
func (b *Bucket) GiveUp(ctx context.Context, u Upload) error {
	return b.do(ctx, request{op: OpDelete, name: u.Name}, func(ctx context.Context) error {
		err := b.core.AbortMultipartUpload(ctx, b.bucket, b.key(u.Name), u.id)
		if minio.ToErrorResponse(err).Code == minio.NoSuchUpload {
			return nil // it was ended meanwhile
		}
		return err
	})
}
