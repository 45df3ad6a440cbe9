package e2e

import (
	"archive/tar"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// tarOf writes the files of a directory into a tar.
func tarOf(t *testing.T, to, dir string) {
	t.Helper()
	testenv.Must(t, os.MkdirAll(filepath.Dir(to), 0o755))
	f, err := os.Create(to)
	testenv.Must(t, err)
	w := tar.NewWriter(f)
	testenv.Must(t, w.AddFS(os.DirFS(dir)))
	testenv.Must(t, w.Close())
	testenv.Must(t, f.Close())
}

// card writes the card of a dataset.
func card(t *testing.T, dir, configs string) {
	t.Helper()
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte("---\nlicense: mit\n"+configs+"---\n# Pictures\n"), 0o644))
}

// A dataset of the Hub, at a server that lists in pages, lets links expire, breaks answers off and asks to wait, is mounted,
// listed and packed as its directory. It stays what it was when it was mounted.
func TestHub(t *testing.T) {
	t.Parallel()
	dataset := testmount.Generate(t, "-samples", "30", "-width", "400", "-height", "300")
	card(t, dataset, "")
	server := testenv.Hub(t, dataset)
	server.Token, server.Uses, server.Cut, server.Limit = "hf_secret", 3, 7, 40
	next := t.TempDir() // a later commit, with one more file
	testenv.Must(t, os.CopyFS(next, os.DirFS(dataset)))
	data, err := os.ReadFile(firstOf(t, filepath.Join(dataset, "class00")))
	testenv.Must(t, err)
	testenv.Must(t, os.WriteFile(filepath.Join(next, "class00/new.jpg"), append(data, 0), 0o644))
	server.Branches["next"] = next
	env := append(testmount.Home(t), server.Env()...)
	const url = "hf://datasets/user/pictures"
	pinned := url + "@" + server.Commit("main")

	mnt := testmount.Mount(t, env, url)
	out, err := exec.Command("diff", "-r", dataset, filepath.Join(mnt, "original")).CombinedOutput()
	if err != nil {
		t.Errorf("diff -r: %v\n%s", err, out)
	}
	if n := server.Counts(); n.Limited == 0 || n.Broken == 0 {
		t.Errorf("nothing went wrong: %+v", n)
	}
	if mounts, err := os.ReadFile("/proc/mounts"); err != nil || !strings.Contains(string(mounts), pinned+" "+mnt) {
		t.Errorf("the mount table does not name %s: %v", pinned, err)
	}

	// The list of a commit is good for ever, and so is what was read.
	before := server.Counts()
	if diff := cmp.Diff(hashes(t, dataset), hashes(t, filepath.Join(testmount.Mount(t, env, url), "original"))); diff != "" {
		t.Errorf("again (-dataset +mount):\n%s", diff)
	}
	if now := server.Counts(); now.Fetched != before.Fetched || now.Trees > before.Trees+1 { // one page tells that there are pictures
		t.Errorf("what was read is fetched again: %+v, %+v", before, now)
	}

	// A later commit fetches what differs.
	before = server.Counts()
	if diff := cmp.Diff(hashes(t, next), hashes(t, filepath.Join(testmount.Mount(t, env, url+"@next"), "original"))); diff != "" {
		t.Errorf("a later commit (-dataset +mount):\n%s", diff)
	}
	if n := server.Counts().Fetched - before.Fetched; n < 1 || n > 5 {
		t.Errorf("%d requests for one file that is new", n)
	}

	manifest, store := filepath.Join(t.TempDir(), "m"), filepath.Join(t.TempDir(), "store")
	if out := testmount.Command(t, env, "list", url, "-o", manifest); !strings.Contains(out, "pipefs mount --manifest "+manifest+" "+pinned) {
		t.Error(out)
	}
	testmount.Command(t, env, "mount", "--manifest", manifest, "--dry-run", pinned, t.TempDir())
	if out := testmount.Command(t, env, "views", url); !strings.Contains(out, "30 samples") {
		t.Error(out)
	}
	testmount.Command(t, env, "pack", url, store)
	if diff := cmp.Diff(hashes(t, dataset), hashes(t, filepath.Join(testmount.Mount(t, env, store), "original"))); diff != "" {
		t.Errorf("packed (-dataset +store):\n%s", diff)
	}

	if out := fails(t, append(env, "HF_TOKEN=", "HOME="+t.TempDir()), "mount", url, t.TempDir()); !strings.Contains(out, "accept its terms") || !strings.Contains(out, "HF_TOKEN") {
		t.Error(out)
	}
}

// Which files of a repository are shown, and where, is as its card says, or as they lie.
func TestHubCards(t *testing.T) {
	t.Parallel()
	part := func() (dir string, files map[string][32]byte) {
		dir = testmount.Generate(t, "-samples", "3", "-classes", "2", "-width", "64", "-height", "48")
		return dir, hashes(t, dir)
	}
	trainDir, _ := part()
	testenv.Must(t, os.Rename(firstOf(t, filepath.Join(trainDir, "class00")), filepath.Join(trainDir, "other.jpg"))) // so that the two differ
	train := hashes(t, trainDir)
	valDir, val := part()
	in := func(dir string, files map[string][32]byte) map[string][32]byte {
		moved := map[string][32]byte{}
		for name, sum := range files {
			moved[dir+"/"+name] = sum
		}
		return moved
	}
	both := in("train", train)
	maps.Copy(both, in("validation", val))

	repo := t.TempDir()
	tarOf(t, filepath.Join(repo, "a/0.tar"), trainDir)
	tarOf(t, filepath.Join(repo, "b/0.tar"), valDir)
	named, converted, plain := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{named, plain} {
		testenv.Must(t, os.CopyFS(dir, os.DirFS(repo)))
	}
	card(t, repo, `configs:
- config_name: default
  data_files:
  - {split: train, path: "a/*.tar"}
  - {split: validation, path: [b/0.tar]}
- {config_name: small, data_files: b/*}
`)
	card(t, named, "configs:\n- {config_name: one, data_dir: a}\n- {config_name: two, data_files: {x: b/*, y: a/*}}\n")
	testenv.Must(t, os.MkdirAll(filepath.Join(converted, "default"), 0o755))
	testenv.Must(t, os.CopyFS(filepath.Join(converted, "default/train"), os.DirFS(trainDir)))
	nothing := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(nothing, "data.csv"), []byte("a,b\n"), 0o644))

	server := testenv.Hub(t, repo)
	tables, carded := t.TempDir(), t.TempDir()
	for _, dir := range []string{tables, carded} {
		testenv.Must(t, os.CopyFS(dir, os.DirFS("../source/archive/testdata/parquet/hub")))
	}
	card(t, carded, "configs: [{config_name: all, data_files: [{split: learn, path: data/train-*}, {split: check, path: data/test-*}]}]\n")
	server.Branches["tables"], server.Branches["carded"] = tables, carded
	server.Branches["named"], server.Branches["plain"], server.Branches["csv"] = named, plain, nothing
	env := append(testmount.Home(t), server.Env()...)
	const url = "hf://datasets/user/pictures"
	for _, c := range []struct {
		at   string
		want map[string][32]byte
	}{
		{"", both},
		{"/validation", val},
		{"/default/train", train},
		{"/small", in("train", val)},
		{"/a/0.tar", train},
		{"/b", val},
		{"@named/two", func() map[string][32]byte { m := in("x", val); maps.Copy(m, in("y", train)); return m }()},
		{"@plain", func() map[string][32]byte { m := in("a", train); maps.Copy(m, in("b", val)); return m }()},
	} {
		mnt, unmount := testmount.MountOnce(t, env, url+c.at)
		if diff := cmp.Diff(c.want, hashes(t, filepath.Join(mnt, "original"))); diff != "" {
			t.Errorf("%s (-want +mount):\n%s", c.at, diff)
		}
		unmount()
	}
	// Rows of Parquet files are in the splits of the card, too, and classes without a row there.
	mnt, unmount := testmount.MountOnce(t, env, tables)
	rows := hashes(t, filepath.Join(mnt, "original"))
	unmount()
	renamed := map[string][32]byte{}
	for name, sum := range rows {
		renamed[strings.Replace(strings.Replace(name, "train/", "learn/", 1), "test/", "check/", 1)] = sum
	}
	for at, want := range map[string]map[string][32]byte{"@tables": rows, "@carded": renamed} {
		mnt, unmount := testmount.MountOnce(t, env, url+at)
		if diff := cmp.Diff(want, hashes(t, filepath.Join(mnt, "original"))); diff != "" || len(want) != 87 {
			t.Errorf("%s (-want +mount): %d rows\n%s", at, len(want), diff)
		}
		if at == "@carded" {
			entries, err := os.ReadDir(filepath.Join(mnt, "original"))
			class, errClass := os.Stat(filepath.Join(mnt, "original/check/0011-owl"))
			if err != nil || len(entries) != 2 || errClass != nil || !class.IsDir() {
				t.Errorf("splits: %v, %v; a class: %v", entries, err, errClass)
			}
		}
		unmount()
	}
	for at, part := range map[string]string{
		"@named":         "one, two",
		"/nothing":       "default, small",
		"/default/other": "default, small",
		"@plain/nothing": "no directory nothing",
	} {
		if out := fails(t, env, "mount", url+at, t.TempDir()); !strings.Contains(out, part) {
			t.Errorf("%s: %s", at, out)
		}
	}

	// What the Hub has converted takes the place of what cannot be shown.
	server = testenv.Hub(t, nothing)
	server.Branches["refs/convert/parquet"] = converted
	env = append(testmount.Home(t), server.Env()...)
	mnt = testmount.Mount(t, env, url)
	if diff := cmp.Diff(in("default/train", train), hashes(t, filepath.Join(mnt, "original"))); diff != "" {
		t.Errorf("converted (-want +mount):\n%s", diff)
	}
}
