package archive

import (
	"archive/tar"
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/testenv"
)

// writeHeaders writes a tar of headers; the content of a file is its Linkname.
func writeHeaders(t testing.TB, headers ...tar.Header) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		data := ""
		if h.Typeflag == tar.TypeReg {
			data, h.Linkname = h.Linkname, ""
			h.Size = int64(len(data))
		}
		testenv.Must(t, w.WriteHeader(&h))
		_, err := w.Write([]byte(data))
		testenv.Must(t, err)
	}
	testenv.Must(t, w.Close())
	return b.Bytes()
}

func reg(name, data string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, Linkname: data}
}

func hard(name, to string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: to}
}

func soft(name, to string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
}

// openLog opens one archive, and returns what was logged.
func openLog(t *testing.T, name string, data []byte) (*Dataset, string) {
	t.Helper()
	dir := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	var log bytes.Buffer
	d := opened(t)(try(t, dir, Options{Log: slog.New(slog.NewTextHandler(&log, nil))}))
	return d, log.String()
}

// A link is the file that it leads to; one that leads to none is left out by name, as devices and sparse files are.
func TestLinks(t *testing.T) {
	inner := writeHeaders(t, reg("a", "inner"), hard("b", "./a"), soft("up", "../a"))
	for _, c := range []struct {
		name    string
		members []tar.Header
		want    map[string]string
		left    map[string]string // what is left out: cause
	}{
		{"files", []tar.Header{reg("d/a", "one"), hard("d/hard", "d/a"), soft("d/soft", "a"), soft("e/up", "../d/./a"), soft("first", "last"), reg("last", "two")},
			map[string]string{"d/": "", "e/": "", "d/a": "one", "d/hard": "one", "d/soft": "one", "e/up": "one", "first": "two", "last": "two"}, nil},
		{"links to links", []tar.Header{soft("1", "2"), soft("2", "3"), reg("3", "x"), hard("4", "2"), hard("5", "4"), hard("6", "3"), hard("7", "6")},
			map[string]string{"1": "x", "2": "x", "3": "x", "4": "x", "5": "x", "6": "x", "7": "x"}, nil},
		{"a later member", []tar.Header{reg("a", "old"), hard("b", "a"), soft("c", "a"), reg("a", "new"), hard("d", "a"), soft("e", "a"), reg("e", "own")},
			map[string]string{"a": "new", "b": "old", "c": "new", "d": "new", "e": "own"}, map[string]string{"a": "later member", "e": "later member"}},
		{"nowhere", []tar.Header{reg("a", "x"), hard("1", "b"), soft("2", "/etc/passwd"), soft("3", "../a"), soft("d/4", "../../a"), hard("5", "../a"), soft("6", "7"), soft("7", "6"), soft("8", "."),
			{Name: "fifo", Typeflag: tar.TypeFifo}, {Name: "dir/", Typeflag: tar.TypeDir}, soft("9", "dir")},
			map[string]string{"a": "x", "dir/": ""}, map[string]string{"1": "no file", "2": "outside", "3": "outside", "d/4": "outside", "5": "outside", "6": "circle", "7": "circle",
				"8": "no file", "9": "no file", "fifo": "no file"}},
		{"classes", []tar.Header{reg("1.jpg", "x"), reg("1.cls", "1"), hard("2.cls", "1.cls"), hard("2.jpg", "1.jpg"), soft("3.jpg", "1.jpg"), reg("3.cls", "0")},
			map[string]string{"0000/": "", "0001/": "", "0001/1.jpg": "x", "0001/1.cls": "1", "0001/2.jpg": "x", "0001/2.cls": "1", "0000/3.jpg": "x", "0000/3.cls": "0"}, nil},
		{"nested", []tar.Header{reg("a", "outer"), reg("in.tar", string(inner)), soft("to", "in/a")},
			map[string]string{"a": "outer", "in/": "", "in/a": "inner", "in/b": "inner", "to": "inner"}, map[string]string{"in/up": "outside"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, log := openLog(t, "x.tar", writeHeaders(t, c.members...))
			if diff := cmp.Diff(c.want, read(t, d)); diff != "" {
				t.Error(diff)
			}
			if n := d.Summary().LeftOut; n != int64(len(c.left)) {
				t.Errorf("%d left out, want %d:\n%s", n, len(c.left), log)
			}
			lines := strings.Split(log, "\n")
			for name, why := range c.left {
				is := func(line string) bool {
					return strings.Contains(line, fmt.Sprintf(`name="\"%s\""`, name)) && strings.Contains(line, why)
				}
				if !slices.ContainsFunc(lines, is) {
					t.Errorf("%s is not told as %s:\n%s", name, why, log)
				}
			}
		})
	}
}

// A damaged tar within a tar loses what is in it, and not what lies behind it.
func TestDamagedNested(t *testing.T) {
	inner := writeHeaders(t, reg("1", strings.Repeat("x", 600)), reg("2", "x"))
	copy(inner[1536:], "damaged")
	d, _ := openLog(t, "x.tar", writeHeaders(t, reg("a.tar", string(inner)), reg("b", "x")))
	got := read(t, d)
	if s := d.Summary(); got["b"] != "x" || len(got["a/1"]) != 600 || len(got) != 3 || len(s.Damaged) != 1 || !strings.Contains(s.Damaged[0], "in a.tar") {
		t.Errorf("%v, %q", got, s.Damaged)
	}
}
