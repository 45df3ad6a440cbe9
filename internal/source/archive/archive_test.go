package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
)

// pair is a member for a test: a name that ends with a slash is a directory.
type pair struct{ name, data string }

func writeTar(t testing.TB, members ...pair) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		h := &tar.Header{Name: m.name, Mode: 0o644, Size: int64(len(m.data)), ModTime: time.Unix(1e9, 0), Typeflag: tar.TypeReg}
		if strings.HasSuffix(m.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		testenv.Must(t, w.WriteHeader(h))
		_, err := io.WriteString(w, m.data)
		testenv.Must(t, err)
	}
	testenv.Must(t, w.Close())
	return b.Bytes()
}

func writeZip(t testing.TB, method uint16, members ...pair) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range members {
		h := &zip.FileHeader{Name: m.name, Method: method, Modified: time.Unix(1e9, 0)}
		if strings.HasSuffix(m.name, "/") {
			h.Method = zip.Store
		}
		f, err := w.CreateHeader(h)
		testenv.Must(t, err)
		_, err = io.WriteString(f, m.data)
		testenv.Must(t, err)
	}
	testenv.Must(t, w.Close())
	return b.Bytes()
}

// open opens archives that are written into a directory.
func open(t testing.TB, archives map[string][]byte) (*Dataset, string) {
	t.Helper()
	dir := t.TempDir()
	for name, data := range archives {
		testenv.Must(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	return openDir(t, dir, t.TempDir()), dir
}

func openDir(t testing.TB, dir, kept string) *Dataset {
	t.Helper()
	return opened(t)(try(t, dir, Options{Dir: kept}))
}

// try opens archives of a directory, or all.
func try(t testing.TB, dir string, o Options, shards ...string) (*Dataset, error) {
	t.Helper()
	under, err := source.Open(dir, source.Options{})
	testenv.Must(t, err)
	if shards == nil {
		shards, _, err = In(under)
		testenv.Must(t, err)
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	return Open(t.Context(), under, dir, shards, o)
}

// opened closes what was opened at the end of a test.
func opened(t testing.TB) func(*Dataset, error) *Dataset {
	return func(d *Dataset, err error) *Dataset {
		t.Helper()
		testenv.Must(t, err)
		t.Cleanup(func() { testenv.Must(t, d.Close()) })
		return d
	}
}

// read returns all that a dataset shows: files by path, with their bytes or why they cannot be read, and directories
// with a slash behind.
func read(t testing.TB, d *Dataset) map[string]string {
	t.Helper()
	got := map[string]string{}
	var in func(dir string)
	in = func(dir string) {
		entries, err := d.List(dir)
		testenv.Must(t, err)
		for _, e := range entries {
			name := path.Join(dir, e.Name)
			a, err := d.Stat(name)
			if err == nil && e.Dir != a.Mode.IsDir() {
				t.Errorf("%s: listed as a directory: %v; its mode is %v", name, e.Dir, a.Mode)
			}
			if err == nil && e.Dir {
				got[name+"/"] = ""
				in(name)
				continue
			}
			f, err := d.Open(name)
			if err == nil {
				var data []byte
				data, err = f.ReadAll()
				got[name] = string(data)
				testenv.Must(t, f.Close())
			}
			if err != nil {
				got[name] = "error: " + err.Error()
			}
		}
	}
	in("")
	return got
}

func TestMembers(t *testing.T) {
	long := strings.Repeat("x", 200) + "/" + strings.Repeat("y", 200) + ".jpg" // needs a pax header
	plain := []pair{{"a/1.jpg", "one"}, {"a/2.jpg", strings.Repeat("two", 1000)}, {"a/empty", ""}, {"b.png", "three"}, {"c/", ""}, {long, "long"}, {"ä/ö.jpg", "utf"}}
	tree := map[string]string{
		"a/": "", "a/1.jpg": "one", "a/2.jpg": strings.Repeat("two", 1000), "a/empty": "", "b.png": "three", "c/": "",
		path.Dir(long) + "/": "", long: "long", "ä/": "", "ä/ö.jpg": "utf",
	}
	for _, c := range []struct {
		name     string
		archives map[string][]byte
		want     map[string]string
		left     int64
	}{
		{"tar", map[string][]byte{"x.tar": writeTar(t, plain...)}, tree, 0},
		{"stored", map[string][]byte{"x.zip": writeZip(t, zip.Store, plain...)}, tree, 0},
		{"deflated", map[string][]byte{"x.zip": writeZip(t, zip.Deflate, plain...)}, tree, 0},
		{"dots", map[string][]byte{"x.tar": writeTar(t, pair{"./", ""}, pair{"./a/1", "one"}, pair{"././b", "two"})},
			map[string]string{"a/": "", "a/1": "one", "b": "two"}, 0},
		{"nested", map[string][]byte{"x.tar": writeTar(t, pair{"n01.tar", string(writeTar(t, pair{"1.JPEG", "one"}))}, pair{"n02.tar", string(writeTar(t, pair{"1.JPEG", "two"}))}, pair{"notes.tar", "text"})},
			map[string]string{"n01/": "", "n01/1.JPEG": "one", "n02/": "", "n02/1.JPEG": "two", "notes.tar": "text"}, 0},
		{"bad names", map[string][]byte{"x.tar": writeTar(t, pair{"../up", "x"}, pair{"a/../b", "x"}, pair{"/etc/passwd", "x"}, pair{"good", "x"})},
			map[string]string{"good": "x"}, 3},
		{"again", map[string][]byte{"x.tar": writeTar(t, pair{"a", "old"}, pair{"b", "x"}, pair{"a", "new"})}, map[string]string{"a": "new", "b": "x"}, 1},
		{"hidden", map[string][]byte{"x.tar": writeTar(t, pair{"a", "file"}, pair{"a/b", "x"})}, map[string]string{"a/": "", "a/b": "x"}, 1},
		{"two of a name", map[string][]byte{"s-0.tar": writeTar(t, pair{"a/1.jpg", "one"}, pair{"a/1.txt", "cap"}, pair{"a/2.jpg", "two"}), "s-1.tar": writeTar(t, pair{"a/1.jpg", "three"}, pair{"a/", ""})},
			map[string]string{"a/": "", "a/s-0-1.jpg": "one", "a/s-0-1.txt": "cap", "a/2.jpg": "two", "a/s-1-1.jpg": "three"}, 0},
		{"classes", map[string][]byte{
			"s-0.tar": writeTar(t, pair{"1.jpg", "one"}, pair{"1.cls", "10"}, pair{"2.cls", "2\n"}, pair{"2.jpg", "two"}),
			"s-1.tar": writeTar(t, pair{"3.jpg", "three"}, pair{"4.cls", "no/where"}, pair{"4.jpg", "four"}, pair{"5.cls", "0"}, pair{"5.jpg", "five"}),
		}, map[string]string{
			"0000/": "", "0000/5.cls": "0", "0000/5.jpg": "five", "0001/": "", "0002/": "", "0002/2.cls": "2\n", "0002/2.jpg": "two",
			"0003/": "", "0004/": "", "0005/": "", "0006/": "", "0007/": "", "0008/": "", "0009/": "",
			"0010/": "", "0010/1.cls": "10", "0010/1.jpg": "one", "3.jpg": "three", "no_where/": "", "no_where/4.cls": "no/where", "no_where/4.jpg": "four",
		}, 0},
		{"keys of two shards", map[string][]byte{
			"s-0.tar": writeTar(t, pair{"1.jpg", "one"}, pair{"1.cls", "0"}), "s-1.tar": writeTar(t, pair{"1.cls", "0"}, pair{"1.jpg", "two"}),
		}, map[string]string{"0000/": "", "0000/s-0-1.jpg": "one", "0000/s-0-1.cls": "0", "0000/s-1-1.jpg": "two", "0000/s-1-1.cls": "0"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, _ := open(t, c.archives)
			if diff := cmp.Diff(c.want, read(t, d)); diff != "" {
				t.Error(diff)
			}
			if s := d.Summary(); s.LeftOut != c.left || len(s.Damaged) > 0 {
				t.Errorf("%d left out, %q damaged; want %d", s.LeftOut, s.Damaged, c.left)
			}
		})
	}
}

// More classes than the usual digits have room for: names still sort as numbers.
func TestManyClasses(t *testing.T) {
	d, _ := open(t, map[string][]byte{"s.tar": writeTar(t, pair{"1.cls", "12345"}, pair{"1.jpg", "x"}, pair{"2.cls", "7"}, pair{"2.jpg", "y"})})
	entries, err := d.List("")
	testenv.Must(t, err)
	if len(entries) != 12346 || entries[7].Name != "00007" || entries[12345].Name != "12345" {
		t.Errorf("%d classes, %+v", len(entries), entries[7])
	}
}

// An archive that is cut anywhere shows what is whole, and says that it is damaged.
func TestCut(t *testing.T) {
	var members []pair
	want := map[string]string{}
	for i := range 8 {
		m := pair{fmt.Sprintf("%d.jpg", i), strings.Repeat(fmt.Sprint(i), 100+300*i)}
		members = append(members, m)
		want[m.name] = m.data
	}
	whole := writeTar(t, members...)
	for n := 512; n < len(whole)-1024; n += 512 {
		dir := t.TempDir()
		testenv.Must(t, os.WriteFile(filepath.Join(dir, "x.tar"), whole[:n], 0o644))
		d, err := try(t, dir, Options{})
		if err != nil {
			if n >= 1024 { // then the first member is whole
				t.Errorf("cut at %d: %v", n, err)
			}
			continue
		}
		got := read(t, d)
		for name, data := range got {
			if want[name] != data {
				t.Errorf("cut at %d: %s is wrong", n, name)
			}
		}
		if s := d.Summary(); len(got) < len(want) && s.LeftOut == 0 && len(s.Damaged) == 0 && !bytes.Equal(whole[n:n+512], make([]byte, 512)) {
			if !strings.HasPrefix(string(whole[n:]), fmt.Sprintf("%d.jpg", len(got))) { // between two members it only looks shorter
				t.Errorf("cut at %d: %d of %d members, and nothing is said", n, len(got), len(want))
			}
		}
		testenv.Must(t, d.Close())
	}
}

// An archive that is replaced while it is open gives no byte of the other one, until it is scanned again.
func TestChanged(t *testing.T) {
	d, dir := open(t, map[string][]byte{"x.tar": writeTar(t, pair{"a", "old"})})
	f, err := d.Open("a")
	testenv.Must(t, err)
	defer f.Close()
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "new"), writeTar(t, pair{"a", "new"}, pair{"b", "x"}), 0o644))
	testenv.Must(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "x.tar")))
	if data, err := f.ReadAll(); err == nil && string(data) != "old" {
		t.Errorf("read %q", data)
	}
	if g, err := d.Open("a"); err == nil {
		if data, err := g.ReadAll(); err == nil {
			t.Errorf("read %q of the archive that was not scanned", data)
		}
		g.Close()
	}
	before, now, err := d.Rescan(t.Context())
	if err != nil || before.Objects != 1 || now.Objects != 2 {
		t.Errorf("%+v, %+v, %v", before, now, err)
	}
	if got := read(t, d); got["a"] != "new" {
		t.Errorf("%q", got)
	}
}

// What was scanned is kept for the next mount, and for no other archive.
func TestKept(t *testing.T) {
	dir, kept := t.TempDir(), t.TempDir()
	name := filepath.Join(dir, "x.tar")
	testenv.Must(t, os.WriteFile(name, writeTar(t, pair{"a", "old"}), 0o644))
	first := openDir(t, dir, kept).Summary().Scanned
	if again := openDir(t, dir, kept).Summary().Scanned; !again.Equal(first) {
		t.Errorf("scanned at %v and again at %v", first, again)
	}
	testenv.Must(t, os.WriteFile(name, writeTar(t, pair{"a", "new"}, pair{"b", "x"}), 0o644))
	if got := read(t, openDir(t, dir, kept)); got["a"] != "new" || got["b"] != "x" {
		t.Errorf("%q", got)
	}
}

// A list of members that another version of pipefs has kept is not used, and one line says so.
func TestKeptByAnotherVersion(t *testing.T) {
	dir, kept := t.TempDir(), t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "x.zip"), writeZip(t, zip.Store, pair{"a", "one"}), 0o644))
	d := openDir(t, dir, kept)
	w, err := index.Create(t.Context(), d.keptDir(), indexID, 0)
	testenv.Must(t, err)
	s := d.Summary()
	s.Format--
	testenv.Must(t, w.Finish(s))
	var log bytes.Buffer
	d.log = slog.New(slog.NewTextHandler(&log, nil))
	if _, _, err := d.Rescan(t.Context()); err != nil || read(t, d)["a"] != "one" {
		t.Errorf("%q, %v", read(t, d), err)
	}
	if strings.Count(log.String(), "another version") != 1 {
		t.Error(log.String())
	}
}

// Large members: sizes that need more than the eleven digits of a header.
func TestLarge(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "x.tar"))
	testenv.Must(t, err)
	defer f.Close()
	const size = 9 << 30
	w := tar.NewWriter(f)
	testenv.Must(t, w.WriteHeader(&tar.Header{Name: "large.bin", Size: size, Mode: 0o644, Format: tar.FormatPAX}))
	at, err := f.Seek(0, io.SeekCurrent)
	testenv.Must(t, err)
	_, err = f.WriteAt([]byte("end"), at+size-3) // a hole before it
	testenv.Must(t, err)
	_, err = f.WriteAt(writeTar(t, pair{"behind", "x"}), at+size)
	testenv.Must(t, err)
	d := openDir(t, dir, t.TempDir())
	large, err := d.Open("large.bin")
	testenv.Must(t, err)
	defer large.Close()
	b := make([]byte, 4)
	if n, err := large.ReadAt(b, size-3); n != 3 || !errors.Is(err, io.EOF) || string(b[:3]) != "end" {
		t.Errorf("read %d, %v, %q", n, err, b)
	}
	if a, err := d.Stat("behind"); err != nil || a.Size != 1 {
		t.Errorf("%+v, %v", a, err)
	}
}

// A directory of archives may hold lists and descriptions beside them, and nothing else.
func TestIn(t *testing.T) {
	for names, want := range map[string]string{
		"a.tar b.zip train.csv README.md LICENSE .git/x": "a.tar b.zip /",
		"a.zip b.jpg c.tar":        "a.zip c.tar / b.jpg",
		"c/1.jpg z.tar":            "z.tar / c/1.jpg",
		"c/1.parquet z.parquet d/": "c/1.parquet z.parquet / d",
		"c/1.tar":                  " / c/1.tar",
	} {
		dir := t.TempDir()
		for name := range strings.FieldsSeq(names) {
			below, file := filepath.Split(name)
			testenv.Must(t, os.MkdirAll(filepath.Join(dir, below), 0o755))
			if file != "" {
				testenv.Must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
			}
		}
		under, err := source.Open(dir, source.Options{})
		testenv.Must(t, err)
		found, other, err := In(under)
		testenv.Must(t, errors.Join(err, under.Close()))
		if got := strings.TrimSuffix(strings.Join(found, " ")+" / "+other, " "); got != want {
			t.Errorf("%s: %q, want %q", names, got, want)
		}
	}
}

func TestMatch(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"train-000.tar", "train-001.tar", "train-002.tar", "val.tar", "a/x.tar", "b/x.tar"} {
		testenv.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		testenv.Must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	under, err := source.Open(dir, source.Options{})
	testenv.Must(t, err)
	defer under.Close()
	for _, c := range []struct{ at, want, err string }{
		{dir + "/train-{000..002}.tar", "train-000.tar train-001.tar train-002.tar", ""},
		{dir + "/train-{000..003}.tar", "", "train-003.tar is not in"},
		{dir + "/train-*.tar", "train-000.tar train-001.tar train-002.tar", ""},
		{dir + "/{val,train-00[01]}.tar", "train-000.tar train-001.tar val.tar", ""},
		{dir + "/?/x.tar", "a/x.tar b/x.tar", ""},
		{dir + "/val.tar", "val.tar", ""},
		{dir + "/test-*.tar", "", "no file of"},
		{dir + "/train-{2..1}.tar", "", "has to go from a number to a greater one"},
	} {
		root, pattern := Split(c.at)
		if root != dir {
			t.Errorf("%s is in %s", c.at, root)
		}
		got, err := Match(under, pattern)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, %v", c.at, got, err)
		}
	}
}

// FuzzScan: whatever an archive says, members lie in it, and reading them ends.
func FuzzScan(f *testing.F) {
	f.Add(writeTar(f, pair{"a/1.jpg", "one"}, pair{"1.cls", "3"}))
	f.Add(writeZip(f, zip.Deflate, pair{"a/1.jpg", strings.Repeat("one", 100)}, pair{"b/", ""}))
	f.Add(writeTar(f, pair{"n.tar", string(writeTar(f, pair{"1", "x"}))}))
	f.Add(writeHeaders(f, reg("a", "x"), hard("b", "a"), soft("c", "b"), soft("d", "../a")))
	f.Fuzz(func(t *testing.T, data []byte) {
		shards := []Shard{{Identity: source.Identity{Size: int64(len(data))}}}
		emit := func(m member) error {
			if m.why != "" {
				return nil
			}
			e, err := parse(m.append(nil), shards)
			if err != nil || e != m.entry {
				t.Errorf("%q: %+v became %+v, %v", m.path, m.entry, e, err)
			}
			if m.codec == dirCodec {
				return nil
			}
			file := &file{in: &source.File{Identity: shards[0].Identity, Opened: memory(data)}, entry: e}
			_, _ = io.Copy(io.Discard, io.NewSectionReader(file, 0, e.size)) // a damaged one is an error
			return nil
		}
		r := bytes.NewReader(data)
		_ = scanTar(0, r, int64(len(data)), emit)
		_ = scanZip(0, r, int64(len(data)), emit)
	})
}

// memory is an archive in memory.
type memory []byte

func (m memory) ReadAt(b []byte, off int64) (int, error) { return bytes.NewReader(m).ReadAt(b, off) }
func (memory) Close() error                              { return nil }
func (memory) Name() string                              { return "memory" }
func (memory) Verify() error                             { return nil }
func (memory) Scattered()                                {}
func (memory) Fetch(int64, int64)                        {}

// A scan tells how many members it has found, and which share of the bytes lies before them.
func TestProgress(t *testing.T) {
	var members []pair
	for i := range 3 * toldMembers {
		members = append(members, pair{fmt.Sprintf("%04d.jpg", i), "x"})
	}
	dir := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "a.tar"), writeTar(t, members...), 0o644))
	var told []int64
	var shares []float64
	opened(t)(try(t, dir, Options{Progress: func(n int64, share float64) {
		told, shares = append(told, n), append(shares, share)
	}}))
	if !slices.Equal(told, []int64{1000, 2000, 3000}) || math.Abs(shares[0]-1./3) > 0.02 || shares[2] < 0.98 {
		t.Errorf("told of %v members, %.3f of the bytes", told, shares)
	}
}

// TestReadSorted: of what a damaged file of sorted members says, nothing is believed that cannot be.
func TestReadSorted(t *testing.T) {
	key := append([]byte("a.jpg\x00"), make([]byte, 12)...)
	m := entry{shard: 1, offset: 300, size: 70_000}
	value := m.append(nil)
	if s, err := readSorted(key, value); err != nil || s.path != "a.jpg" || s.size != 70_000 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range [][]byte{nil, value[:1], value[:3], {0, 1, 1, 0xff, 0xff}, {0, 1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}} {
		if s, err := readSorted(key, bad); !errors.Is(err, errEntry) {
			t.Errorf("% x: %+v, %v", bad, s, err)
		}
	}
	if _, err := readSorted(key[:11], value); !errors.Is(err, errEntry) {
		t.Error(err)
	}
}
