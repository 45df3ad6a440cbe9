package fs

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	iofs "io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// simData is a dataset in memory whose files are replaced, deleted and made again by one goroutine. Nobody waits for
// a lock: that would hide races from the detector.
type simData struct {
	s   *testenv.Sim
	now atomic.Pointer[simTree]
}

// simTree is a dataset as it is at one time.
type simTree struct {
	files  map[string]source.Identity // by path; the ID counts the versions of all files
	dirs   map[string]source.Identity
	nextID uint64
}

func newSimData(s *testenv.Sim) *simData {
	d := &simData{s: s}
	d.now.Store(&simTree{files: map[string]source.Identity{}, dirs: map[string]source.Identity{"": {}, "a": {ID: 1}, "b": {ID: 2}}, nextID: 9})
	for _, name := range simNames {
		d.set(name, 0)
	}
	return d
}

var simNames = []string{"a/1.jpg", "a/2.png", "b/3.jpg", "b/4.txt"}

// change changes a file of the dataset.
func (d *simData) change(name string, set func(t *simTree)) {
	t := *d.now.Load()
	t.files, t.dirs = maps.Clone(t.files), maps.Clone(t.dirs)
	set(&t)
	dir := t.dirs[path.Dir(name)]
	dir.CTime = time.Now().UnixNano()
	t.dirs[path.Dir(name)] = dir
	d.now.Store(&t)
}

// set makes a file of a version; 0 is a new one.
func (d *simData) set(name string, version uint64) {
	d.change(name, func(t *simTree) {
		if version == 0 {
			t.nextID++
			version = t.nextID
		}
		now := time.Now().UnixNano()
		t.files[name] = source.Identity{ID: version, Size: int64(len(simText(name, version))), MTime: now, CTime: now}
	})
}

func (d *simData) remove(name string) {
	d.change(name, func(t *simTree) { delete(t.files, name) })
}

// simText is a version of a file: each 16 bytes of it tell which.
func simText(name string, version uint64) string {
	h := fnv.New64a()
	_, _ = fmt.Fprintln(h, name, version)
	return strings.Repeat(fmt.Sprintf("%016x", h.Sum64()), 40+int(version%7))
}

func (d *simData) List(dir string) (found []source.Entry, err error) {
	d.s.Yield()
	now := d.now.Load()
	for name := range now.dirs {
		if dir == "" && name != "" {
			found = append(found, source.Entry{Name: name, Dir: true})
		}
	}
	for name := range now.files {
		if path.Dir(name) == dir {
			found = append(found, source.Entry{Name: path.Base(name)})
		}
	}
	slices.SortFunc(found, func(a, b source.Entry) int { return strings.Compare(a.Name, b.Name) })
	d.s.Yield()
	return found, nil
}

// Fresh implements [source.Tree].
func (d *simData) Fresh(name string) (source.Attr, error) { return d.Stat(name) }

func (d *simData) Stat(name string) (source.Attr, error) {
	d.s.Yield()
	now := d.now.Load()
	if id, ok := now.dirs[name]; ok {
		return source.Attr{Identity: id, Mode: iofs.ModeDir | 0o755}, nil
	}
	if id, ok := now.files[name]; ok {
		return source.Attr{Identity: id, Mode: 0o644}, nil
	}
	return source.Attr{}, iofs.ErrNotExist
}

// Root implements [source.Dataset].
func (*simData) Root() string { return "" }

// Close implements [source.Dataset].
func (*simData) Close() error { return nil }

// Open implements [source.Dataset].
func (d *simData) Open(name string) (*source.File, error) {
	return d.OpenAs(name, d.now.Load().files[name])
}

// OpenAs implements [source.Dataset].
func (d *simData) OpenAs(name string, id source.Identity) (*source.File, error) {
	d.s.Yield()
	there, ok := d.now.Load().files[name]
	if !ok {
		return nil, iofs.ErrNotExist
	}
	return &source.File{Identity: id, Opened: simFile{strings.NewReader(simText(name, there.ID)), d, name, id}}, nil
}

// simFile is an open file.
type simFile struct {
	*strings.Reader
	d    *simData
	name string
	id   source.Identity
}

func (f simFile) ReadAt(b []byte, off int64) (int, error) {
	f.d.s.Yield()
	return f.Reader.ReadAt(b, off)
}

func (f simFile) Verify() error {
	if f.d.s.Yield(); f.d.now.Load().files[f.name] != f.id {
		return source.ErrChanged
	}
	return nil
}

func (f simFile) Name() string   { return f.name }
func (simFile) Close() error     { return nil }
func (simFile) Scattered()       {}
func (simFile) Fetch(_, _ int64) {}

// simKernel sends requests to one daemon after the other. What a daemon that was killed has not
// answered it sends again.
type simKernel struct {
	s      *testenv.Sim
	data   *simData
	mode   CacheMode
	fresh  Freshness
	daemon atomic.Pointer[simDaemon] // nil between two
	said   sync.Map                  // text by node
}

type simDaemon struct {
	*FS
	p       *serve.Server
	journal *os.File
	stop    chan struct{}
	ended   sync.WaitGroup
}

// start starts the first daemon, or another one in the place of one that is killed: what that one
// does from then on nobody sees.
func (k *simKernel) start() {
	file, err := NewJournal()
	testenv.Must(k.s.T, err)
	if old := k.daemon.Swap(nil); old != nil {
		info, err := old.journal.Stat()
		testenv.Must(k.s.T, err)
		data := make([]byte, info.Size())
		_, err = old.journal.ReadAt(data, 0)
		testenv.Must(k.s.T, err)
		_, err = file.Write(data)
		testenv.Must(k.s.T, err)
		defer old.end()
	}
	j, err := OpenJournal(file)
	testenv.Must(k.s.T, err)
	registry := testRegistry()
	d := &simDaemon{journal: file, stop: make(chan struct{})}
	d.p, err = serve.New(serve.Options{Registry: registry, Source: k.data, Dataset: k.data, Memfd: k.mode == DaemonCache, CacheBytes: 4 * 4096})
	testenv.Must(k.s.T, err)
	d.FS, err = New(Options{Registry: registry, Server: d.p, Journal: j, Cache: k.mode, Freshness: k.fresh, MaxViews: 64, Views: []string{"bmp"}})
	testenv.Must(k.s.T, err)
	d.dirs.next = 0 // as if the daemon before had opened a million directories
	if j.Resumes() {
		d.ended.Go(func() { d.lookAgain(d.stop) })
	}
	d.ended.Go(d.readNotices)
	k.daemon.Store(d)
}

func (d *simDaemon) end() {
	close(d.stop)
	d.ended.Wait()
	d.journal.Close()
	d.p.Close()
}

// readNotices does what runNotifier does, but tells nobody.
func (d *simDaemon) readNotices() {
	for {
		select {
		case <-d.stop:
			return
		case <-d.notify.wake:
		}
		for _, n := range d.notify.take() {
			for _, v := range d.viewsOf(n.d) {
				for _, s := range []*snapshot{n.diff.old, n.diff.new} {
					for k := 0; s != nil && k < len(s.ids); k++ {
						names := d.namesOf(v, n.d, s)
						names.listed(k)
					}
				}
			}
			d.notify.busy.Add(-1)
		}
	}
}

// ask sends a request until a daemon lives that has answered it.
func (k *simKernel) ask(do func(d *simDaemon)) {
	for {
		d := k.daemon.Load()
		if d != nil {
			if do(d); k.daemon.Load() == d {
				return
			}
		}
		time.Sleep(time.Microsecond)
	}
}

// lookUp looks a path up.
func (k *simKernel) lookUp(names ...string) (out fuse.EntryOut, status fuse.Status) {
	out.NodeId = rootNode
	for _, name := range names {
		parent := out.NodeId
		k.ask(func(d *simDaemon) {
			out = fuse.EntryOut{}
			status = d.Lookup(nil, &fuse.InHeader{NodeId: parent}, name, &out)
		})
		if status != fuse.OK {
			return out, status
		}
	}
	return out, fuse.OK
}

// client reads files as a program does.
func (k *simKernel) client() {
	for range 8 {
		k.s.Sleep(2)
		name, view := simNames[0], "bmp" // half of all
		if k.s.OneIn(2) {
			name, view = simNames[k.s.IntN(len(simNames))], []string{"original", "bmp", "bmp-own"}[k.s.IntN(3)]
		}
		if k.s.OneIn(3) {
			k.list(view, path.Dir(name))
			continue
		}
		k.readFile(view, name)
	}
}

func (k *simKernel) readFile(view, name string) {
	entry, status := k.lookUp(view, path.Dir(name), path.Base(name))
	if status == estale || status == fuse.ENOENT {
		return // it is replaced, or deleted
	}
	if status != fuse.OK {
		k.s.Errorf("lookup of %s/%s: %v", view, name, status)
		return
	}
	var fh uint64
	if k.mode == DaemonCache {
		k.ask(func(d *simDaemon) {
			var out fuse.OpenOut
			status = d.Open(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: entry.NodeId}}, &out)
			fh = out.Fh
		})
	}
	if status == estale {
		return
	}
	if status != fuse.OK {
		k.s.Errorf("open of %s/%s: %v", view, name, status)
		return
	}
	for range 1 + k.s.IntN(4) {
		k.s.Sleep(1)
		off, buf := derivedHead+k.s.IntN(int(entry.Size)-derivedHead-16), make([]byte, 16+k.s.IntN(400))
		var got string
		k.ask(func(d *simDaemon) {
			var r fuse.ReadResult
			if r, status = d.Read(nil, &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: entry.NodeId}, Offset: uint64(off), Fh: fh, Size: uint32(len(buf))}, buf); status == fuse.OK {
				k.s.Yield() // it is being sent
				b, _ := r.Bytes(buf)
				got = string(b)
				r.Done()
			}
		})
		if status == fuse.OK {
			k.check(view, name, &entry, off, len(buf), got)
		} else if status != estale {
			k.s.Errorf("read of %s/%s: %v", view, name, status)
		}
	}
	if k.mode == DaemonCache {
		k.ask(func(d *simDaemon) {
			d.Release(nil, &fuse.ReleaseIn{InHeader: fuse.InHeader{NodeId: entry.NodeId}, Fh: fh})
		})
	}
}

// check makes sure that a node always has the bytes of one version of the file that it was looked up as.
func (k *simKernel) check(view, name string, entry *fuse.EntryOut, off, n int, got string) {
	view = strings.TrimSuffix(view, "-own")
	if path.Ext(name) == ".txt" {
		view = transcode.Original
	}
	want, _ := k.said.Load(entry.NodeId)
	for version := uint64(1); want == nil && version < 100; version++ {
		if text := string(derived(view, []byte(simText(name, version)))); len(text) == int(entry.Size) && text[off:min(off+n, len(text))] == got {
			want, _ = k.said.LoadOrStore(entry.NodeId, text)
		}
	}
	if text, _ := want.(string); text == "" || text[off:min(off+n, len(text))] != got {
		k.s.Errorf("%s/%s, node %x of %d bytes: %d bytes at %d are %q, not %.60q", view, name, entry.NodeId, entry.Size, n, off, got, text)
	}
}

// list lists a directory in small pieces.
func (k *simKernel) list(view, dir string) {
	entry, status := k.lookUp(view, dir)
	var open fuse.OpenOut
	if status == fuse.OK {
		k.ask(func(d *simDaemon) {
			status = d.OpenDir(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: entry.NodeId}}, &open)
		})
	}
	seen := map[string]bool{}
	for off := uint64(0); status == fuse.OK; {
		k.s.Sleep(2)
		buf := make([]byte, 80)
		k.ask(func(d *simDaemon) {
			out := fuse.NewDirEntryList(buf, off)
			status = d.ReadDir(nil, &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: entry.NodeId}, Fh: open.Fh, Offset: off, Size: 80}, out)
		})
		if status != fuse.OK || buf[16] == 0 {
			break
		}
		for b := buf; len(b) >= 24 && b[16] != 0; {
			n := int(binary.LittleEndian.Uint32(b[16:]))
			name := string(b[24 : 24+n])
			off = binary.LittleEndian.Uint64(b[8:])
			b = b[(24+n+7)/8*8:]
			stem := strings.TrimSuffix(name, path.Ext(name))
			known := slices.ContainsFunc(simNames, func(own string) bool { return path.Dir(own) == dir && strings.HasPrefix(path.Base(own), stem+".") })
			if name != "." && name != ".." && (seen[name] || !known) {
				k.s.Errorf("%s/%s lists %q, after %q", view, dir, name, slices.Sorted(maps.Keys(seen)))
			}
			seen[name] = true
		}
	}
	if status != fuse.OK && status != estale {
		k.s.Errorf("listing %s/%s: %v", view, dir, status)
	}
	k.ask(func(d *simDaemon) {
		d.ReleaseDir(&fuse.ReleaseIn{InHeader: fuse.InHeader{NodeId: entry.NodeId}, Fh: open.Fh})
	})
}

// TestSimulation: readers of a mount whose dataset changes and whose daemons die get the bytes of the file
// that they opened, or an error.
func TestSimulation(t *testing.T) {
	testenv.Simulate(t, 100, func(s *testenv.Sim) {
		k := &simKernel{s: s, data: newSimData(s), mode: DaemonCache, fresh: Checked}
		if s.OneIn(4) {
			k.mode = PageCache
		}
		k.start()
		for range 5 {
			s.Go(k.client)
		}
		s.Go(func() {
			for range 4 {
				s.Sleep(4)
				k.start()
			}
		})
		s.Go(func() {
			for range 8 {
				s.Sleep(3)
				switch name := simNames[s.IntN(len(simNames))]; s.IntN(5) {
				case 0, 1, 2:
					k.data.set(name, 0)
				case 3:
					k.data.remove(name)
				case 4: // another file takes its place
					other := simNames[s.IntN(len(simNames))]
					if version := k.data.now.Load().files[other].ID; version != 0 {
						k.data.set(name, version)
					}
				}
			}
		})
		s.Wait()
		d := k.daemon.Load()
		d.end()
		for _, v := range d.Stats().Views {
			if v.Open != 0 || len(d.opens.nodes) > 0 {
				s.Errorf("%d files of %s are still open, of %d in all", v.Open, v.View, len(d.opens.nodes))
			}
		}
		if n := d.p.Stats().MemoryBytes; n != 0 {
			s.Errorf("%d bytes of content are still pinned", n)
		}
	})
}
