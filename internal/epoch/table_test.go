package epoch

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

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
	f := newFixture(t, map[string]int{"train/a": 1}, nil)
	f.table("train/a/notes.txt", "no picture")
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
		{[]string{"path,label", "a/a.jpg"}, "line 2: wrong number of fields"},
	} {
		f.table("train/list.csv", x.rows...)
		p, err := ParsePath(split("7/0/1/0/2/rrc8-npy/train/list.csv"))
		testenv.Must(t, err)
		pipeline, err := f.views.o.Registry.ParseRandom(p.View)
		testenv.Must(t, err)
		if _, err = f.views.Find(p, pipeline.In(7, 0)); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: %v, want %s", x.rows, err, x.want)
		}
	}
	f.table("flat.csv", "path", "beside.jpg")
	f.write("beside.jpg", 5)
	p, _ := ParsePath(split("7/0/1/0/2/rrc8-npy/flat.csv"))
	if _, err := f.views.Find(p, f.view("7/0/1/0/2/rrc8-npy").pipeline); err == nil || !strings.Contains(err.Error(), "give the table a column label") {
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
	l := &list{ids: append(ids, 7, 7)}
	if l.countRepeats(); l.repeats[7] != 0 || l.repeats[rows] != 1 || l.repeats[rows+1] != 2 {
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
	if v := f.view("7/1/1/0/2/rrc8-npy/list.csv"); v.share.n != 2 || v.Digest() == first.Digest() {
		t.Error("the next epoch has the old rows")
	}
	f.table("list.csv", "path,label", "a/a.jpg,1", "a/b.jpg,3 ")
	if labels := f.labelsOf(f.view("7/2/1/0/2/rrc8-npy/list.csv"), 0); !slices.Contains(labels, 3) {
		t.Errorf("the labels are %v", labels)
	}
}
