package blob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/pipefs/pipefs/internal/lru"
)

const (
	hubScheme = "hf://"
	hubUsual  = "https://huggingface.co"
	// hubLongest bounds a pause that the Hub asks for: it counts requests in windows of five minutes.
	hubLongest = 5 * time.Minute
	// hubLinks is how many links to files are remembered.
	hubLinks = 4096
	// maxAnswer bounds an answer in JSON, in bytes.
	maxAnswer = 64 << 20
)

// Hub is a dataset of the Hugging Face Hub, or a directory in one, at one commit. It is only read.
//
// The Hub answers to a request for a file with a link to another server, which holds for some time. Links are
// remembered, and asked for again when that server refuses one. The token goes to the Hub alone.
type Hub struct {
	client
	HubPath
	transport http.RoundTripper
	token     string
	tokenFrom string // for messages; empty if there is no token

	mu     sync.Mutex
	links  *lru.Map[string, *link]
	closed time.Time // until then the Hub takes no requests
}

var _ Snapshot = (*Hub)(nil)

// HubPath is a URL of the Hub, taken apart: hf://datasets/OWNER/NAME[@REVISION][/PATH].
type HubPath struct {
	Repo     string // OWNER/NAME
	Revision string // a branch, a tag, refs/pr/N, refs/convert/parquet or a commit; empty is the branch main
	Path     string // in the repository
}

var (
	hubURL = regexp.MustCompile(`^hf://datasets/([\w.-]+/[\w.-]+)(?:@(refs(?:/|%2F)(?:convert|pr)(?:/|%2F)[\w.-]+|[^/@]+))?(?:/(.*))?$`)
	commit = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// IsHub reports whether where is a URL of the Hub.
func IsHub(where string) bool { return strings.HasPrefix(where, hubScheme) }

// ParseHub takes a URL of the Hub apart.
func ParseHub(where string) (HubPath, error) {
	m := hubURL.FindStringSubmatch(where)
	if m == nil {
		return HubPath{}, fmt.Errorf("%s is no dataset of the Hub: write hf://datasets/OWNER/NAME, hf://datasets/OWNER/NAME@REVISION or hf://datasets/OWNER/NAME/PATH", where)
	}
	revision, err := url.PathUnescape(m[2])
	p := HubPath{m[1], revision, strings.Trim(m[3], "/")}
	if err == nil && p.Path != "" && !fs.ValidPath(p.Path) {
		err = errors.New("its path is no path in a repository")
	}
	if err != nil {
		return HubPath{}, fmt.Errorf("%s: %w", where, err)
	}
	return p, nil
}

// String is the URL.
func (p HubPath) String() string {
	s := hubScheme + "datasets/" + p.Repo
	if p.Revision != "" {
		s += "@" + p.Revision
	}
	if p.Path != "" {
		s += "/" + p.Path
	}
	return s
}

// Pinned reports whether the revision is a commit.
func (p HubPath) Pinned() bool { return commit.MatchString(p.Revision) }

// OpenHub opens a dataset of the Hub at the commit that its revision is now. If that is a commit already, nothing is
// asked of the Hub.
func OpenHub(ctx context.Context, where string, o Options) (*Hub, error) {
	p, err := ParseHub(where)
	if err != nil {
		return nil, err
	}
	h := &Hub{client: newClient(o), HubPath: p, links: lru.New[string, *link](hubLinks, hubLinks)}
	h.longest, h.problem, h.plain = hubLongest, h.explain, h.plainly
	h.where = strings.TrimSuffix(p.String(), "/") + "/"
	endpoint := first(env("HF_ENDPOINT"), hubUsual)
	u, err := url.Parse(strings.TrimRight(endpoint, "/"))
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("HF_ENDPOINT: %s is no URL of a server; the usual one is %s", redacted(endpoint), hubUsual)
	}
	h.endpoint = u.String()
	if !o.Anonymous {
		if h.token, h.tokenFrom, err = hubToken(); err != nil {
			return nil, err
		}
	}
	transport, err := newTransport()
	if err != nil {
		return nil, err
	}
	h.transport = heeding{transport}
	if !p.Pinned() {
		err = h.pin(ctx)
	}
	return h, err
}

// hubToken looks for a token where huggingface_hub does.
func hubToken() (token, from string, err error) {
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if token = strings.TrimSpace(env(name)); token != "" {
			return token, name, nil
		}
	}
	if off := strings.ToUpper(env("HF_HUB_DISABLE_IMPLICIT_TOKEN")); off == "1" || off == "TRUE" || off == "YES" || off == "ON" {
		return "", "", nil
	}
	file := env("HF_TOKEN_PATH")
	if home := env("HF_HOME"); file == "" && home != "" {
		file = filepath.Join(home, "token")
	}
	if cache, err := os.UserCacheDir(); file == "" && err == nil {
		file = filepath.Join(cache, "huggingface", "token")
	}
	text, err := os.ReadFile(file)
	switch {
	case file == "" || errors.Is(err, fs.ErrNotExist):
		return "", "", nil
	case err != nil:
		return "", "", fmt.Errorf("the token of the Hub: %w", err)
	}
	if token = strings.TrimSpace(string(text)); token == "" {
		return "", "", nil
	}
	return token, file, nil
}

// pin asks which commit the revision is.
func (h *Hub) pin(ctx context.Context) error {
	r, err := h.repository(ctx)
	if err != nil {
		return err
	}
	if !commit.MatchString(r.SHA) {
		return fmt.Errorf("%s: the server at %s names no commit of it", h.where, h.endpoint)
	}
	h.Revision = r.SHA
	h.where = strings.TrimSuffix(h.HubPath.String(), "/") + "/"
	return nil
}

// repository is what the Hub says of a dataset.
type repository struct {
	SHA     string    `json:"sha"`
	Created time.Time `json:"createdAt"`
}

func (h *Hub) repository(ctx context.Context) (r repository, err error) {
	at := h.api("revision", first(h.Revision, "main")) + "?expand[]=sha&expand[]=createdAt"
	_, err = h.ask(ctx, request{op: OpStat}, at, &r)
	return r, err
}

// api is the URL of a question about the dataset.
func (h *Hub) api(parts ...string) string {
	at := h.endpoint + "/api/datasets/" + h.Repo
	for _, p := range parts {
		at += "/" + url.PathEscape(p)
	}
	return at
}

// file is the URL of a file of the dataset.
func (h *Hub) file(name string) string {
	return h.endpoint + "/datasets/" + h.Repo + "/resolve/" + url.PathEscape(h.Revision) + escaped(h.full(name))
}

// full is the name of an object in the repository.
func (h *Hub) full(name string) string { return strings.Trim(h.Path+"/"+name, "/") }

// escaped writes a path into a URL, with a slash before it.
func escaped(path string) string { return (&url.URL{Path: "/" + path}).EscapedPath() }

// String is the URL of the place, with the commit.
func (h *Hub) String() string { return h.where }

// Close ends connections that nobody uses.
func (h *Hub) Close() { h.transport.(heeding).CloseIdleConnections() }

func (h *Hub) readOnly() error {
	return fmt.Errorf("%s: %w: pipefs writes nothing to the Hub", h.where, fs.ErrPermission)
}

// ask gets an answer in JSON, and the URL of the next page, if there is one.
func (h *Hub) ask(ctx context.Context, r request, at string, into any) (next string, err error) {
	err = h.do(ctx, r, func(ctx context.Context) error {
		answer, err := h.send(ctx, &way{method: http.MethodGet, at: at, hub: true})
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(into); err != nil {
			return fmt.Errorf("%w: %w", errTruncated, err)
		}
		next, err = h.next(answer.Header)
		return err
	})
	return next, err
}

// explain makes an error of the Hub one for the user: what was asked for, what the Hub says, and what to do.
func (h *Hub) explain(r request, err error) error {
	var a minio.ErrorResponse
	switch errors.As(err, &a); {
	case errors.Is(err, ErrChanged):
		return fmt.Errorf("%s: %w", h.url(r.name), ErrChanged)
	case a.Code == hubNoEntry:
		return fmt.Errorf("%s: %w", h.url(r.name), errNoEntry)
	case errors.Is(err, errEnds):
		return fmt.Errorf("%s: %w", h.url(r.name), io.ErrUnexpectedEOF)
	}
	return h.failed(r, h.plainly(err), classOf(err), h.advice(a))
}

// errNoEntry tells a path that is not in a repository from a repository or revision that is not there.
var errNoEntry = fmt.Errorf("it is not in the repository: %w", fs.ErrNotExist)

// Codes that the Hub gives errors.
const (
	hubNoEntry    = "EntryNotFound"
	hubNoRevision = "RevisionNotFound"
	hubNoRepo     = "RepoNotFound"
	hubGated      = "GatedRepo"
)

// advice says what the user can do about an error.
func (h *Hub) advice(a minio.ErrorResponse) string {
	give := "set HF_TOKEN to a token that may read it, or run: hf auth login"
	terms := fmt.Sprintf("open %s/datasets/%s in a browser and accept its terms", h.endpoint, h.Repo)
	denied := a.StatusCode == http.StatusUnauthorized || a.StatusCode == http.StatusForbidden
	switch {
	case a.Code == hubNoRevision:
		return fmt.Sprintf("%s has no branch, tag or commit %s", h.Repo, first(h.Revision, "main"))
	case a.Code == hubGated && h.token == "":
		return "the dataset is gated: " + terms + "; then " + give
	case a.Code == hubGated:
		return fmt.Sprintf("the dataset is gated: %s, as the user of the token in %s, which must be allowed to read gated repositories", terms, h.tokenFrom)
	case (denied || a.Code == hubNoRepo) && h.token == "":
		return "check the name; if the dataset is private or gated, " + give
	case denied || a.Code == hubNoRepo:
		return fmt.Sprintf("check the name, and whether the token in %s is valid and may read the dataset; if it is gated, %s", h.tokenFrom, terms)
	}
	return ""
}

// plainly is an error for messages, without the token.
func (h *Hub) plainly(err error) error {
	if h.token == "" || !strings.Contains(err.Error(), h.token) {
		return err
	}
	return &failure{strings.ReplaceAll(err.Error(), h.token, "[secret]"), classOf(err)}
}
