package blob

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"
)

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
