package epoch

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// table writes a file.
func (f *fixture) table(name string, lines ...string) {
	f.Helper()
	testenv.Must(f, os.WriteFile(filepath.Join(f.root, name), []byte(strings.Join(lines, "\n")+"\n"), 0o644))
}

// labelsOf are the labels of a batch.
func (f *fixture) labelsOf(v *View, k int) (labels []int64) {
	f.Helper()
	data := f.read(v, batchName(k)+labelsSuffix)[headerSize:]
	for len(data) > 0 {
		labels = append(labels, int64(binary.LittleEndian.Uint64(data)))
		data = data[8:]
	}
	return labels
}

// TestTables reads epochs over lists in files: each row as often as it stands there, drawn anew
// each time, with the labels of the file or of the directories.
func TestTables(t *testing.T) {
	given := filepath.Join(t.TempDir(), "given.csv")
	testenv.Must(t, os.WriteFile(given, []byte("path\ntrain/b/b.jpg\n"), 0o644))
	f := newFixture(t, map[string]int{"train/a": 2, "train/b": 2, "train/c": 1}, func(o *Options) { o.Tables = map[string]string{"given.csv": given} })
	f.table("named.csv", "\ufefflabel,file_name,weight", `wolf,train/a/a.jpg,1`, `"dog, small",./train/b/a.jpg,2`, `wolf,train/a/b.jpg,`)
	f.table("numbered.csv", "path,label", "train/c/a.jpg,40", "train/a/a.jpg,-3")
	f.table("train/weighted.csv", "path", "b/a.jpg", "a/a.jpg", "b/a.jpg", "b/a.jpg", "a/b.jpg", "b/b.jpg")
	for _, x := range []struct {
		table   string
		classes []string
		rows    map[string]int64 // the label of a path and its repeat
	}{
		{"named.csv", []string{"dog, small", "wolf"}, map[string]int64{"train/a/a.jpg 0": 1, "train/b/a.jpg 0": 0, "train/a/b.jpg 0": 1}},
		{"numbered.csv", []string{}, map[string]int64{"train/c/a.jpg 0": 40, "train/a/a.jpg 0": -3}},
		{"train/weighted.csv", []string{"a", "b", "c"}, map[string]int64{"train/b/a.jpg 0": 1, "train/b/a.jpg 1": 1, "train/b/a.jpg 2": 1, "train/a/a.jpg 0": 0, "train/a/b.jpg 0": 0, "train/b/b.jpg 0": 1}},
		{"given.csv", []string{"train"}, map[string]int64{"train/b/b.jpg 0": 0}},
	} {
		v := f.view("7/3/1/0/100/rrc8-hflip-npy/" + x.table)
		n := len(x.rows)
		var told index
		testenv.Must(t, json.Unmarshal(f.read(v, IndexName), &told))
		if told.Samples != n || told.Directory != x.table || !slices.Equal(told.Classes, x.classes) {
			t.Errorf("%s: %+v", x.table, told)
		}
		pixels, labels := f.read(v, "000000.npy")[headerSize:], f.labelsOf(v, 0)
		lines := strings.Fields(string(f.read(v, "000000.paths.txt")))
		sum := sha256.New()
		for i, id := range v.epoch.list.ids {
			fmt.Fprintf(sum, "%s\t%d\n", f.tree.Path(id), v.epoch.list.labels[i])
		}
		if want := hex.EncodeToString(sum.Sum(nil)); told.List != want {
			t.Errorf("%s: the list is %s, want %s", x.table, told.List, want)
		}
		got := map[string]int64{}
		for i, path := range lines {
			// Which of the draws of that sample it is.
			repeat := -1
			for r := range uint32(n) {
				if bytes.Equal(pixels[192*i:][:192], f.sample(v.pipeline.Repeat(r), path)) {
					repeat = int(r)
				}
			}
			got[fmt.Sprint(path, " ", repeat)] = labels[i]
		}
		if len(lines) != n || fmt.Sprint(got) != fmt.Sprint(x.rows) {
			t.Errorf("%s: %v, want %v", x.table, got, x.rows)
		}
	}
	if list := string(f.read(f.view("7/3/1/0/100/rrc8-ppm/train/weighted.csv"), "000000.list")); strings.Count(list, ".draw/7/3.2/rrc8-ppm/train/b/a.bmp\n") != 1 {
		t.Error(list)
	}
}

// TestTableErrors wants the line named of what is wrong.
func TestTableErrors(t *testing.T) {
	f := newFixture(t, map[string]int{"train/a": 1}, func(o *Options) { o.Tables = map[string]string{"gone.csv": t.TempDir() + "/gone"} })
	f.table("train/a/notes.txt", "no picture")
	pipeline := f.view("7/0/1/0/2/rrc8-npy").pipeline
	epoch := uint64(0)
	find := func(of string) error {
		epoch++
		_, err := f.views.Find(Path{Seed: 7, Epoch: epoch, World: 1, Batch: 2, View: "rrc8-npy", Of: of}, pipeline)
		return err
	}
	for _, x := range []struct {
		rows []string
		want string
	}{
		{nil, "line 1: the first line has to name the columns"},
		{[]string{"a/a.jpg"}, "line 1: the first line has to name the columns"},
		{[]string{"path", "a/a.jpg", "a/lost.jpg", "gone/a.jpg"}, "train/list.csv, line 3: there is no a/lost.jpg in train of the dataset; so it is with 2 of 3 rows"},
		{[]string{"path", "", "../a.jpg"}, "line 3: \"../a.jpg\" is no path below"},
		{[]string{"path", "/a/a.jpg"}, "is no path below"},
		{[]string{"path", "a/notes.txt"}, "line 2: a/notes.txt is no picture"},
		{[]string{"path", "a"}, "line 2: a is no picture"},
		{[]string{"path,label", "a/a.jpg,"}, "line 2: a/a.jpg has no label"},
		{[]string{"path,label", "a/a.jpg"}, "train/list.csv: record on line 2: wrong number of fields"},
		{[]string{"path", "gone/a.jpg"}, "train/list.csv, line 2: there is no gone/a.jpg in train of the dataset; so it is with 1 of 1 rows"},
		{[]string{"path", "gone/a.jpg", "a/lost.jpg"}, "train/list.csv, line 2: there is no gone/a.jpg in train of the dataset; so it is with 2 of 2 rows"},
		{[]string{"path", `""`}, "line 2: \"\" is no path below"},
		{[]string{"path", ".."}, "line 2: \"..\" is no path below"},
		{[]string{`"path`}, "train/list.csv: parse error"},
	} {
		f.table("train/list.csv", x.rows...)
		if err := find("train/list.csv"); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: %v, want %s", x.rows, err, x.want)
		}
	}
	f.table("flat.csv", "path", "beside.jpg")
	f.write("beside.jpg", 5)
	f.table("good.csv", "path", "train/a/a.jpg")
	broken := errors.New("the disk is at fault")
	for _, x := range []struct {
		of, dir string // what is broken
		want    string
	}{
		{"flat.csv", "none", "flat.csv, line 2: beside.jpg is in the directory of no class: give the table a column label"},
		{"gone.csv", "none", "gone.csv: stat "},
		{"nolist.csv", "none", "no such file"},
		{"nowhere", "none", `the directory "nowhere" of the dataset: file does not exist`},
		{"train", "train/a", broken.Error()},
		{"", "train/a", broken.Error()},
		{"good.csv", "train/a", broken.Error()},
		{"good.csv", "", broken.Error()},
		{"good.csv", "version", broken.Error()},
	} {
		f.tree.broken = map[string]error{x.dir: broken}
		if err := find(x.of); err == nil || !strings.HasPrefix(err.Error(), x.want) && !strings.Contains(err.Error(), ": "+x.want) {
			t.Errorf("%s: %v, want %s", x.of, err, x.want)
		}
	}
	for size, want := range map[int64]error{12: io.ErrUnexpectedEOF, 11: nil} {
		if _, err := parseVersion("x.csv", strings.NewReader("path\nx.jpg\n"), source.Identity{Size: size}); !errors.Is(err, want) {
			t.Errorf("11 bytes of %d: %v", size, err)
		}
	}
	if _, err := f.views.Samples("train"); !errors.Is(err, broken) {
		t.Error(err)
	}
	f.tree.broken = map[string]error{"train/a": iofs.ErrNotExist} // it went a moment ago
	if err := find("train"); err != nil {
		t.Error(err)
	}
}

// flatTree has one directory of many samples.
type flatTree struct {
	Tree
	members []Member
}

func (f flatTree) Members(string) ([]Member, error) { return f.members, nil }

// TestTableMemory: a list of millions of rows takes little more memory than its text.
func TestTableMemory(t *testing.T) {
	const rows = 50_000
	var text strings.Builder
	text.WriteString("path,label\n")
	tree := flatTree{}
	for i := range rows {
		name := fmt.Sprintf("%08d.jpg", i)
		fmt.Fprintf(&text, "train/%s,%d\n", name, i%1000)
		tree.members = append(tree.members, Member{Name: name, ID: uint32(i)})
	}
	held := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := held()
	all, err := parseTable("list.csv", strings.NewReader(text.String()))
	testenv.Must(t, err)
	perRow := float64(held()-before) / rows
	if all.len() != rows || perRow > 50 {
		t.Errorf("%d rows of %d bytes take %.0f bytes each", all.len(), text.Len()/rows, perRow)
	}
	ids, _, lost, err := find(tree, codecs.Default(transcode.Limits{}), "", all)
	if err != nil || lost != 0 || ids[rows-1] != rows-1 {
		t.Errorf("%d are lost, the last one is %d: %v", lost, ids[rows-1], err)
	}
	l := &list{ids: append(ids, 0, 0)}
	if l.countRepeats(); l.repeats[0] != 0 || l.repeats[1] != 0 || l.repeats[rows] != 1 || l.repeats[rows+1] != 2 {
		t.Errorf("repeats: %d", l.repeats[rows:])
	}
}

// TestTableChanges wants an epoch that is read to keep its rows, and the next one to have the new ones.
func TestTableChanges(t *testing.T) {
	f := newFixture(t, map[string]int{"a": 4}, nil)
	f.table("list.csv", "path,label", "a/a.jpg,1")
	first := f.view("7/0/1/0/2/rrc8-npy/list.csv")
	f.table("list.csv", "path,label", "a/a.jpg,1", "a/b.jpg,2")
	first.epoch.checked = time.Time{}
	if v := f.view("7/0/1/0/2/rrc8-npy/list.csv"); v != first {
		t.Error("an epoch that is read is another one")
	}
	if v := f.view("7/1/1/0/2/rrc8-npy/list.csv"); v.share.n != 2 {
		t.Error("the next epoch has the old rows")
	}
	f.table("list.csv", "path,label", "a/a.jpg,1", "a/b.jpg,3 ")
	if labels := f.labelsOf(f.view("7/2/1/0/2/rrc8-npy/list.csv"), 0); !slices.Contains(labels, 3) {
		t.Errorf("the labels are %v", labels)
	}
}

// TestMasks reads batches of pictures and masks, a broken one of which is black or replaced together with its picture.
func TestMasks(t *testing.T) {
	pair, err := transcode.ParsePair("images/**.jpg=masks/**.png")
	testenv.Must(t, err)
	for _, on := range []serve.OnError{serve.Black, serve.Replace} {
		f := newFixture(t, nil, nil)
		f.views.Close()
		f.on = on
		for i, name := range []string{"a/a", "a/b", "a/c", "a/d", "b/a", "b/b", "b/c"} {
			testenv.Must(t, pictures.Write(filepath.Join(f.root, "masks", name+".png"), pictures.Mask(40, 30+i, 4, uint64(i))))
			testenv.Must(t, pictures.Write(filepath.Join(f.root, "images", name+".jpg"), pictures.Photo(40, 30+i, uint64(i))))
		}
		f.write("other/beside.jpg", 5)
		f.serve(source.Options{}, func(o *Options) { o.Roles.Pairs = []transcode.Pair{pair} })
		f.views.maker.o.Budget = 2*128 + 3*(192+64)
		testenv.Must(t, os.WriteFile(filepath.Join(f.root, "masks/a/a.png"), []byte("\x89PNG\r\n\x1a\n broken"), 0o644))
		v := f.view("7/18446744073709551615/1/0/3/rrc8-npy")
		if n := len(v.epoch.list.ids); n != 8 || v.masked || v.unmasked == nil || !strings.HasPrefix(v.unmasked.Error(), "1 of 8 samples have no mask, such as other/beside.jpg: no --pair") {
			t.Errorf("%d samples, %v", n, v.unmasked)
		}
		if _, err := v.File("000000.masks.npy"); !errors.Is(err, v.unmasked) {
			t.Error(err)
		}
		v = f.view("7/18446744073709551615/1/0/3/rrc8-npy/images")
		var told index
		testenv.Must(t, json.Unmarshal(f.read(v, IndexName), &told))
		if !slices.Equal(told.MasksShape, []int{3, 8, 8}) || told.MasksDType == nil || *told.MasksDType != "uint8" || !slices.IsSorted(slices.Collect(v.Names)) {
			t.Errorf("%+v", told)
		}
		for k := range 3 {
			n := min(3, 7-3*k)
			pixels, masks := f.read(v, batchName(k)+pixelsSuffix), f.read(v, batchName(k)+masksSuffix)
			if len(pixels) != 128+n*192 || len(masks) != 128+n*64 || !strings.Contains(string(masks[:128]), fmt.Sprintf("(%d, 8, 8)", n)) {
				t.Errorf("%d bytes of pixels, %d of masks, %q", len(pixels), len(masks), masks[:128])
			}
			for i, path := range strings.Fields(string(f.read(v, batchName(k)+pathsSuffix))) {
				picture, mask := make([]byte, 192), make([]byte, 64)
				if path != "images/a/a.jpg" {
					picture, mask = f.sample(v.pipeline, path), f.sample(v.pipeline, strings.NewReplacer("images", "masks", "jpg", "png").Replace(path))
				} else if on == serve.Replace {
					t.Errorf("%s is not replaced", path)
				}
				if !bytes.Equal(pixels[128+192*i:][:192], picture) || !bytes.Equal(masks[128+64*i:][:64], mask) {
					t.Errorf("%v: %s has other bytes", on, path)
				}
			}
		}
		mask := v.epoch.list.masks[2:3:3]
		if file, _, err := f.views.Asked(v.pipeline, mask); on == serve.Black {
			testenv.Must(t, err)
			if got, err := readAll(file, 100); err != nil || !bytes.Equal(got[128:], f.sample(v.pipeline, f.tree.Path(mask[0]))) {
				t.Errorf("a mask alone: %d bytes, %v", len(got), err)
			}
		} else if !errors.Is(err, ErrNoBatch) {
			t.Error(err)
		}
		if bad := f.server.Bad(); len(bad) != 1 || bad[0].Path != "masks/a/a.png" {
			t.Errorf("%v", bad)
		}
		testenv.Must(t, os.Remove(filepath.Join(f.root, "masks/a/b.png")))
		if v = f.view("7/0/1/0/3/rrc8-npy/images"); v.unmasked == nil || !strings.HasPrefix(v.unmasked.Error(), "1 of 7 samples have no mask, such as images/a/b.jpg") {
			t.Error(v.unmasked)
		}
		testenv.Must(t, os.Mkdir(filepath.Join(f.root, "masks/a/b.png"), 0o755))
		if v = f.view("7/1/1/0/3/rrc8-npy/images"); v.unmasked == nil || v.unmasked.Error() != "--pair: masks/a/b.png is no picture" {
			t.Error(v.unmasked)
		}
	}
}

// TestColumns reads what the dataset says of its samples beside their labels.
func TestColumns(t *testing.T) {
	text := ""
	f := newFixture(t, map[string]int{"a": 2, "b": 2}, func(o *Options) { o.Metadata = func() ([]byte, error) { return []byte(text), nil } })
	v := f.view("7/0/1/0/4/rrc8-npy")
	read := func(name string, want map[string]string) {
		t.Helper()
		var lines string
		for i := range 4 {
			lines += want[v.epoch.list.path(v.sample(0, i))] + "\n"
		}
		if got, err := read(v, "000000."+name+".jsonl", 1000); string(got) != lines && want != nil || errors.Is(err, iofs.ErrNotExist) != (want == nil) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, lines)
		}
	}
	read("caption", nil)
	text = `{"file_name":"a/a.jpg","caption":"one\nline","n":1}` + "\n" + `{"file_name":"\u0061/b.jpg","n":[2, {}]}` + "\n" + `{"file":"b/b.jpg","n":9}` + "\n" + `{"file_name":"b/a.jpg","caption":null}` + "\n"
	read("caption", map[string]string{"a/a.jpg": `"one\nline"`, "a/b.jpg": "null", "b/a.jpg": "null", "b/b.jpg": "null"})
	read("n", map[string]string{"a/a.jpg": "1", "a/b.jpg": "[2, {}]", "b/a.jpg": "null", "b/b.jpg": "null"})
	read("file", nil)
	text = `{"file_name":"b/b.jpg","n":3}` + "\n"
	read("n", map[string]string{"a/a.jpg": "null", "a/b.jpg": "null", "b/a.jpg": "null", "b/b.jpg": "3"})
	text = `{"file_name":"b/b.jpg","n":3` + "\n"
	if _, err := v.File("000000.n.jsonl"); err == nil || !strings.Contains(err.Error(), "the columns of b/b.jpg: unexpected end of JSON") {
		t.Error(err)
	}
}
