package blob_test

import (
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/blob"
)

// Uploads that nobody ended are found below the prefix, and only there, and can be given up.
func TestBucketUploads(t *testing.T) {
	s := testenv.S3(t)
	login(t, s)
	core, err := minio.NewCore(strings.TrimPrefix(s.Endpoint, "http://"), &minio.Options{Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""), Region: s.Region})
	testenv.Must(t, err)
	for _, key := range []string{"a/store/packs/1.pack", "a/store/packs/2.pack", "a/storey/3.pack"} {
		id, err := core.NewMultipartUpload(t.Context(), s.Bucket, key, minio.PutObjectOptions{})
		testenv.Must(t, err)
		_, err = core.PutObjectPart(t.Context(), s.Bucket, key, id, 1, strings.NewReader("part"), 4, minio.PutObjectPartOptions{})
		testenv.Must(t, err)
	}
	b := bucket(t, s.Endpoint, "s3://"+s.Bucket+"/a/store", blob.Options{})
	all, err := b.Uploads(t.Context())
	if err != nil || len(all) != 2 || all[0].Name != "packs/1.pack" || time.Since(all[0].Begun).Abs() > time.Hour {
		t.Fatalf("%+v, %v", all, err)
	}
	for range 2 { // one that was ended is no error
		testenv.Must(t, b.GiveUp(t.Context(), all[0]))
	}
	if left, err := b.Uploads(t.Context()); err != nil || len(left) != 1 || left[0].Name != "packs/2.pack" {
		t.Errorf("%+v, %v", left, err)
	}
	other := bucket(t, s.Endpoint, "s3://"+s.Bucket+"/a/storey", blob.Options{})
	if left, err := other.Uploads(t.Context()); err != nil || len(left) != 1 {
		t.Errorf("%+v, %v", left, err)
	}
}
