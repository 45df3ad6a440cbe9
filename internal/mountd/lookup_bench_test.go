package mountd

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// BenchmarkLookup answers LOOKUP of photographs that nobody prepared: what the daemon does
// for a stat(2) of a file of which the kernel knows nothing yet.
func BenchmarkLookup(b *testing.B) {
	photos := testenv.Shared(b, "imagenet/*.JPEG")
	root := b.TempDir()
	const copies = 10
	for c := range copies {
		testenv.Must(b, os.Mkdir(filepath.Join(root, fmt.Sprint(c)), 0o755))
		for _, photo := range photos {
			data, err := os.ReadFile(photo)
			testenv.Must(b, err)
			testenv.Must(b, os.WriteFile(filepath.Join(root, fmt.Sprint(c), filepath.Base(photo)), data, 0o644))
		}
	}
	for _, view := range []string{"original", "bmp"} {
		b.Run(view, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				d, err := source.Open(root, source.Options{})
				testenv.Must(b, err)
				r := Registry(transcode.Limits{}, nil, nil)
				s, err := serve.New(serve.Options{Registry: r, Source: d, Dataset: d})
				testenv.Must(b, err)
				f, err := fs.New(fs.Options{Registry: r, Server: fs.Serve(s)})
				testenv.Must(b, err)
				look := func(dir uint64, name string) uint64 {
					var out fuse.EntryOut
					if status := f.Lookup(nil, &fuse.InHeader{NodeId: dir}, name, &out); status != fuse.OK {
						b.Fatal(name, status)
					}
					return out.NodeId
				}
				top := look(1, view)
				var dirs []uint64
				for c := range copies {
					dirs = append(dirs, look(top, fmt.Sprint(c)))
				}
				look(dirs[0], filepath.Base(photos[0]))
				b.StartTimer()
				for _, dir := range dirs {
					for _, photo := range photos {
						look(dir, filepath.Base(photo))
					}
				}
				b.StopTimer()
				testenv.Must(b, s.Close())
				d.Close()
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*copies*len(photos)), "ns/lookup")
		})
	}
}
