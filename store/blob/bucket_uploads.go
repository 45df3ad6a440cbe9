package blob

import (
	"context"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

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
