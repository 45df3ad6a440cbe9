package e2e

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// growing is a dataset that changes, and its store.
type growing struct {
	t              *testing.T
	env            []string
	dataset, store string
	pictures       uint64 // that were made, all different
}

func newGrowing(t *testing.T, env []string, store string) *growing {
	t.Helper()
	g := &growing{t: t, env: env, store: store, dataset: filepath.Join(t.TempDir(), "dataset")}
	for _, class := range []string{"cats", "dogs"} {
		testenv.Must(t, os.MkdirAll(filepath.Join(g.dataset, class), 0o755))
		for i := range 7 {
			g.put(fmt.Sprintf("%s/%d.jpg", class, i))
		}
	}
	testenv.Must(t, os.WriteFile(filepath.Join(g.dataset, "labels.txt"), []byte("cats dogs\n"), 0o644))
	testmount.Command(t, env, "pack", g.dataset, store)
	return g
}

// put writes a picture that was not there before.
func (g *growing) put(name string) {
	g.t.Helper()
	g.pictures++
	name = filepath.Join(g.dataset, name)
	written := filepath.Join(filepath.Dir(name), "new.jpg")
	testenv.Must(g.t, pictures.Write(written, pictures.Photo(160, 120, g.pictures)))
	testenv.Must(g.t, os.Rename(written, name))
}

// change gives some samples other bytes, adds some, and takes some away.
func (g *growing) change(changed, added, removed int) {
	g.t.Helper()
	names := samplesOf(g.t, g.dataset)
	for i := range changed {
		g.put(names[i])
	}
	for range added {
		g.put(fmt.Sprintf("cats/added%d.jpg", g.pictures))
	}
	for _, name := range names[len(names)-removed:] {
		testenv.Must(g.t, os.Remove(filepath.Join(g.dataset, name)))
	}
	testmount.Command(g.t, g.env, "pack", g.dataset, g.store)
}

// shown reads some views.
func shown(t *testing.T, mnt string, views []string) map[string][32]byte {
	t.Helper()
	all := map[string][32]byte{}
	for _, v := range views {
		for name, sum := range hashes(t, filepath.Join(mnt, v)) {
			all[filepath.Join(v, name)] = sum
		}
	}
	return all
}

// fresh is what a mount shows that is made now.
func (g *growing) fresh(views []string) map[string][32]byte {
	g.t.Helper()
	mnt, unmount := testmount.MountOnce(g.t, g.env, g.store)
	defer unmount()
	return shown(g.t, mnt, views)
}

// open is a file that is open while its name leads to other bytes.
type open struct {
	t    *testing.T
	file *os.File
	want [32]byte
	h    io.Writer
	sum  func() [32]byte
}

// held opens the file of a view that [growing.change] changes first, and reads its beginning.
func held(t *testing.T, mnt string, g *growing, view string) *open {
	t.Helper()
	name := samplesOf(t, g.dataset)[0]
	if view == "bmp" {
		name = strings.TrimSuffix(name, filepath.Ext(name)) + ".bmp"
	}
	name = filepath.Join(mnt, view, name)
	data, err := os.ReadFile(name)
	testenv.Must(t, err)
	f, err := os.Open(name)
	testenv.Must(t, err)
	t.Cleanup(func() { f.Close() })
	h := sha256.New()
	_, err = io.CopyN(h, f, 1000)
	testenv.Must(t, err)
	return &open{t: t, file: f, want: sha256.Sum256(data), h: h, sum: func() [32]byte { return [32]byte(h.Sum(nil)) }}
}

// goesOn reads the rest, past the kernel's cache.
func (o *open) goesOn() {
	o.t.Helper()
	_ = unix.Fadvise(int(o.file.Fd()), 0, 0, unix.FADV_DONTNEED)
	if _, err := io.Copy(o.h, o.file); err != nil {
		o.t.Errorf("%s, which was open: %v", o.file.Name(), err)
	} else if o.sum() != o.want {
		o.t.Errorf("%s, which was open, has other bytes", o.file.Name())
	}
	o.file.Close()
}

// TestRefreshByItself: mount --refresh takes up what is newer, and goes on with what it has while that
// cannot be read.
func TestRefreshByItself(t *testing.T) {
	views := []string{"original", "scan5"}
	s := testenv.S3(t)
	g := newGrowing(t, append(testmount.Home(t), s.Env()...), "s3://"+s.Bucket+"/in.store")
	mnt := testmount.Mount(t, g.env, g.store, "--refresh", "200ms")
	before := shown(t, mnt, views)
	g.change(2, 2, 2)
	now := g.fresh(views)
	testenv.EventuallyIs(t, "the store that was packed further is shown", func() bool { return cmp.Equal(now, shownOrNil(mnt, views)) })
	if cmp.Equal(before, now) {
		t.Error("nothing has changed")
	}

	current := "in.store/CURRENT"
	dir := t.TempDir()
	testenv.Must(t, os.MkdirAll(filepath.Join(dir, "in.store"), 0o755))
	whole, err := os.ReadFile(filepath.Join(s.Dir, current))
	testenv.Must(t, err)
	put := func(content []byte) {
		testenv.Must(t, os.WriteFile(filepath.Join(dir, current), content, 0o644))
		upload(t, s, dir, "", current)
	}
	put(whole[:len(whole)/2])
	if out := fails(t, g.env, "refresh", mnt); !strings.Contains(out, "goes on with what it showed before") {
		t.Error(out)
	}
	if diff := cmp.Diff(now, shown(t, mnt, views)); diff != "" {
		t.Errorf("while CURRENT is damaged (-before +now):\n%s", diff)
	}
	if out := testmount.Command(t, g.env, "stats", mnt); !strings.Contains(out, "error of that check") {
		t.Error(out)
	}
	put(whole)
	testenv.EventuallyIs(t, "nothing is wrong any more", func() bool {
		return !strings.Contains(testmount.Command(t, g.env, "stats", mnt), "error of that check")
	})
	if !testenv.Soak() {
		return
	}
	s.Stop() // requests are repeated for minutes
	if out := fails(t, g.env, "refresh", mnt); !strings.Contains(out, "goes on with what it showed before") {
		t.Error(out)
	}
	if diff := cmp.Diff(now, shown(t, mnt, views)); diff != "" {
		t.Errorf("while the bucket is away (-before +now):\n%s", diff)
	}
}

// shownOrNil is shown for a mount that changes meanwhile; nil where something went.
func shownOrNil(mnt string, views []string) map[string][32]byte {
	all := map[string][32]byte{}
	for _, v := range views {
		err := filepath.WalkDir(filepath.Join(mnt, v), func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			data, err := os.ReadFile(name)
			all[strings.TrimPrefix(name, mnt+"/")] = sha256.Sum256(data)
			return err
		})
		if err != nil {
			return nil
		}
	}
	return all
}

// TestRefreshList: a mount lists a bucket again by itself when its list is older than --refresh says.
func TestRefreshList(t *testing.T) {
	t.Parallel()
	views := []string{"original", "bmp"}
	env := testmount.Home(t)
	g := newGrowing(t, env, filepath.Join(t.TempDir(), "store"))
	mnt := testmount.Mount(t, env, "file://"+g.dataset, "--refresh", "300ms")
	before := shown(t, mnt, views)
	g.change(2, 2, 2)
	want := g.fresh(views)
	testenv.EventuallyIs(t, "the bucket is shown as it is", func() bool { return cmp.Equal(want, shownOrNil(mnt, views)) })
	if cmp.Equal(before, want) {
		t.Error("nothing has changed")
	}
}

// TestRefreshSupervised: a daemon that takes the place of another goes on with the generation that
// was shown, or where that is gone with the current one, of which the kernel is told.
func TestRefreshSupervised(t *testing.T) {
	t.Parallel()
	views := []string{"original", "scan5"}
	g := newGrowing(t, testmount.Home(t), filepath.Join(t.TempDir(), "store"))
	s := &supervised{t: t, env: g.env, dataset: g.dataset}
	s.mnt = testmount.Mount(t, g.env, g.store, "--supervise", "--deaths", "1000")
	first := shown(t, s.mnt, views)
	g.change(2, 2, 2)
	second := g.fresh(views)
	s.kill()
	if diff := cmp.Diff(first, shown(t, s.mnt, views)); diff != "" {
		t.Errorf("nobody refreshed (-before +after the daemon died):\n%s", diff)
	}
	testmount.Command(t, g.env, "refresh", s.mnt)
	s.kill()
	if diff := cmp.Diff(second, shown(t, s.mnt, views)); diff != "" {
		t.Errorf("after a refresh (-fresh +after the daemon died):\n%s", diff)
	}
	for range 3 { // a store keeps two generations
		g.change(1, 1, 1)
	}
	last := g.fresh(views)
	s.kill()
	began := time.Now()
	testenv.EventuallyIs(t, "the current generation is shown", func() bool { return cmp.Equal(last, shownOrNil(s.mnt, views)) })
	t.Logf("after %v", time.Since(began))
}

// TestRefreshOtherPacks: all packs of a store give way to others, and are removed. What did not change
// is read from those that are there, by whoever opens it, and by whoever has it open.
func TestRefreshOtherPacks(t *testing.T) {
	views := []string{"original", "scan5", "bmp"}
	for _, mode := range cacheModes {
		for _, originals := range []string{"rebuild", "keep"} {
			t.Run(mode+"/"+originals, func(t *testing.T) {
				t.Parallel()
				g := newGrowing(t, testmount.Home(t), filepath.Join(t.TempDir(), "store"))
				away := g.dataset + ".away" // where a mount of the store does not find it
				testenv.Must(t, os.Rename(g.dataset, away))
				mnt := testmount.Mount(t, g.env, g.store, "--cache", mode)
				testenv.Must(t, os.Rename(away, g.dataset))
				want := shown(t, mnt, views)
				old, err := filepath.Glob(filepath.Join(g.store, "packs/*.pack"))
				testenv.Must(t, err)
				other := filepath.Join(t.TempDir(), "other")
				testmount.Command(t, g.env, "pack", "--originals", originals, "--order", "shuffle", g.dataset, other)
				for _, dir := range []string{"packs", "segments", "generations"} {
					testenv.Must(t, os.CopyFS(filepath.Join(g.store, dir), os.DirFS(filepath.Join(other, dir))))
				}
				testenv.Must(t, os.Rename(filepath.Join(other, "CURRENT"), filepath.Join(g.store, "CURRENT")))
				reader := held(t, mnt, g, "bmp")
				if out := testmount.Command(t, g.env, "refresh", mnt); !strings.Contains(out, ": 0 files came, 0 changed, 0 went") {
					t.Error(out)
				}
				for _, name := range old {
					testenv.Must(t, os.Remove(name))
				}
				for name, sum := range want {
					if got, err := readCold(filepath.Join(mnt, name)); err != nil || got != sum {
						t.Errorf("%s: %v, the same bytes: %v", name, err, got == sum)
					}
				}
				if originals == "rebuild" { // it is packed as it was
					reader.goesOn()
				}
			})
		}
	}
}
