package blob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
)

// link is where a server beside the Hub has a file.
type link struct {
	mu sync.Mutex // held while the Hub is asked
	at string     // empty: it is not known
}

// link is that of an object.
func (h *Hub) link(name string) *link {
	h.mu.Lock()
	defer h.mu.Unlock()
	l, ok := h.links.Get(name)
	if !ok {
		l = &link{}
		h.links.Put(name, l, 1)
	}
	return l
}

// errLink: most often, the link has expired.
var errLink = errors.New("the server that the Hub redirects to refuses the link")

// maxHops bounds redirects.
const maxHops = 8

// way is a request to a URL, which follows redirects.
type way struct {
	method, at string
	span       string // for the header Range; empty is all
	hub        bool   // so far it was all at the Hub: the token may go along
	stay       bool   // a redirect that leaves the Hub is the answer
}

// send sends a request. Any answer but one of success is an error.
func (h *Hub) send(ctx context.Context, w *way) (*http.Response, error) {
	for range maxHops {
		q, err := http.NewRequestWithContext(ctx, w.method, w.at, nil)
		if err != nil {
			return nil, err
		}
		q.Header.Set("User-Agent", "pipefs")
		if w.span != "" {
			q.Header.Set("Range", w.span)
		}
		if w.hub {
			if err := h.open(ctx); err != nil {
				return nil, err
			}
			if h.token != "" {
				q.Header.Set("Authorization", "Bearer "+h.token)
			}
		}
		answer, err := h.transport.RoundTrip(q)
		if err != nil {
			return nil, err
		}
		to, err := answer.Location()
		if answer.StatusCode/100 != 3 || err != nil {
			if answer.StatusCode/100 == 2 {
				return answer, nil
			}
			defer answer.Body.Close()
			return nil, h.refusal(ctx, w, answer)
		}
		same := strings.HasPrefix(to.String(), h.endpoint+"/")
		if w.stay && !same {
			return answer, nil
		}
		answer.Body.Close()
		w.at, w.hub = to.String(), w.hub && same
	}
	return nil, fmt.Errorf("%d redirects, one after the other", maxHops)
}

var resets = regexp.MustCompile(`\bt=(\d+)`)

// refusal is the error that an answer means.
func (h *Hub) refusal(ctx context.Context, w *way, answer *http.Response) error {
	switch answer.StatusCode {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusGone:
		if !w.hub {
			return fmt.Errorf("%w: %s", errLink, answer.Status)
		}
	case http.StatusTooManyRequests:
		asked := parseRetryAfter(answer.Header.Get("Retry-After"), time.Now())
		if t := resets.FindStringSubmatch(answer.Header.Get("RateLimit")); t != nil && asked == 0 {
			asked = parseRetryAfter(t[1], time.Now())
		}
		if w.hub {
			h.mu.Lock()
			h.closed = time.Now().Add(min(asked, h.longest))
			h.mu.Unlock()
		}
		waitFor(ctx, asked)
	}
	e := minio.ErrorResponse{StatusCode: answer.StatusCode, Code: answer.Header.Get("X-Error-Code"), Message: answer.Header.Get("X-Error-Message")}
	if e.Message == "" {
		var body struct{ Error string }
		_ = json.NewDecoder(io.LimitReader(answer.Body, 64<<10)).Decode(&body)
		e.Message = body.Error
	}
	e.Message = strings.TrimSuffix(answer.Status+": "+e.Message, ": ")
	if e.Code == "" && e.StatusCode == http.StatusNotFound {
		e.Code = hubNoEntry
	}
	return e
}

// waitFor tells who repeats the request how long the server asked to wait.
func waitFor(ctx context.Context, d time.Duration) {
	if r, ok := ctx.Value(retryAfterKey{}).(*retryAfter); ok {
		r.Store(int64(d))
	}
}

// open is an error while the Hub has asked to be left alone.
func (h *Hub) open(ctx context.Context) error {
	h.mu.Lock()
	left := time.Until(h.closed)
	h.mu.Unlock()
	if left <= 0 {
		return nil
	}
	waitFor(ctx, left)
	return minio.ErrorResponse{StatusCode: http.StatusTooManyRequests, Message: "the Hub has asked to wait (429 Too Many Requests)"}
}

// Stat implements [Objects].
func (h *Hub) Stat(ctx context.Context, name string) (i Info, err error) {
	if err := checkName(name); err != nil {
		return Info{}, err
	}
	err = h.do(ctx, request{op: OpStat, name: name}, func(ctx context.Context) error {
		answer, err := h.send(ctx, &way{method: http.MethodHead, at: h.file(name), hub: true, stay: true})
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		header := answer.Header
		i = Info{Name: name, Version: Version(strings.Trim(strings.TrimPrefix(first(header.Get("X-Linked-Etag"), header.Get("Etag")), "W/"), `"`))}
		if i.Size, err = strconv.ParseInt(first(header.Get("X-Linked-Size"), header.Get("Content-Length")), 10, 64); err != nil || i.Version == "" {
			return fmt.Errorf("the server tells no size or no version of it")
		}
		return nil
	})
	return i, err
}

// ReadAt implements [Objects]. A long range is read in several requests at once. What a name is at a commit does not
// change.
func (h *Hub) ReadAt(ctx context.Context, name string, v Version, buf []byte, off int64) error {
	if err := checkName(name); err != nil {
		return err
	}
	if v == "" {
		return fmt.Errorf("%s: %w", h.url(name), ErrChanged) // no object is of this version
	}
	return inPieces(ctx, buf, off, func(ctx context.Context, buf []byte, off int64) error {
		if len(buf) == 0 {
			return ctx.Err()
		}
		return h.do(ctx, request{op: OpGet, name: name, size: int64(len(buf))}, func(ctx context.Context) error {
			return h.readAt(ctx, name, buf, off)
		})
	})
}

func (h *Hub) readAt(ctx context.Context, name string, buf []byte, off int64) error {
	w := &way{method: http.MethodGet, span: fmt.Sprintf("bytes=%d-%d", off, off+int64(len(buf))-1)}
	answer, err := h.follow(ctx, name, w)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if w.hub && answer.StatusCode == http.StatusOK { // the Hub itself has short files, and may send them whole
		if all := answer.ContentLength; all >= 0 && all < off+int64(len(buf)) {
			return errEnds
		}
		if _, err := io.CopyN(io.Discard, answer.Body, off); err != nil {
			return fmt.Errorf("%w: %w", errTruncated, err)
		}
	} else if err := checkRange(answer.Header, off, int64(len(buf))); err != nil {
		return err
	}
	if _, err := io.ReadFull(answer.Body, buf); err != nil {
		return fmt.Errorf("%w: %w", errTruncated, err)
	}
	return nil
}

// follow asks for an object where it was last, or else the Hub where it is. Those who want the same one wait for its
// answer.
func (h *Hub) follow(ctx context.Context, name string, w *way) (*http.Response, error) {
	l := h.link(name)
	l.mu.Lock()
	w.at = l.at
	if w.at == "" {
		defer l.mu.Unlock()
		w.at, w.hub = h.file(name), true
		answer, err := h.send(ctx, w)
		if err == nil && !w.hub {
			l.at = w.at
		}
		return answer, err
	}
	l.mu.Unlock()
	known := w.at
	answer, err := h.send(ctx, w)
	if errors.Is(err, errLink) {
		l.mu.Lock()
		if l.at == known {
			l.at = ""
		}
		l.mu.Unlock()
	}
	return answer, err
}

// listedFile is a file or a directory in a list of the Hub.
type listedFile struct {
	Type string `json:"type"`
	Path string `json:"path"`
	OID  string `json:"oid"` // of git
	Size int64  `json:"size"`
	LFS  *struct {
		OID  string `json:"oid"` // SHA-256
		Size int64  `json:"size"`
	} `json:"lfs"`
}

// Origin implements [Snapshot]: the URL without the commit. A version is a hash of the content.
func (h *Hub) Origin() string {
	p := h.HubPath
	p.Revision = ""
	return p.String()
}

// List implements [Objects]. The Hub has an order of its own: all pages are read before the first one is passed on.
func (h *Hub) List(ctx context.Context, prefix string, deep bool) iter.Seq2[[]Info, error] {
	return func(yield func([]Info, error) bool) {
		infos, err := h.list(ctx, prefix, deep)
		for page := range slices.Chunk(infos, pageSize) {
			if err != nil || !yield(page, nil) {
				break
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func (h *Hub) list(ctx context.Context, prefix string, deep bool) (infos []Info, err error) {
	dir := strings.TrimSuffix(prefix[:strings.LastIndexByte(prefix, '/')+1], "/")
	if dir != "" && checkName(dir) != nil {
		return nil, nil // no object has such a name
	}
	about, err := h.repository(ctx)
	if err != nil {
		return nil, err
	}
	for page, err := range h.pages(ctx, dir, deep) {
		switch {
		case dir != "" && errors.Is(err, errNoEntry):
			return nil, nil
		case err != nil:
			return nil, err
		}
		for _, i := range page {
			if strings.HasPrefix(i.Name, prefix) {
				i.Modified = about.Created
				infos = append(infos, i)
			}
		}
	}
	slices.SortFunc(infos, byKey)
	return slices.CompactFunc(infos, func(a, b Info) bool { return byKey(a, b) == 0 }), nil
}

// Has reports whether a file has a name that is asked for. It lists no more than it takes.
func (h *Hub) Has(ctx context.Context, is func(name string) bool) (bool, error) {
	for page, err := range h.pages(ctx, "", true) {
		if err != nil || slices.ContainsFunc(page, func(i Info) bool { return is(i.Name) }) {
			return err == nil, err
		}
	}
	return false, nil
}

// pages lists a directory as the Hub does.
func (h *Hub) pages(ctx context.Context, dir string, deep bool) iter.Seq2[[]Info, error] {
	return func(yield func([]Info, error) bool) {
		at := h.api("tree", h.Revision)
		if full := h.full(dir); full != "" {
			at += escaped(full)
		}
		at += fmt.Sprintf("?recursive=%t&expand=false", deep)
		var seen cycle
		for at != "" {
			var page []listedFile
			next, err := h.ask(ctx, request{op: OpList, name: dir}, at, &page)
			mark := next
			if len(page) > 0 {
				mark = page[0].Path
			}
			if err == nil && next != "" && seen.again(mark) {
				err = fmt.Errorf("%s: %w", h.url(dir), errEndless)
			}
			var infos []Info
			if err == nil {
				infos, err = h.infos(page, deep)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(infos, nil) {
				return
			}
			at = next
		}
	}
}

// infos are the objects of a page, and its directories unless deep.
func (h *Hub) infos(page []listedFile, deep bool) (infos []Info, err error) {
	for _, f := range page {
		name, in := strings.CutPrefix(f.Path, strings.TrimPrefix(h.Path+"/", "/"))
		i := Info{Name: name, Size: f.Size, Version: Version(f.OID), Dir: f.Type == "directory"}
		if f.LFS != nil {
			i.Size, i.Version = f.LFS.Size, Version(f.LFS.OID)
		}
		switch {
		case !in || isReserved(name) || i.Dir && deep:
			continue
		case !i.Dir && (i.Size < 0 || i.Version == ""):
			return nil, fmt.Errorf("%s: the list of the Hub has no size or no hash of it", h.url(name))
		}
		infos = append(infos, i)
	}
	return infos, nil
}

var nextLink = regexp.MustCompile(`<([^>]*)>\s*;[^,]*\brel="?next"?`)

// next is the URL of the next page that an answer names, at the Hub itself.
func (h *Hub) next(header http.Header) (string, error) {
	m := nextLink.FindStringSubmatch(strings.Join(header.Values("Link"), ", "))
	if m == nil {
		return "", nil
	}
	u, err := url.Parse(m[1])
	if err != nil {
		return "", fmt.Errorf("the next page of a list is at %q, which is no URL", m[1])
	}
	base, _ := url.Parse(h.endpoint)
	return base.Scheme + "://" + base.Host + u.RequestURI(), nil
}

// PutIfAbsent implements [Objects]: it refuses.
func (h *Hub) PutIfAbsent(context.Context, string, io.ReaderAt, int64) (Version, error) {
	return "", h.readOnly()
}

// PutIfMatch implements [Objects]: it refuses.
func (h *Hub) PutIfMatch(context.Context, string, Version, []byte) (Version, error) {
	return "", h.readOnly()
}

// Delete implements [Objects]: it refuses.
func (h *Hub) Delete(context.Context, string) error { return h.readOnly() }
