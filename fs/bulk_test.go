package fs

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// A thread that lists a directory and looks at each file gets the attributes of the
// next directory with its listing. One that only lists costs no stat of a file.
func TestListingsWithAttributes(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m := mount(t, PageCache)
	const files = 300 // several replies
	for d := range 4 {
		for i := range files {
			m.write(fmt.Sprintf("d%d/%03d.jpg", d, i), strings.Repeat("x", i%7))
		}
	}
	lookups := func() int64 { return m.fs.views.named("original", false).counters.Lookups.Load() }
	list := func(d int) {
		if n := len(dirents(t, m.path("original", fmt.Sprint("d", d)))); n != files {
			t.Fatalf("%d files in d%d", n, d)
		}
	}
	stats := func(d int) (requests int64) {
		before := lookups()
		for i := range files {
			name := fmt.Sprintf("d%d/%03d.jpg", d, i)
			st, err := os.Stat(m.path("original", name))
			if err != nil || st.Size() != int64(i%7) {
				t.Fatalf("%s: %v, %v", name, st, err)
			}
		}
		return lookups() - before
	}
	known := func(d int) (n int) {
		s, err := m.fs.listing(m.fs.tree.dir(m.fs.tree.dir(rootID).snap.Load().at(d)))
		testenv.Must(t, err)
		for i := range s.ids {
			if _, ok := m.fs.tree.known(s.at(i)); ok {
				n++
			}
		}
		return n
	}
	list(0)
	list(1)
	if n := known(0) + known(1); n != 0 {
		t.Errorf("listing alone looked at %d files", n)
	}
	if n := stats(1); n < files {
		t.Errorf("%d requests for %d files that were listed before", n, files)
	}
	list(2)
	if n := stats(2); n > 0 {
		t.Errorf("%d requests for the files of the next directory", n)
	}
	// A file that changed since is not shown as it was.
	m.write("d3/000.jpg", "longer than before")
	list(3)
	if st, err := os.Stat(m.path("original", "d3/000.jpg")); err != nil || st.Size() != 18 {
		t.Errorf("%v, %v", st, err)
	}
}
