package listfiles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestLook(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("train.txt", "a.jpg\n/data/ds/img/b.jpg\n/data/ds/img/c.jpg\n./d.jpg")
	write("data.YAML", "path: /data/ds\r\ntrain: images\n")
	write("coco.json", `{"root": "\/real\/ds\/img", "x": 1}`)
	write("uri.csv", "file:///data/ds/a.jpg,1\n")
	write("last.csv", "1,/data/ds")
	// part of another name, and no list at all
	write("others.txt", "/data/ds2/a.jpg\n/my/data/ds/a.jpg\ndata/ds/a.jpg\n/data/ds-old/a\n/data\n")
	write("picture.jpg", "/data/ds/a.jpg")
	write("long.txt", "/data/ds/a.jpg\n"+strings.Repeat("x", maxBytes))
	write("empty.txt", "")
	if err := unix.Mkfifo(filepath.Join(dir, "pipe.txt"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "dir.txt"), 0o700); err != nil {
		t.Fatal(err)
	}
	found := Look(dir, "/data/ds/", "/real/ds", "/")
	want := Found{{"coco.json", 1, 1}, {"data.YAML", 1, 1}, {"last.csv", 1, 1}, {"train.txt", 2, 2}, {"uri.csv", 1, 1}}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
	if got := found.String(); got != "coco.json:1, data.YAML:1, last.csv:1 and 2 more files" {
		t.Error(got)
	}
	if got := found[3:4].String(); got != "train.txt:2 (2 lines)" {
		t.Error(got)
	}
	if found := Look(filepath.Join(dir, "none"), "/data/ds"); found != nil {
		t.Error(found)
	}
}

// No more is read than so many files and bytes.
func TestBounds(t *testing.T) {
	dir := t.TempDir()
	text := []byte("/data/ds/a.jpg\n" + strings.Repeat("x", maxBytes-100))
	for i := range 2 * maxFiles {
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i%26))+string(rune('a'+i/26))+".txt"), text[:20+i%2*(len(text)-20)], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	total := 0
	found := Look(dir, "/data/ds")
	for _, f := range found {
		info, err := os.Stat(filepath.Join(dir, f.Name))
		if err != nil {
			t.Fatal(err)
		}
		total += int(info.Size())
	}
	if len(found) > maxFiles || total > maxTotal || len(found) < 16 {
		t.Errorf("%d files of %d bytes were read", len(found), total)
	}
}
