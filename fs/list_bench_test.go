package fs

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
)

// listOnly is a Server whose tree is made up.
type listOnly struct {
	Server
	manyFiles
}

func (p listOnly) List(dir string) ([]source.Entry, error) { return p.manyFiles.List(dir) }
func (p listOnly) Stat(path string, fresh bool) (source.Attr, error) {
	return p.manyFiles.Stat(path, fresh)
}

// countNames lists a directory as a program does.
func countNames(tb testing.TB, path string, buf []byte) (count int) {
	fd := openDir(tb, path)
	defer unix.Close(fd)
	for {
		n, err := unix.Getdents(fd, buf)
		testenv.Must(tb, err)
		if n == 0 {
			return count
		}
		for b := buf[:n]; len(b) > 0; count++ {
			b = b[uint16(b[16])|uint16(b[17])<<8:]
		}
	}
}

// BenchmarkList100k lists 100,000 files in one directory through the mount: for
// the first time since mounting; again in another view; and again in the same.
func BenchmarkList100k(b *testing.B) {
	const files = 100_000
	buf := make([]byte, 32<<10)
	mountMany := func() *mounted {
		return mount(b, PageCache, func(o *Options) {
			o.Server = listOnly{o.Server, manyFiles{1, files}}
		})
	}
	list := func(m *mounted, view string) {
		if n := countNames(b, m.path(view, "n00000000"), buf); n != files+2 {
			b.Fatalf("%d entries", n)
		}
	}
	b.Run("first", func(b *testing.B) {
		for range b.N {
			b.StopTimer()
			m := mountMany()
			b.StartTimer()
			list(m, "bmp")
			b.StopTimer()
			testenv.Must(b, m.Unmount())
			b.StartTimer()
		}
	})
	for _, view := range []string{"original", "bmp"} {
		b.Run("again/view="+view, func(b *testing.B) {
			m := mountMany()
			list(m, "scan5")
			for range b.N {
				b.StopTimer()
				m.fs.kernel.Load().InodeNotify(node(m.fs.views.named(view, false).index, 2), 0, 0)
				b.StartTimer()
				list(m, view)
			}
		})
	}
	b.Run("kept", func(b *testing.B) {
		m := mountMany()
		list(m, "bmp")
		for b.Loop() {
			list(m, "bmp")
		}
	})
}

// BenchmarkFind finds a name among 100,000.
func BenchmarkFind(b *testing.B) {
	for _, spec := range []string{"original", "bmp"} {
		b.Run("view="+spec, func(b *testing.B) {
			tr := newTree(manyFiles{1, 100_000})
			root, _, _ := tr.refresh(tr.dir(rootID), nil)
			s, _, err := tr.refresh(tr.dir(root.at(0)), nil)
			testenv.Must(b, err)
			reg := testRegistry()
			p, _ := reg.Parse(spec)
			n := &names{t: tr, s: s, reg: reg, pipeline: p}
			name := fmt.Sprintf("ILSVRC2012_val_%08d", 77_777) + map[string]string{"original": ".JPEG", "bmp": ".bmp"}[spec]
			b.ReportAllocs()
			for b.Loop() {
				if n.find(name) != 77_777 {
					b.Fatal("not found")
				}
			}
		})
	}
}
