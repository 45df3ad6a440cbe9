package e2e

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// many is a dataset of directories with 1,000 names of one small picture in each.
type many struct {
	dirs    int
	picture []byte
}

const perDir = 1000

func (m many) dir(d int) string { return fmt.Sprintf("d%05d", d) }

// write makes the dataset. Names are links, as many to a file as ext4 allows.
func (m many) write(t *testing.T, root string) {
	const links = 60_000 / perDir
	for d := range m.dirs {
		testenv.Must(t, os.MkdirAll(filepath.Join(root, m.dir(d)), 0o755))
		first := filepath.Join(root, m.dir(d/links*links), "000.jpg")
		if d%links == 0 {
			testenv.Must(t, os.WriteFile(first, m.picture, 0o644))
		}
		for i := range perDir {
			if d%links != 0 || i > 0 {
				testenv.Must(t, os.Link(first, filepath.Join(root, m.dir(d), fmt.Sprintf("%03d.jpg", i))))
			}
		}
	}
}

// ServeHTTP answers as a bucket "many" with these objects, of which nothing is stored.
func (m many) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	type object struct {
		Key          string
		LastModified string
		ETag         string
		Size         int
	}
	type prefix struct{ Prefix string }
	type page struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		Name, Prefix          string
		KeyCount, MaxKeys     int
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []object
		CommonPrefixes        []prefix
	}
	const etag, modified = `"0123456789abcdef0123456789abcdef"`, "2026-01-02T03:04:05.000Z"
	key, query := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/many"), "/"), r.URL.Query()
	if key != "" {
		if !strings.HasSuffix(key, ".jpg") {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
			return
		}
		w.Header().Set("ETag", etag)
		http.ServeContent(w, r, "", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), bytes.NewReader(m.picture))
		return
	}
	if query.Get("list-type") != "2" { // the bucket's region, and whether it is there
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprint(w, `<LocationConstraint>us-east-1</LocationConstraint>`)
		return
	}
	p := page{Name: "many", Prefix: query.Get("prefix"), MaxKeys: 1000}
	n := m.dirs * perDir
	at := func(k int) string { return fmt.Sprintf("%s/%03d.jpg", m.dir(k/perDir), k%perDir) }
	from := sort.Search(n, func(k int) bool { return at(k) >= p.Prefix })
	to := sort.Search(n, func(k int) bool { return at(k) > p.Prefix+"~" })
	if token, err := strconv.Atoi(query.Get("continuation-token")); err == nil {
		from = token
	}
	for ; from < to && p.KeyCount < p.MaxKeys; p.KeyCount++ {
		if query.Get("delimiter") == "/" && !strings.Contains(p.Prefix, "/") {
			p.CommonPrefixes = append(p.CommonPrefixes, prefix{m.dir(from/perDir) + "/"})
			from += perDir - from%perDir
			continue
		}
		p.Contents = append(p.Contents, object{at(from), modified, etag, len(m.picture)})
		from++
	}
	if p.IsTruncated = from < to; p.IsTruncated {
		p.NextContinuationToken = strconv.Itoa(from)
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(p)
}

// resident is the memory of a process, in bytes: its own, and what is mapped from files.
func resident(t *testing.T, pid int) (own, mapped int) {
	status := read(t, fmt.Sprintf("/proc/%d/status", pid))
	value := func(name string) int {
		kb, err := strconv.Atoi(regexp.MustCompile(name + `:\s+(\d+) kB`).FindStringSubmatch(status)[1])
		testenv.Must(t, err)
		return kb << 10
	}
	return value("RssAnon"), value("RssFile")
}

// TestMillions mounts ten million names, of a directory, a store and a bucket: the first batch of a shuffled epoch comes, a walk
// finds them all, and the daemon's memory stays within 64 MB and 256 bytes a file. It prints what they take. PIPEFS_NAMES is another number.
func TestMillions(t *testing.T) {
	if !testenv.Soak() {
		t.Skip("PIPEFS_SOAK=1 mounts 10 million files")
	}
	picture, err := pictures.Encode("a.jpg", pictures.Photo(32, 32, 1))
	testenv.Must(t, err)
	testmount.Binary(t) // builds it
	m := many{dirs: 10_000, picture: picture}
	if n, err := strconv.Atoi(os.Getenv("PIPEFS_NAMES")); err == nil {
		m.dirs = n / perDir
	}
	files := m.dirs * perDir
	env, dataset, store := testmount.Home(t), filepath.Join(t.TempDir(), "dataset"), filepath.Join(t.TempDir(), "store")
	bucket := httptest.NewServer(m)
	t.Cleanup(bucket.Close)
	timed := func(what string, do func()) {
		t.Helper()
		began := time.Now()
		do()
		t.Logf("%s: %.2f s", what, time.Since(began).Seconds())
	}
	walk := func(dir string) {
		t.Helper()
		out, err := exec.Command("find", dir, "-type", "f", "-size", "+0", "-printf", "x").Output()
		if err != nil || len(out) != files {
			t.Errorf("%d files, %v", len(out), err)
		}
	}
	made := sync.OnceFunc(func() {
		timed("make the directory", func() { m.write(t, dataset) })
		timed("walk it", func() { walk(dataset) })
	})
	packed := func() {
		made()
		timed("pack it", func() { testmount.Command(t, env, "pack", "--originals", "keep", "--scans", "10", dataset, store) })
	}
	for _, source := range []struct {
		name string
		make func()
		args []string
	}{
		{"directory", made, []string{dataset}},
		{"store", packed, []string{store}},
		{"bucket", func() {}, []string{"s3://many", "--endpoint", bucket.URL, "--anonymous", "--region", "us-east-1", "--ready-timeout", "1h"}},
	} {
		t.Run(source.name, func(t *testing.T) {
			source.make()
			var mnt string
			timed("mount", func() {
				mnt = testmount.Mount(t, env, source.args[0], append([]string{"--no-background"}, source.args[1:]...)...)
			})
			pid := statsOf(t, mnt).PID
			memory := func(when string) {
				own, mapped := resident(t, pid)
				t.Logf("memory %s: %d MB, and %d MB mapped from files; %.0f bytes a file", when, own>>20, mapped>>20, float64(own)/float64(files))
				if own > 64<<20+256*files {
					t.Errorf("the daemon takes %d bytes", own)
				}
			}
			memory("at first")
			timed("first batch", func() {
				if n := len(read(t, filepath.Join(mnt, ".epoch/7/0/1/0/64/rrc32-npy/000000.npy"))); n < 64*32*32*3 {
					t.Errorf("%d bytes", n)
				}
			})
			memory("after the batch")
			timed("walk", func() { walk(filepath.Join(mnt, "original")) })
			memory("after the walk")
			testenv.Proved(t, "names", files)
		})
	}
}
