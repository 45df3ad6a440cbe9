package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/source/parquet"
	"github.com/pipefs/pipefs/internal/testenv"
)

// content and label are those of testdata/parquet/write.py.
func content(split string, i int) string {
	block := sha256.Sum256(fmt.Appendf(nil, "%s %d", split, i))
	data := []byte("\xff\xd8\xff")
	for k := range 10 + i*37%100 {
		sum := sha256.Sum256(append(block[:], byte(k)))
		data = append(data, sum[:]...)
	}
	return string(append(data, make([]byte, i%3*30_000)...))
}

var classDirs = []string{
	"0000-zebra", "0001-ant", "0002-a_b", "0003-10", "0004-2", "0005-Dog", "0006-yak", "0007-ox", "0008-eel", "0009-bee", "0010-__", "0011-owl",
}

func classDir(i int) string {
	k := i * 7 % 13
	switch {
	case k == 12 || i%11 == 10:
		return Unlabelled
	case k == 5:
		return classDirs[0]
	}
	return classDirs[k]
}

// rowsOf are the files that rows have to be.
func rowsOf(split string, n, digits int, name func(i int) string) map[string]string {
	want := map[string]string{split + "/": ""}
	for _, class := range classDirs {
		want[split+"/"+class+"/"] = ""
	}
	for i := range n {
		ext := name(i)
		if ext == "" {
			continue
		}
		dir := split + "/" + classDir(i) + "/"
		want[dir] = ""
		want[fmt.Sprintf("%s%0*d%s", dir, digits, i, ext)] = content(split, i)
	}
	return want
}

func fromPath(i int) string { return []string{".jpg", ".JPEG"}[i%2] }

func TestParquet(t *testing.T) {
	hub := rowsOf("train", 75, 2, fromPath)
	maps.Copy(hub, rowsOf("test", 12, 2, fromPath))
	for _, c := range []struct {
		name string
		want map[string]string
		left int64
	}{
		{"hub", hub, 0},
		{"null.parquet", rowsOf("null", 8, 1, func(i int) string {
			if i == 3 {
				return ""
			}
			return fromPath(i)
		}), 1},
		{"plain.parquet", rowsOf("plain", 5, 1, func(int) string { return ".jpg" }), 0},
		{"lz.parquet", rowsOf("lz", 4, 1, fromPath), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			kept := t.TempDir()
			for _, when := range []string{"before", "located", "kept", "at once"} {
				if when == "at once" {
					kept, atOnce = t.TempDir(), 1<<30
					defer func() { atOnce = -1 }()
				}
				d := openTables(t, filepath.Join("testdata/parquet", c.name), kept)
				if when == "located" {
					d.locating.Wait()
				}
				if diff := cmp.Diff(c.want, read(t, d)); diff != "" {
					t.Fatalf("%s: %s", when, diff)
				}
				if s := d.Summary(); s.LeftOut != c.left || len(s.Damaged) > 0 || (when == "kept" || when == "at once") && !s.Located {
					t.Errorf("%s: %+v", when, s)
				}
				d.locating.Wait()
			}
		})
	}
}

// openTables opens a directory of Parquet files, or one.
func openTables(t testing.TB, at, kept string) *Dataset {
	t.Helper()
	return opened(t)(tryTables(t, at, kept))
}

// atOnce makes rows of small files be located behind, as those of large ones.
var atOnce int64 = -1

func tryTables(t testing.TB, at, kept string) (*Dataset, error) {
	o := Options{Dir: kept, AtOnce: atOnce}
	if path.Ext(at) == ".parquet" {
		return try(t, filepath.Dir(at), o, filepath.Base(at))
	}
	return try(t, at, o)
}

// A row has one identity before and after it is located: files that are open stay the same.
func TestLocatedIdentity(t *testing.T) {
	d := openTables(t, "testdata/parquet/hub", t.TempDir())
	before := map[string]source.Identity{}
	for name := range rowsOf("train", 75, 2, fromPath) {
		if a, err := d.Stat(strings.TrimSuffix(name, "/")); err == nil && a.Mode.IsRegular() {
			before[name] = a.Identity
		}
	}
	d.locating.Wait()
	ids := map[uint64]bool{}
	for name, id := range before {
		f, err := d.OpenAs(name, id)
		testenv.Must(t, err)
		testenv.Must(t, f.Verify())
		testenv.Must(t, f.Close())
		ids[id.ID] = true
	}
	if len(ids) != 75 {
		t.Errorf("%d identities", len(ids))
	}
}

// The small page of a dictionary is read once for all its values, and a part of a page for one value.
func TestPages(t *testing.T) {
	d := openTables(t, "testdata/parquet/hub", t.TempDir())
	d.locating.Wait()
	codecs := map[parquet.Codec]int{}
	for name := range read(t, d) {
		if e, _, _, err := d.find(strings.TrimSuffix(name, "/")); err == nil && e.codec == pageCodec {
			codecs[e.compression]++
			if e.compression == parquet.SnappyPart && e.inflated > 200_000 {
				t.Errorf("%s: %d bytes for %d", name, e.inflated, e.size)
			}
		}
	}
	if codecs[parquet.Zstd] != 12 || codecs[parquet.SnappyPart] == 0 || codecs[parquet.Snappy]+codecs[parquet.SnappyPart] != 75 {
		t.Errorf("%v", codecs)
	}
}

// A file that is cut anywhere, or has a damaged byte, is an error of that file; others are served.
func TestDamagedTables(t *testing.T) {
	whole, err := os.ReadFile("testdata/parquet/null.parquet")
	testenv.Must(t, err)
	good, err := os.ReadFile("testdata/parquet/plain.parquet")
	testenv.Must(t, err)
	wanted := rowsOf("null", 8, 1, fromPath)
	try := func(what string, data []byte, mayServe bool) {
		dir := t.TempDir()
		testenv.Must(t, os.WriteFile(filepath.Join(dir, "null.parquet"), data, 0o644))
		testenv.Must(t, os.WriteFile(filepath.Join(dir, "plain.parquet"), good, 0o644))
		d, err := tryTables(t, dir, t.TempDir())
		testenv.Must(t, err)
		others := 0
		for name, got := range read(t, d) {
			switch {
			case strings.HasPrefix(name, "plain/") && !strings.HasSuffix(name, "/"):
				others++
			case mayServe && got != wanted[name] && !strings.HasPrefix(got, "error: "):
				t.Errorf("%s: %s has wrong bytes", what, name)
			case !mayServe && !strings.HasPrefix(name, "plain"):
				t.Errorf("%s: %s is shown", what, name)
			}
		}
		if others != 5 {
			t.Errorf("%s: %d files of the other", what, others)
		}
		if !mayServe && len(d.Summary().Damaged) != 1 {
			t.Errorf("%s: %q", what, d.Summary().Damaged)
		}
		testenv.Must(t, d.Close())
	}
	for _, n := range []int{0, 3, 100, len(whole) / 2, len(whole) - 1} {
		try(fmt.Sprint("cut at ", n), whole[:n], false)
	}
	for _, at := range []int{100, len(whole) / 2} { // in pages, which have checksums
		data := bytes.Clone(whole)
		data[at] ^= 0x55
		try(fmt.Sprint("damaged at ", at), data, true)
	}
}

// Any byte may be damaged: what is read then lies in the file, or is an error.
func TestDamagedBytes(t *testing.T) {
	for _, name := range []string{"null.parquet", "hub/data/test-00000-of-00001.parquet", "columns/new.parquet"} {
		whole, err := os.ReadFile(filepath.Join("testdata/parquet", name))
		testenv.Must(t, err)
		for n := range len(whole) {
			if n%512 == 0 {
				readTable(t, whole[:n])
			}
			if n%512 == 0 || n%16 == 0 && n > len(whole)-2500 { // in the footer
				data := bytes.Clone(whole)
				data[n] ^= byte(1 + n*31%255)
				readTable(t, data)
			}
		}
	}
}

// What has no file to show says why.
func TestUnreadTables(t *testing.T) {
	for name, why := range map[string]string{
		"brotli": "brotli.parquet: its pages are compressed by Brotli, and only Snappy, gzip, Zstandard and LZ4_RAW are read",
		"path":   "path/0.jpg: its row has no bytes, but the path of a file at most",
		"list":   `column "image" has lists of files, which are not read`,
	} {
		_, err := tryTables(t, "testdata/parquet/"+name+".parquet", t.TempDir())
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Error(err)
		}
	}
}

// The columns that are not files are what pyarrow says, in both versions of pages and in all encodings.
func TestMetadata(t *testing.T) {
	d := openTables(t, "testdata/parquet/columns", t.TempDir())
	golden, err := os.ReadFile("testdata/parquet/columns.jsonl")
	testenv.Must(t, err)
	want := map[string]any{}
	for i, line := range strings.Split(strings.TrimSpace(string(golden)), "\n") {
		for _, dir := range []string{"new", "old"} {
			var fields map[string]any
			testenv.Must(t, json.Unmarshal([]byte(line), &fields))
			fields["file_name"] = fmt.Sprintf("%s/%02d.jpg", dir, i)
			want[fields["file_name"].(string)] = fields
		}
	}
	records := func(b []byte) map[string]any {
		got := map[string]any{}
		for line := range strings.Lines(string(b)) {
			var fields map[string]any
			testenv.Must(t, json.Unmarshal([]byte(line), &fields))
			if !strings.HasPrefix(line, `{"file_name":"`) {
				t.Errorf("file_name is not first: %s", line)
			}
			got[fields["file_name"].(string)] = fields
		}
		return got
	}
	all, err := d.Metadata()
	testenv.Must(t, err)
	if diff := cmp.Diff(want, records(all)); diff != "" {
		t.Error(diff)
	}
	some, err := openTables(t, "testdata/parquet/null.parquet", t.TempDir()).Metadata() // a row without bytes is no file
	testenv.Must(t, err)
	if n := strings.Count(string(some), "\n"); n != 7 || strings.Contains(string(some), "/3.") {
		t.Errorf("%s", some)
	}
	before := read(t, d)
	d.o.Metadata = true
	after := read(t, d)
	for _, dir := range []string{"new/", "old/"} {
		for name, fields := range records([]byte(after[dir+"metadata.jsonl"])) {
			fields.(map[string]any)["file_name"] = dir + name
			if diff := cmp.Diff(want[dir+name], fields); diff != "" {
				t.Error(diff)
			}
		}
		if n := strings.Count(after[dir+"metadata.jsonl"], "\n"); n != len(want)/2 {
			t.Errorf("%s: %d lines", dir, n)
		}
		delete(after, dir+"metadata.jsonl")
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
}

func TestSplitOf(t *testing.T) {
	for _, c := range []struct{ name, common, want string }{
		{"train-00000-of-00005.parquet", "", "train"},
		{"train-00000-of-00005-4d2c1c7bd2e4a4f1.parquet", "", "train"},
		{"data/validation-00000-of-00001.parquet", "data/", "validation"},
		{"default/train/0000.parquet", "default/", "train"},
		{"a/train/0000.parquet", "", "a/train"},
		{"b/train/part-3.parquet", "", "b/train"},
		{"0000.parquet", "", "train"},
		{"photos.parquet", "", "photos"},
		{"test.parquet", "", "test"},
		{"fold_1.parquet", "", "fold"},
	} {
		if got := splitOf(c.name, c.common); got != c.want {
			t.Errorf("%s: %s, not %s", c.name, got, c.want)
		}
	}
}

// FuzzParquet: whatever a file says, values lie in it, and reading them ends within bounds of memory.
func FuzzParquet(f *testing.F) {
	for _, name := range []string{"null.parquet", "hub/data/test-00000-of-00001.parquet", "columns/new.parquet", "columns/old.parquet"} {
		data, err := os.ReadFile(filepath.Join("testdata/parquet", name))
		testenv.Must(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		readTable(t, data)
	})
}

// readTable reads all that a file says it has.
func readTable(t *testing.T, data []byte) {
	r := bytes.NewReader(data)
	file, err := parquet.Read(r, int64(len(data)))
	if err != nil {
		return
	}
	table := &tableFile{File: file, fallback: map[int]string{}}
	if table.choose() != nil {
		return
	}
	shards := []Shard{{Identity: source.Identity{Size: int64(len(data))}}}
	for g := range file.Groups {
		_ = file.Records(r, g, nil, func(_ int64, fields []byte) error {
			if len(fields) > 0 && !json.Valid(append(append([]byte(`{"row":0`), fields...), '}')) {
				t.Fatalf("no JSON: %q", fields)
			}
			return nil
		})
		_, _ = table.labelsOf(&source.File{Opened: memory(data)}, g)
		for _, c := range table.columns {
			values, _ := file.Locate(r, g, c)
			for row, v := range values {
				e := entry{codec: pageCodec, offset: v.Offset, packed: int64(v.Packed), size: int64(v.Size)}
				e.row, e.inflated, e.place, e.compression = int64(row), int64(v.Inflated), int64(v.Place), v.Codec
				got, err := parse(e.append(nil), shards)
				if err != nil || got != e {
					t.Fatalf("%+v became %+v, %v", e, got, err)
				}
				if row > 3 {
					continue // their pages are read
				}
				in := newFile(&source.File{Opened: memory(data)}, e)
				_, _ = io.Copy(io.Discard, io.NewSectionReader(in, 0, e.size))
			}
		}
	}
}

func newFile(in *source.File, e entry) *file {
	f := &file{in: in, entry: e, pages: &pages{}}
	f.File = source.File{Opened: f}
	return f
}
