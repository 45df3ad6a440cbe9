package bench

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/source/bucket"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
	"github.com/pipefs/pipefs/store/blob"
)

// longList is a place of a bucket with one object, the list of which has so many more.
type longList struct {
	blob.Objects
	one              blob.Info
	classes, members int
}

func (l *longList) name(class, member int) string {
	return fmt.Sprintf("train/n%08d/n%08d_%d.JPEG", class, class, 10000+member)
}

// List has the classes and members whatever it is asked for: a manifest is made of all of it.
func (l *longList) List(_ context.Context, prefix string, deep bool) iter.Seq2[[]blob.Info, error] {
	return func(yield func([]blob.Info, error) bool) {
		if !deep {
			yield([]blob.Info{{Name: "train", Dir: true}}, nil)
			return
		}
		for class := range l.classes {
			page := make([]blob.Info, l.members)
			for i := range page {
				page[i] = blob.Info{
					Name: l.name(class, i), Size: 110_000 + int64(i),
					Version: blob.Version(fmt.Sprintf("%032x", class*l.members+i)), Modified: time.Unix(1_700_000_000, 0),
				}
				if page[i].Name == l.one.Name {
					page[i] = l.one
				}
			}
			if !yield(page, nil) {
				return
			}
		}
	}
}

// BenchmarkManifest mounts a bucket from a manifest of 1.28 million names, reads the one file of them
// that is there, and then asks for the size of each, in the order of find. Memory is that
// of the daemon, beyond a mount from a manifest of one name that has read it.
func BenchmarkManifest(b *testing.B) {
	f := newFaraway(b, 1, 0)
	at := f.place(f.server, "imagenet")
	long := &longList{Objects: at, classes: 1000, members: 1280}
	data, err := os.ReadFile(filepath.Join(f.dataset, f.names[0]))
	testenv.Must(b, err)
	name := long.name(500, 700)
	_, err = at.PutIfAbsent(b.Context(), name, bytes.NewReader(data), int64(len(data)))
	testenv.Must(b, err)
	long.one, err = at.Stat(b.Context(), name)
	testenv.Must(b, err)
	dir := b.TempDir()
	all, empty := filepath.Join(dir, "all"), filepath.Join(dir, "empty")
	for file, place := range map[string]blob.Objects{all: long, empty: at} {
		_, err = bucket.Write(b.Context(), place, file, bucket.WriteOptions{})
		testenv.Must(b, err)
	}
	var took, found, mounted, known []float64
	open := func(manifest string) (mnt string, unmount func()) {
		mnt, unmount = f.mount("", "imagenet", "--manifest", manifest)
		got, err := os.ReadFile(filepath.Join(mnt, "original", name))
		if err != nil || !bytes.Equal(got, data) {
			b.Fatalf("%d bytes of %d, %v", len(got), len(data), err)
		}
		return mnt, unmount
	}
	testmount.Binary(b)
	for b.Loop() {
		mnt, unmount := open(empty)
		floor := residentBytes(b, attach(b, mnt).PID)
		unmount()
		took = append(took, seconds(func() { mnt, unmount = open(all) }))
		daemon := attach(b, mnt).PID
		mounted = append(mounted, (residentBytes(b, daemon)-floor)/1e6)
		found = append(found, seconds(func() {
			out, err := exec.Command("find", filepath.Join(mnt, "original"), "-type", "f", "-size", "+0").Output()
			if n := bytes.Count(out, []byte("\n")); err != nil || n != long.classes*long.members {
				b.Fatalf("found %d files, %v", n, err)
			}
		}))
		known = append(known, (residentBytes(b, daemon)-floor)/1e6)
		unmount()
	}
	b.ReportMetric(views.Median(took), "s-to-first-file")
	b.ReportMetric(views.Median(mounted), "MB-first-file")
	b.ReportMetric(views.Median(found), "s-find-size")
	b.ReportMetric(views.Median(known), "MB-find-size")
}
