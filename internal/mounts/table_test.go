package mounts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sample = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
42 22 0:39 / /mnt/my\040data ro,nosuid,nodev - fuse.pipefs /data/a\040b\134c ro,user_id=1000,group_id=1000
43 22 0:40 /sub /mnt rw shared:7 master:3 propagate_from:2 - tmpfs tmpfs rw,size=4k
44 42 0:41 / /mnt/my\040data ro - fuse.pipefs /data/second ro,user_id=0
45 22 0:42 / /mnt/empty rw - tmpfs  rw
`

func TestParse(t *testing.T) {
	table, err := Parse(strings.NewReader(sample))
	if err != nil {
		t.Fatal(err)
	}
	want := Mount{ID: 42, Parent: 22, Dev: "0:39", Root: "/", Point: "/mnt/my data", Options: "ro,nosuid,nodev",
		Type: Type, Source: `/data/a b\c`, Super: "ro,user_id=1000,group_id=1000"}
	if diff := cmp.Diff(want, table[1]); diff != "" {
		t.Errorf("line 2 (-want +got):\n%s", diff)
	}
	if uid, ok := table[1].Owner(); uid != 1000 || !ok {
		t.Errorf("owner %d, %v", uid, ok)
	}
	if _, ok := table[0].Owner(); ok {
		t.Error("ext4 has an owner")
	}
	if table[4].Source != "" || table[4].Super != "rw" {
		t.Errorf("an empty source was read as %q, %q", table[4].Source, table[4].Super)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, line := range []string{"", "1 2 3", "a 1 0:1 / / rw - ext4 x rw", "1 1 0:1 / / rw ext4 x rw", "1 1 0:1 / rw - ext4 x rw", "1 1 0:1 / / rw - ext4"} {
		if _, err := Parse(strings.NewReader(line + "\n")); err == nil {
			t.Errorf("%q was read", line)
		}
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		`plain`: `plain`, `a\040b`: `a b`, `\011\012\134`: "\t\n\\", `\04`: `\04`, `\999`: `\999`, `\400`: `\400`,
		`end\`: `end\`, `ü\040ö`: `ü ö`, `\040`: ` `, `\303\274`: "ü",
	} {
		if got := unescape(in); got != want {
			t.Errorf("unescape(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestAtTakesTheTopmost(t *testing.T) {
	table, err := Parse(strings.NewReader(sample))
	if err != nil {
		t.Fatal(err)
	}
	if m, ok := At(table, "/mnt/my data"); !ok || m.Source != "/data/second" {
		t.Errorf("got %+v, %v", m, ok)
	}
	if _, ok := At(table, "/mnt/my"); ok {
		t.Error("/mnt/my is no mount")
	}
	for path, want := range map[string]string{
		"/mnt/my data/scan5/a.jpg": "/data/second", "/mnt/my data2": "tmpfs", "/etc": "/dev/vda",
	} {
		if m, ok := Holding(table, path); !ok || m.Source != want {
			t.Errorf("%s is held by %+v, want %s", path, m, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample)
	f.Fuzz(func(t *testing.T, s string) {
		table, err := Parse(strings.NewReader(s))
		if err == nil {
			At(table, s)
			Holding(table, s)
		}
	})
}

func TestBelow(t *testing.T) {
	for _, c := range []struct {
		path, dir string
		want      bool
	}{
		{"/a/b", "/a", true}, {"/a", "/a", true}, {"/ab", "/a", false}, {"/a", "/a/b", false}, {"/x", "/", true}, {"/", "/", true},
	} {
		if got := Below(c.path, c.dir); got != c.want {
			t.Errorf("Below(%q, %q) = %v", c.path, c.dir, got)
		}
	}
}

func TestSeenBy(t *testing.T) {
	table := filepath.Join(t.TempDir(), "mountinfo")
	if err := os.WriteFile(table, []byte(sample+"46 22 0:4 mnt:[4026532177] /run/kept rw - nsfs nsfs rw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dev, own string
		want     bool
	}{
		{"0:39", "mnt:[1]", true},           // a copy of the mount
		{"0:40", "mnt:[1]", false},          // that is no mount of ours
		{"0:99", "mnt:[4026532177]", true},  // the namespace is kept
		{"0:99", "mnt:[4026532178]", false}, // another one
	} {
		if got := (Place{dev: c.dev}).seenBy(table, c.own); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
