package blob

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/minio/minio-go/v7"
)

// probe is the object by which a Bucket sees, before its first put, whether the server keeps to
// conditions. Some do not know them, and would let two writers replace each other's objects.
const (
	probe     = reserved + "conditions"
	probeText = "pipefs keeps this object to see whether this storage refuses to replace it.\n"
)

// conditions remembers that the server keeps to them.
type conditions struct {
	asking chan struct{} // full while somebody asks
	kept   atomic.Bool
}

// checkConditions fails if the server does not keep to If-None-Match and If-Match.
func (b *Bucket) checkConditions(ctx context.Context) error {
	if b.conditions.kept.Load() {
		return ctx.Err()
	}
	select {
	case b.conditions.asking <- struct{}{}:
		defer func() { <-b.conditions.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if b.conditions.kept.Load() {
		return nil
	}
	absent, never := minio.PutObjectOptions{DisableContentSha256: true}, minio.PutObjectOptions{DisableContentSha256: true}
	absent.SetMatchETagExcept("*")
	never.SetMatchETag(strings.Repeat("0", 32))
	// The first may make the object; the second finds it.
	replaced, err := b.putProbe(ctx, absent)
	if err == nil && replaced {
		replaced, err = b.putProbe(ctx, absent)
	}
	header := "If-None-Match"
	if err == nil && !replaced {
		header = "If-Match"
		replaced, err = b.putProbe(ctx, never)
	}
	if err == nil && replaced {
		err = fmt.Errorf("%s: the server at %s does not keep to %s, so that two writers could replace each other's objects; write to a directory, and copy that into the bucket with another tool",
			b, b.endpoint, header)
	}
	b.conditions.kept.Store(err == nil)
	return err
}

// putProbe reports whether the object was written.
func (b *Bucket) putProbe(ctx context.Context, o minio.PutObjectOptions) (bool, error) {
	err := b.do(ctx, request{op: OpPut, name: probe, size: int64(len(probeText))}, func(ctx context.Context) error {
		_, err := b.core.PutObject(ctx, b.bucket, b.key(probe), strings.NewReader(probeText), int64(len(probeText)), "", fmt.Sprintf("%x", sha256.Sum256([]byte(probeText))), o)
		return err
	})
	if errors.Is(err, ErrChanged) {
		return false, nil
	}
	return err == nil, err
}
