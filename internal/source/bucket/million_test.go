package bucket

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/blob"
)

// generated is a place with as many objects as ImageNet, in as many classes, that are not there.
type generated struct {
	blob.Objects
	classes, files int
}

func (g *generated) String() string { return "s3://bucket/imagenet" }

func (g *generated) List(_ context.Context, prefix string, deep bool) iter.Seq2[[]blob.Info, error] {
	return func(yield func([]blob.Info, error) bool) {
		var page []blob.Info
		flush := func(least int) bool {
			if len(page) < least {
				return true
			}
			p := page
			page = nil
			return yield(p, nil)
		}
		if !deep && !strings.HasPrefix(prefix, "train/") {
			page = []blob.Info{{Name: "train", Dir: true}}
			flush(1)
			return
		}
		for c := range g.classes {
			class := fmt.Sprintf("train/n%08d", c)
			if !deep {
				page = append(page, blob.Info{Name: class, Dir: true})
			} else if common := min(len(prefix), len(class)+1); (class + "/")[:common] == prefix[:common] {
				for i := range g.files {
					page = append(page, blob.Info{
						Name: fmt.Sprintf("%s/n%08d_%d.JPEG", class, c, 10000+i), Size: 110_000 + int64(i),
						Version: blob.Version(fmt.Sprintf("%032x", c*g.files+i)), Modified: time.Unix(1_700_000_000, 0),
					})
				}
			}
			if !flush(1000) {
				return
			}
		}
		flush(1)
	}
}

// BenchmarkMillion writes a manifest of 1.28 million names, opens it, and finds and lists in it.
func BenchmarkMillion(b *testing.B) {
	g := &generated{classes: 1000, files: 1280}
	file := filepath.Join(b.TempDir(), "m")
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			_, err := Write(b.Context(), g, file, WriteOptions{})
			testenv.Must(b, err)
		}
	})
	var m *Bucket
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			before := heap()
			var err error
			m, err = Open(b.Context(), g, Options{Manifest: file})
			testenv.Must(b, err)
			found, err := m.List("train")
			testenv.Must(b, err)
			class := "train/" + found[len(found)/2].Name
			found, err = m.List(class)
			testenv.Must(b, err)
			_, err = m.Stat(class + "/" + found[len(found)/2].Name)
			testenv.Must(b, err)
			b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
		}
	})
	b.Run("stat", func(b *testing.B) {
		i := 0
		for b.Loop() {
			i += 7919
			c, k := i/1280%1000, i%1280
			_, err := m.Stat(fmt.Sprintf("train/n%08d/n%08d_%d.JPEG", c, c, 10000+k))
			testenv.Must(b, err)
		}
	})
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
