package fs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
)

// daemon is a file system as one of several daemons of a mount has it.
type testDaemon struct {
	*FS
	t *testing.T
}

// next is the daemon after those that have written the journal.
func nextDaemon(t *testing.T, dir string, file *os.File, change ...func(*Options)) *testDaemon {
	t.Helper()
	j, err := OpenJournal(file)
	testenv.Must(t, err)
	d, err := source.Open(dir, source.Options{})
	testenv.Must(t, err)
	t.Cleanup(func() { d.Close() })
	o := Options{Registry: testRegistry(), Server: newServer(t, testRegistry(), d, PageCache), Journal: j, Freshness: Immutable, Control: "/socket", Seed: 7, Views: []string{"bmp"}}
	for _, c := range change {
		c(&o)
	}
	f, err := New(o)
	testenv.Must(t, err)
	return &testDaemon{f, t}
}

// node looks a path up and returns its node.
func (d *testDaemon) node(names ...string) uint64 {
	d.t.Helper()
	node, status := lookUp(d.FS, names...)
	if !status.Ok() {
		d.t.Fatalf("%q: %v", names, status)
	}
	return node
}

// lookUp looks a path up without a mount.
func lookUp(f *FS, names ...string) (node uint64, status fuse.Status) {
	node = rootNode
	for _, name := range names {
		var out fuse.EntryOut
		if status = f.Lookup(nil, &fuse.InHeader{NodeId: node}, name, &out); !status.Ok() {
			return 0, status
		}
		node = out.NodeId
	}
	return node, fuse.OK
}

func (d *testDaemon) attr(node uint64) fuse.Status {
	return d.GetAttr(nil, &fuse.GetAttrIn{InHeader: fuse.InHeader{NodeId: node}}, &fuse.AttrOut{})
}

// TestJournal: the next daemon gives everything the number that it had, and no number
// twice.
func TestJournal(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/1.jpg", "a/2.jpg", "a/3.jpg", "b/1.jpg", "b/notes.txt"} {
		testenv.Must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		testenv.Must(t, os.WriteFile(filepath.Join(dir, name), []byte("text of "+name), 0o644))
	}
	file, err := NewJournal()
	testenv.Must(t, err)
	defer file.Close()
	paths := [][]string{{"bmp", "b", "1.bmp"}, {"bmp", "a", "2.bmp"}, {"png", "a", "2.png"}, {"original", "b", "notes.txt"},
		{".draw", "3", "4", "flip-npy", "a", "1.npy"}, {".draw", "3"}, {".pipefs", "control"}, {".pipefs", "lists", "bmp.txt"}}
	first := nextDaemon(t, dir, file)
	testenv.Must(t, first.SetCurrent("png"))
	want := map[uint64]string{}
	for _, p := range paths {
		want[first.node(p...)] = filepath.Join(p...)
	}
	link := first.node("current")
	gone := first.node("bmp", "a", "3.bmp")
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "a/3.jpg.new"), []byte("another file"), 0o644))
	testenv.Must(t, os.Rename(filepath.Join(dir, "a/3.jpg.new"), filepath.Join(dir, "a/3.jpg")))
	// The last daemon was killed as it wrote.
	_, err = file.Write([]byte{recordAttr, 200, 0, 0, 0, 1, 2})
	testenv.Must(t, err)

	for range 3 {
		d := nextDaemon(t, dir, file)
		for _, p := range paths {
			if n := d.node(p...); want[n] != filepath.Join(p...) {
				t.Errorf("%q has the node %x of %q", p, n, want[n])
			}
		}
		if now := d.node("current"); now != link {
			t.Errorf("the link has node %x, not %x", now, link)
		}
		if now := d.node("bmp", "a", "3.bmp"); now == gone {
			t.Error("a file that changed has the number that it had")
		}
		// What is new gets numbers of its own.
		for _, p := range [][]string{{"npy", "a", "1.npy"}, {".draw", "9"}, {"bmp", "a", "1.bmp"}} {
			if n := d.node(p...); want[n] != "" && want[n] != filepath.Join(p...) {
				t.Errorf("%q has the node of %q", p, want[n])
			} else {
				want[n] = filepath.Join(p...)
			}
		}
	}
	d := nextDaemon(t, dir, file)
	for n, path := range want {
		if s := d.attr(n); !s.Ok() {
			t.Errorf("%s: %v", path, s)
		}
	}
	if _, s := d.Read(nil, &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: gone}, Size: 10}, make([]byte, 10)); s != estale {
		t.Errorf("the file that is gone: %v", s)
	}
	if s := d.attr(1 << 20); s != estale {
		t.Errorf("what never was: %v", s)
	}
}

// TestJournalOfUntold: a daemon that knew that a file went, and died before it told the kernel, is
// followed by one that tells it.
func TestJournalOfUntold(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"1.jpg", "2.jpg", "3.jpg"} {
		testenv.Must(t, os.WriteFile(filepath.Join(dir, name), []byte("text of "+name), 0o644))
	}
	file, err := NewJournal()
	testenv.Must(t, err)
	defer file.Close()
	first := nextDaemon(t, dir, file)
	first.node("bmp", "2.bmp")
	first.node("bmp", "3.bmp")
	tick(t)
	testenv.Must(t, os.Remove(filepath.Join(dir, "2.jpg")))
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "3.new"), []byte("another file"), 0o644))
	testenv.Must(t, os.Rename(filepath.Join(dir, "3.new"), filepath.Join(dir, "3.jpg")))
	_, err = first.refresh(first.tree.dir(rootID))
	testenv.Must(t, err)
	first.node("bmp", "3.bmp")

	next := nextDaemon(t, dir, file)
	next.fresh = Checked
	next.lookAgain(nil)
	told := map[string]bool{}
	for _, n := range next.notify.take() {
		names := next.namesOf(next.views.named("bmp", false), n.d, cmp.Or(n.diff.old, n.d.snap.Load()))
		for _, own := range n.diff.names {
			for _, k := range names.alike(own) {
				told[names.listed(k)] = true
			}
		}
	}
	if !told["2.bmp"] || !told["3.bmp"] || told["1.bmp"] {
		t.Errorf("the kernel is told of %v", told)
	}
}

// TestJournalOfAnother: what another version wrote is refused, as is a mount of another kind.
func TestJournalOfAnother(t *testing.T) {
	dir := t.TempDir()
	file, err := NewJournal()
	testenv.Must(t, err)
	defer file.Close()
	nextDaemon(t, dir, file)
	j, err := OpenJournal(file)
	testenv.Must(t, err)
	d, err := source.Open(dir, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	if _, err := New(Options{Registry: testRegistry(), Server: newServer(t, testRegistry(), d, PageCache), Journal: j, Freshness: Checked}); err == nil {
		t.Error("a mount that was immutable goes on as one that is checked")
	}
	j.writeJSON(recordBegin, beginning{Version: JournalVersion + 1, Made: time.Now()})
	if _, err := OpenJournal(file); !errors.Is(err, ErrJournal) {
		t.Error(err)
	}
}

// TestDamagedJournal: a flipped bit of a journal is an error. What a daemon has not written to its end is none.
func TestDamagedJournal(t *testing.T) {
	dir := t.TempDir()
	file, err := NewJournal()
	testenv.Must(t, err)
	defer file.Close()
	first := nextDaemon(t, dir, file)
	first.node("bmp")
	first.node("png")
	whole, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	testenv.Must(t, err)
	for bit := range 8 * len(whole) {
		damaged, err := NewJournal()
		testenv.Must(t, err)
		data := bytes.Clone(whole)
		data[bit/8] ^= 1 << (bit % 8)
		_, err = damaged.Write(data)
		testenv.Must(t, err)
		if _, _, err := readJournal(damaged); err == nil {
			t.Errorf("bit %d of byte %d is not noticed", bit%8, bit/8)
		}
		damaged.Close()
	}
	testenv.Proved(t, "damage", 8*len(whole))
	testenv.Must(t, file.Truncate(int64(len(whole)-1)))
	_, end, err := readJournal(file)
	if testenv.Must(t, err); end == 0 || end >= int64(len(whole)-1) {
		t.Errorf("the records of a journal of %d bytes, the last one of which is missing, end at %d", len(whole), end)
	}
}

// TestJournalOfOtherBytes: what this program makes otherwise than the one before is not shown
// under the same numbers.
func TestJournalOfOtherBytes(t *testing.T) {
	dir := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "1.jpg"), []byte("text"), 0o644))
	file, err := NewJournal()
	testenv.Must(t, err)
	defer file.Close()
	first := nextDaemon(t, dir, file)
	changed, same := first.node("png", "1.png"), first.node("original", "1.jpg")
	j, err := OpenJournal(file)
	testenv.Must(t, err)
	for i := range j.past.views {
		j.past.views[i].Digest = "of the program before"
	}
	d, err := source.Open(dir, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	f, err := New(Options{Registry: testRegistry(), Server: newServer(t, testRegistry(), d, PageCache), Journal: j, Freshness: Immutable})
	testenv.Must(t, err)
	next := &testDaemon{f, t}
	if s := next.attr(changed); s != estale {
		t.Errorf("the file of the program before: %v", s)
	}
	if now := next.node("png", "1.png"); now == changed {
		t.Error("other bytes have the number of the old ones")
	}
	if now := next.node("original", "1.jpg"); now != same {
		t.Error("the same bytes have another number")
	}
}

// BenchmarkResume is what a daemon does that takes over a mount of which 100,000 files were
// looked up.
func BenchmarkResume(b *testing.B) {
	file, err := NewJournal()
	testenv.Must(b, err)
	defer file.Close()
	j, err := OpenJournal(file)
	testenv.Must(b, err)
	d, err := source.Open(b.TempDir(), source.Options{})
	testenv.Must(b, err)
	defer d.Close()
	server := newServer(b, testRegistry(), d, PageCache)
	f, err := New(Options{Registry: testRegistry(), Server: server, Journal: j, Freshness: Immutable})
	testenv.Must(b, err)
	for c := range 100 {
		var members []source.Entry
		for i := range 1000 {
			members = append(members, source.Entry{Name: fmt.Sprintf("n%08d_%05d.JPEG", c, i)})
		}
		id := new(uint32)
		p := packer{t: f.tree, dir: rootID}
		p.add(fmt.Sprintf("n%08d", c), isDir, false, id)
		p.finish()
		s, _ := f.tree.merge(f.tree.dir(*id), nil, members)
		j.listing(*id, s)
		for _, member := range s.ids {
			j.attr(member, source.Attr{Identity: source.Identity{ID: uint64(member), Size: 110_000, MTime: 1e18, CTime: 1e18}, Mode: 0o644})
		}
	}
	for b.Loop() {
		j, err := OpenJournal(file)
		testenv.Must(b, err)
		_, err = New(Options{Registry: testRegistry(), Server: server, Journal: j, Freshness: Immutable})
		testenv.Must(b, err)
	}
	info, err := file.Stat()
	testenv.Must(b, err)
	b.ReportMetric(float64(info.Size())/100_000, "bytes/file")
}

// TestRefusedSuspect: a request that daemons died of is EIO at each daemon that comes, and each of them says so
// once in the log.
func TestRefusedSuspect(t *testing.T) {
	dir := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "1.jpg"), []byte("text"), 0o644))
	file, err := NewJournal()
	testenv.Must(t, err)
	defer file.Close()
	first := nextDaemon(t, dir, file)
	node := first.node("bmp", "1.bmp")
	lookup := suspect{Op: 1, Node: first.node("bmp"), Name: "1.bmp"}
	for _, what := range []suspect{lookup, {Op: 15, Node: node}} {
		first.journal.writeJSON(recordAlone, what)
		var log testenv.Log
		second := nextDaemon(t, dir, file, func(o *Options) {
			o.Suspects, o.Log = true, slog.New(slog.NewTextHandler(&log, nil))
		})
		second.refused(what, &log)
		log = testenv.Log{}
		first = nextDaemon(t, dir, file, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		first.refused(what, &log)
	}
}

func (d *testDaemon) refused(what suspect, log *testenv.Log) {
	d.t.Helper()
	for range 3 {
		h := &fuse.InHeader{Opcode: what.Op, NodeId: what.Node}
		if _, status := d.suspects.guard(h, what.Name, true); status != fuse.EIO {
			d.t.Errorf("%+v: %v", what, status)
		}
	}
	if lines := log.String(); strings.Count(lines, "I/O error") != 1 || strings.Count(lines, "level=ERROR") != 1 {
		d.t.Errorf("%+v: the log says %q", what, lines)
	}
	if why := d.Why("bmp/" + cmp.Or(what.Name, "1.jpg")); why != errDied.Error() {
		d.t.Errorf("%+v: why: %q", what, why)
	}
}
