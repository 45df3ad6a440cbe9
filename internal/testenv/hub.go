package testenv

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// HubServer answers as the Hugging Face Hub does, with one dataset, user/pictures, of which the branches are
// directories. Large files are at another server, which the Hub redirects to.
type HubServer struct {
	Endpoint string
	Token    string            // that requests need; empty needs none
	Branches map[string]string // directories by branch
	LFS      int64             // files as large as that are at the other server
	PageSize int
	Endless  bool // the next page of the last one is itself
	Gone     bool // the other server refuses all links
	// Uses of a link before it expires; 0 is without end.
	Uses int
	// Limit refuses every nth request to the Hub for a second; Cut breaks off every nth answer of the other server. 0 does not.
	Limit, Cut int

	t     testing.TB
	cdn   *httptest.Server
	mu    sync.Mutex
	until time.Time      // no requests are wanted
	links map[string]int // uses, by link
	n     Counts
}

// Counts of requests.
type Counts struct{ Trees, Resolved, Fetched, Limited, Expired, Broken, Early int }

// Hub starts a server.
func Hub(t testing.TB, main string) *HubServer {
	h := &HubServer{Branches: map[string]string{"main": main}, LFS: 1 << 10, PageSize: 7, t: t, links: map[string]int{}}
	h.cdn = httptest.NewServer(http.HandlerFunc(h.file))
	hub := httptest.NewServer(http.HandlerFunc(h.hub))
	h.Endpoint = hub.URL
	t.Cleanup(func() { hub.Close(); h.cdn.Close() })
	return h
}

// Env is what a program needs in its environment to reach the server.
func (h *HubServer) Env() []string {
	return []string{"HF_ENDPOINT=" + h.Endpoint, "HF_TOKEN=" + h.Token}
}

// Counts are those of requests so far.
func (h *HubServer) Counts() Counts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}

// Commit is that of a branch.
func (h *HubServer) Commit(branch string) string {
	return fmt.Sprintf("%x", sha1.Sum([]byte(branch+h.Branches[branch])))
}

func (h *HubServer) dir(revision string) (dir, commit string, ok bool) {
	for branch, dir := range h.Branches {
		if c := h.Commit(branch); revision == branch || revision == c {
			return dir, c, true
		}
	}
	return "", "", false
}

func refuse(w http.ResponseWriter, status int, code, text string) {
	w.Header().Set("X-Error-Code", code)
	w.Header().Set("X-Error-Message", text)
	w.WriteHeader(status)
}

// limited reports whether a request is one too many.
func (h *HubServer) limited(w http.ResponseWriter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Now().Before(h.until) {
		h.n.Early++
	} else if h.n.Limited++; h.Limit == 0 || h.n.Limited%h.Limit != 0 {
		return false
	} else {
		h.until = time.Now().Add(time.Second)
	}
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusTooManyRequests)
	return true
}

func (h *HubServer) hub(w http.ResponseWriter, q *http.Request) {
	if h.limited(w) {
		return
	}
	if q.Header.Get("Authorization") != strings.TrimSuffix("Bearer "+h.Token, "Bearer ") {
		refuse(w, http.StatusUnauthorized, "GatedRepo", "Access to dataset user/pictures is restricted.")
		return
	}
	parts := strings.SplitN(strings.TrimPrefix(q.URL.EscapedPath(), "/api"), "/", 7) // "", datasets, user, pictures, what, revision, path
	for i := range parts {
		parts[i], _ = url.PathUnescape(parts[i])
	}
	if len(parts) < 6 || parts[2]+"/"+parts[3] != "user/pictures" {
		refuse(w, http.StatusNotFound, "RepoNotFound", "Repository not found")
		return
	}
	dir, commit, ok := h.dir(parts[5])
	if !ok {
		refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+parts[5])
		return
	}
	name := ""
	if len(parts) > 6 {
		name = parts[6]
	}
	switch parts[4] {
	case "revision":
		_ = json.NewEncoder(w).Encode(map[string]any{"sha": commit, "createdAt": "2022-03-02T23:29:22.000Z", "id": "user/pictures"})
	case "tree":
		h.tree(w, q, dir, name)
	case "resolve":
		h.resolve(w, q, dir, name)
	case "cached": // what a redirect within the Hub leads to
		_, git, _ := oids(filepath.Join(dir, name))
		w.Header().Set("Etag", `"`+git+`"`)
		http.ServeFile(w, q, filepath.Join(dir, name))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func oids(path string) (data []byte, git, lfs string) {
	data, _ = os.ReadFile(path)
	return data, fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(data), data))), fmt.Sprintf("%x", sha256.Sum256(data))
}

// tree lists: directories first, and files from the last to the first, as no order is promised.
func (h *HubServer) tree(w http.ResponseWriter, q *http.Request, root, below string) {
	type file map[string]any
	var dirs, files []file
	deep := q.URL.Query().Get("recursive") == "true"
	err := filepath.WalkDir(filepath.Join(root, below), func(at string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, at)
		if err != nil || name == filepath.Clean(below) || name == "." {
			return err
		}
		if e.IsDir() {
			dirs = append(dirs, file{"type": "directory", "path": name, "oid": "d", "size": 0})
			if !deep {
				return fs.SkipDir
			}
			return nil
		}
		data, git, lfs := oids(at)
		f := file{"type": "file", "path": name, "oid": git, "size": len(data)}
		if int64(len(data)) >= h.LFS {
			f["lfs"] = file{"oid": lfs, "size": len(data), "pointerSize": 130}
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		refuse(w, http.StatusNotFound, "EntryNotFound", below+" does not exist")
		return
	}
	slices.Reverse(files)
	all := append(dirs, files...)
	from, _ := strconv.Atoi(q.URL.Query().Get("cursor"))
	to := min(from+h.PageSize, len(all))
	if next := to; next < len(all) || h.Endless {
		if next == len(all) {
			next = from
		}
		u := *q.URL
		v := u.Query()
		v.Set("cursor", strconv.Itoa(next))
		u.RawQuery = v.Encode()
		w.Header().Set("Link", fmt.Sprintf(`<%s%s>; rel="next"`, h.Endpoint, u.String()))
	}
	h.mu.Lock()
	h.n.Trees++
	h.mu.Unlock()
	_ = json.NewEncoder(w).Encode(append([]file{}, all[from:to]...))
}

// resolve says where a file is.
func (h *HubServer) resolve(w http.ResponseWriter, q *http.Request, dir, name string) {
	at := filepath.Join(dir, filepath.FromSlash(path.Clean("/"+name)))
	data, git, lfs := oids(at)
	if info, err := os.Stat(at); err != nil || info.IsDir() {
		refuse(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	h.mu.Lock()
	h.n.Resolved++
	link := fmt.Sprintf("%s%s?signature=%d", h.cdn.URL, (&url.URL{Path: at}).EscapedPath(), h.n.Resolved)
	h.mu.Unlock()
	if int64(len(data)) >= h.LFS {
		w.Header().Set("X-Linked-Size", strconv.Itoa(len(data)))
		w.Header().Set("X-Linked-Etag", `"`+lfs+`"`)
		http.Redirect(w, q, link, http.StatusFound)
		return
	}
	w.Header().Set("Etag", `"`+git+`"`)
	if !strings.HasSuffix(name, ".md") {
		http.ServeFile(w, q, at)
		return
	}
	w.Header().Set("Location", strings.Replace(q.URL.EscapedPath(), "/resolve/", "/cached/", 1))
	w.WriteHeader(http.StatusTemporaryRedirect)
}

// file is the other server.
func (h *HubServer) file(w http.ResponseWriter, q *http.Request) {
	if a := q.Header.Get("Authorization"); a != "" {
		h.t.Errorf("the other server is told the token: %q", a)
	}
	h.mu.Lock()
	h.links[q.URL.RawQuery]++
	expired := h.Gone || h.Uses > 0 && h.links[q.URL.RawQuery] > h.Uses
	h.n.Fetched++
	cut := h.Cut > 0 && h.n.Fetched%h.Cut == 0
	if expired {
		h.n.Expired++
	} else if cut {
		h.n.Broken++
	}
	h.mu.Unlock()
	if expired {
		http.Error(w, "Request has expired", http.StatusForbidden)
		return
	}
	if cut {
		w = &cutter{w, 100}
	}
	http.ServeFile(w, q, q.URL.Path)
	if cut {
		panic(http.ErrAbortHandler)
	}
}

// cutter writes the first bytes.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(b []byte) (int, error) {
	n := min(len(b), c.left)
	c.left -= n
	if n < len(b) {
		_, _ = c.ResponseWriter.Write(b[:n])
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(b)
}
