package e2e

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
	"github.com/pipefs/pipefs/store/blob"
)

// upload puts files below a directory into the bucket of a server.
func upload(t *testing.T, s *testenv.S3Server, dir, prefix string, names ...string) {
	t.Helper()
	for k, v := range map[string]string{"AWS_ACCESS_KEY_ID": s.AccessKey, "AWS_SECRET_ACCESS_KEY": s.SecretKey} {
		t.Setenv(k, v)
	}
	place, err := blob.Open(t.Context(), "s3://"+s.Bucket+"/"+prefix, blob.Options{Endpoint: s.Endpoint, Region: s.Region})
	testenv.Must(t, err)
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		testenv.Must(t, err)
		v := blob.Version("")
		if i, err := place.Stat(context.Background(), name); err == nil {
			v = i.Version
		}
		_, err = place.PutIfMatch(t.Context(), name, v, data)
		testenv.Must(t, err)
	}
}

// TestBucketDataset: a dataset in a bucket shows the files of its copy on the disk in every view,
// keeps the names of its list, and gives no mixture when an object is replaced.
func TestBucketDataset(t *testing.T) {
	server := testenv.S3(t)
	dataset := testmount.Generate(t, "-samples", "30", "-width", "400", "-height", "300")
	var names []string
	for name := range hashes(t, dataset) {
		names = append(names, name)
	}
	upload(t, server, dataset, "data", names...)
	env := append(testmount.Home(t), server.Env()...)
	url := "s3://" + server.Bucket + "/data"

	local := testmount.Mount(t, env, dataset)
	mnt := testmount.Mount(t, env, url)
	views := []string{"original", "scan3", "bmp", "resize100-png"}
	for _, v := range views {
		if diff := cmp.Diff(hashes(t, filepath.Join(local, v)), hashes(t, filepath.Join(mnt, v))); diff != "" {
			t.Errorf("%s (-local +bucket):\n%s", v, diff)
		}
	}

	manifest := filepath.Join(t.TempDir(), "m")
	if out := testmount.Command(t, env, "list", url, "-o", manifest); !strings.Contains(out, "pipefs mount --manifest "+manifest) {
		t.Error(out)
	}
	listed := testmount.Mount(t, env, url, "--manifest", manifest)
	if diff := cmp.Diff(hashes(t, dataset), hashes(t, filepath.Join(listed, "original"))); diff != "" {
		t.Errorf("with a manifest (-dataset +mount):\n%s", diff)
	}

	// Objects are replaced by others of the same names, and one is new.
	replaced := slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".jpg") })
	added := "new/added.jpg"
	fresh := testmount.Mount(t, append(testmount.Home(t), server.Env()...), url)
	before := map[string][]byte{}
	data, err := os.ReadFile(filepath.Join(dataset, replaced[0]))
	testenv.Must(t, err)
	testenv.Must(t, os.Mkdir(filepath.Join(dataset, "new"), 0o755))
	testenv.Must(t, os.WriteFile(filepath.Join(dataset, added), data, 0o644))
	for _, name := range replaced {
		before[name], err = os.ReadFile(filepath.Join(dataset, name))
		testenv.Must(t, err)
		testenv.Must(t, os.WriteFile(filepath.Join(dataset, name), append(data, 0), 0o644))
	}
	upload(t, server, dataset, "data", append(replaced, added)...)
	stale := 0
	for _, name := range replaced {
		// The mount has looked at some, and keeps what it has read.
		switch got, err := os.ReadFile(filepath.Join(fresh, "original", name)); {
		case errors.Is(err, unix.ESTALE):
			stale++
		case err != nil || !bytes.Equal(got, before[name]):
			t.Errorf("an object that was replaced, %s: %d bytes, %v", name, len(got), err)
		}
	}
	if stale == 0 {
		t.Error("no object that was replaced is stale")
	}
	if _, err := os.Stat(filepath.Join(fresh, "original", added)); !os.IsNotExist(err) {
		t.Errorf("an object that was not listed: %v", err)
	}
	testmount.Command(t, env, "refresh", fresh)
	if diff := cmp.Diff(hashes(t, dataset), hashes(t, filepath.Join(fresh, "original"))); diff != "" {
		t.Errorf("after a refresh (-dataset +mount):\n%s", diff)
	}

	// What is packed of it is what is packed of the copy.
	store := filepath.Join(t.TempDir(), "store")
	testmount.Command(t, env, "pack", url, store)
	if diff := cmp.Diff(hashes(t, dataset), hashes(t, filepath.Join(testmount.Mount(t, env, store), "original"))); diff != "" {
		t.Errorf("packed (-dataset +store):\n%s", diff)
	}
}

// TestBucketZip: of a zip in a bucket, a mount fetches the directory and not the header beside each member.
func TestBucketZip(t *testing.T) {
	server := testenv.S3(t)
	dir, random := t.TempDir(), rand.NewChaCha8([32]byte{})
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := range 120 {
		f, err := w.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("class%d/%d.bin", i%7, i), Method: uint16(i%2) * zip.Deflate})
		testenv.Must(t, err)
		_, err = io.CopyN(f, random, 100<<10) // more than a block of the cache
		testenv.Must(t, err)
	}
	testenv.Must(t, w.Close())
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "a.zip"), b.Bytes(), 0o644))
	upload(t, server, dir, "data", "a.zip")
	proxy := testenv.Distance(t, server.Endpoint, testenv.Way{})
	far := *server
	far.Endpoint = proxy.Endpoint

	mnt := testmount.Mount(t, append(testmount.Home(t), far.Env()...), "s3://"+server.Bucket+"/data/a.zip", "--no-background")
	if n, requests := proxy.Bytes.Load(), proxy.Requests.Load(); n > 3<<20 || requests > 12 {
		t.Errorf("the mount fetched %d bytes of %d in %d requests", n, b.Len(), requests)
	}
	local := testmount.Mount(t, testmount.Home(t), dir)
	if diff := cmp.Diff(hashes(t, filepath.Join(local, "original")), hashes(t, filepath.Join(mnt, "original"))); diff != "" {
		t.Errorf("original (-local +bucket):\n%s", diff)
	}
}
