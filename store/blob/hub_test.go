package blob_test

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/blob"
)

// hubOf starts a Hub with files, some long, and returns them.
func hubOf(t *testing.T) (*testenv.HubServer, map[string][]byte) {
	t.Helper()
	nobody(t)
	dir, files := t.TempDir(), map[string][]byte{"README.md": []byte("# Pictures\n"), "empty": {}}
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"train/a b/ü%2F+.jpg", "train/c/1.jpg", "train/c/2.jpg", "train/c.txt", "train/c/long.bin", "val/1.jpg", "val/2.jpg", "val-0.tar", "x"} {
		b := make([]byte, 3000+r.IntN(9000))
		if strings.HasSuffix(name, ".bin") {
			b = make([]byte, 10<<20)
		}
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		files[name] = b
	}
	for name, b := range files {
		testenv.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		testenv.Must(t, os.WriteFile(filepath.Join(dir, name), b, 0o644))
	}
	h := testenv.Hub(t, dir)
	h.Token = "hf_secret"
	t.Setenv("HF_ENDPOINT", h.Endpoint)
	t.Setenv("HF_TOKEN", h.Token)
	return h, files
}

func openHub(t *testing.T, where string) *blob.Hub {
	t.Helper()
	h, err := blob.OpenHub(t.Context(), where, blob.Options{})
	testenv.Must(t, err)
	return h
}

// A dataset of the Hub is read whole while links expire, answers are cut, and the Hub asks to wait. The other server,
// which fails the test, never sees the token; and the Hub gets no request before its time.
func TestHub(t *testing.T) {
	server, files := hubOf(t)
	h := openHub(t, "hf://datasets/user/pictures")
	if want := "hf://datasets/user/pictures@" + server.Commit("main") + "/"; h.String() != want {
		t.Errorf("it is %s, want %s", h, want)
	}
	infos := map[string]blob.Info{}
	var names []string
	for page, err := range h.List(t.Context(), "", true) {
		testenv.Must(t, err)
		for _, i := range page {
			infos[i.Name], names = i, append(names, i.Name)
			if i.Modified.Year() != 2022 {
				t.Errorf("%s: %v", i.Name, i.Modified)
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(files)), names); diff != "" {
		t.Error(diff)
	}
	if got := server.Counts().Trees; got < 3 {
		t.Errorf("%d pages", got)
	}
	server.Uses, server.Cut, server.Limit = 2, 5, 20
	var group sync.WaitGroup
	for name, want := range files {
		group.Go(func() {
			i, err := h.Stat(t.Context(), name)
			if err != nil || i.Version != infos[name].Version || i.Size != int64(len(want)) {
				t.Errorf("%s: %+v, %v; listed as %+v", name, i, err, infos[name])
				return
			}
			got := make([]byte, len(want))
			step := max(1, len(want)/3)
			for off := 0; off < len(want); off += step {
				b := got[off:min(off+step, len(want))]
				if err := h.ReadAt(t.Context(), name, i.Version, b, int64(off)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s: other bytes", name)
			}
		})
	}
	group.Wait()
	n := server.Counts()
	if n.Expired == 0 || n.Broken == 0 || n.Limited < 20 {
		t.Errorf("%+v", n)
	}
	for _, c := range []struct {
		prefix string
		deep   bool
		want   string
	}{
		{"", false, "README.md empty train/ val-0.tar val/ x"},
		{"train/c", false, "train/c.txt train/c/"},
		{"train/c/", true, "train/c/1.jpg train/c/2.jpg train/c/long.bin"},
		{"nothing/", true, ""},
	} {
		if got := strings.Join(list(t, h, c.prefix, c.deep), " "); got != c.want {
			t.Errorf("%q, deep %t: %s", c.prefix, c.deep, got)
		}
	}
	below := openHub(t, "hf://datasets/user/pictures@main/train")
	if got := strings.Join(list(t, below, "", true), " "); got != "a b/ü%2F+.jpg c.txt c/1.jpg c/2.jpg c/long.bin" {
		t.Error(got)
	}
	if got := read(t, below, "c/1.jpg", infos["train/c/1.jpg"].Version, 3, 100); got != string(files["train/c/1.jpg"][3:103]) {
		t.Error("other bytes below a directory")
	}
	is(t, h.ReadAt(t.Context(), "nothing", "v", make([]byte, 1), 0), fs.ErrNotExist)
	is(t, h.Delete(t.Context(), "x"), fs.ErrPermission)
	if blob.Origin(below) != "hf://datasets/user/pictures/train" {
		t.Error(blob.Origin(below))
	}
}

// A server that asks for a time is not asked before, and one request waits for the others.
func TestHubWaits(t *testing.T) {
	server, _ := hubOf(t)
	h := openHub(t, "hf://datasets/user/pictures")
	server.Limit = 3
	began := time.Now()
	for range 4 {
		_, err := h.Stat(t.Context(), "x")
		testenv.Must(t, err)
	}
	if n := server.Counts(); n.Early != 0 || n.Limited < 5 || time.Since(began) < time.Second {
		t.Errorf("%+v in %v", n, time.Since(began))
	}
}

// What goes wrong says what to do.
func TestHubProblems(t *testing.T) {
	server, _ := hubOf(t)
	fails := func(where string, o blob.Options, class error, parts ...string) {
		t.Helper()
		h, err := blob.OpenHub(t.Context(), where, o)
		if err == nil {
			for _, listErr := range h.List(t.Context(), "", true) {
				err = listErr
			}
		}
		if err == nil {
			err = h.ReadAt(t.Context(), "x", "v", make([]byte, 1), 0)
		}
		if err == nil || class != nil && !errors.Is(err, class) {
			t.Errorf("%s: got %v, want an error of the class %v", where, err, class)
			return
		}
		for _, p := range parts {
			if !strings.Contains(err.Error(), p) {
				t.Errorf("%s: %q is not in: %v", where, p, err)
			}
		}
		if strings.Contains(err.Error(), "hf_") {
			t.Errorf("a token in: %v", err)
		}
	}
	fails("hf://datasets/user/pictures@nowhere", blob.Options{}, fs.ErrNotExist, "no branch, tag or commit nowhere")
	fails("hf://datasets/user/other", blob.Options{}, fs.ErrNotExist, "check the name", "HF_TOKEN is valid")
	fails("hf://datasets/user/pictures/nothing", blob.Options{}, fs.ErrNotExist, "pictures@"+server.Commit("main")+"/nothing")
	fails("hf://datasets/user", blob.Options{}, nil, "write hf://datasets/OWNER/NAME")
	fails("hf://models/user/pictures", blob.Options{}, nil, "write hf://datasets/OWNER/NAME")
	fails("hf://datasets/user/pictures/../x", blob.Options{}, nil, "no path")
	fails("hf://datasets/user/pictures", blob.Options{Anonymous: true}, fs.ErrPermission, "gated", server.Endpoint+"/datasets/user/pictures", "accept its terms", "set HF_TOKEN")
	t.Setenv("HF_TOKEN", "hf_wrong")
	fails("hf://datasets/user/pictures", blob.Options{}, fs.ErrPermission, "accept its terms", "the token in HF_TOKEN")
	t.Setenv("HF_TOKEN", server.Token)
	server.Endless = true
	fails("hf://datasets/user/pictures", blob.Options{}, nil, "does not end")
	server.Endless, server.Gone = false, true
	fails("hf://datasets/user/pictures", blob.Options{}, nil, "refuses the link", "403", "pictures@"+server.Commit("main")+"/x")

	// The token of huggingface_hub is found where that keeps it.
	server.Gone = false
	t.Setenv("HF_TOKEN", "")
	home := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(home, "token"), []byte(server.Token+"\n"), 0o600))
	for _, name := range []string{"HF_HOME", "HF_TOKEN_PATH"} {
		t.Run(name, func(t *testing.T) {
			value := home
			if name == "HF_TOKEN_PATH" {
				value = filepath.Join(home, "token")
			}
			t.Setenv(name, value)
			openHub(t, "hf://datasets/user/pictures")
		})
	}
	t.Setenv("XDG_CACHE_HOME", filepath.Dir(home))
	testenv.Must(t, os.Rename(home, filepath.Join(filepath.Dir(home), "huggingface")))
	openHub(t, "hf://datasets/user/pictures")
	t.Setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
	fails("hf://datasets/user/pictures", blob.Options{}, fs.ErrPermission, "set HF_TOKEN")
}

func TestParseHub(t *testing.T) {
	for where, want := range map[string]blob.HubPath{
		"hf://datasets/a/b":                                 {Repo: "a/b"},
		"hf://datasets/a/b.c_d/x/y@z/":                      {Repo: "a/b.c_d", Path: "x/y@z"},
		"hf://datasets/a/b@v1.0/x":                          {Repo: "a/b", Revision: "v1.0", Path: "x"},
		"hf://datasets/a/b@refs/convert/parquet":            {Repo: "a/b", Revision: "refs/convert/parquet"},
		"hf://datasets/a/b@refs%2Fconvert%2Fparquet/en/val": {Repo: "a/b", Revision: "refs/convert/parquet", Path: "en/val"},
		"hf://datasets/a/b@refs/pr/7/x":                     {Repo: "a/b", Revision: "refs/pr/7", Path: "x"},
	} {
		if got, err := blob.ParseHub(where); err != nil || got != want {
			t.Errorf("%s: %+v, %v", where, got, err)
		}
	}
}
