package remote

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/usage"
	"github.com/pipefs/pipefs/store/blob"
)

// Access says how places are reached, and where what was read of them is kept.
type Access struct {
	// Blob is how buckets are reached.
	Blob blob.Options
	// Dir is the directory of the block cache and of what is known of places, see package cachedir;
	// "" keeps nothing.
	Dir string
	// Bytes that the block cache may take: 0 keeps no blocks, and a negative number leaves it
	// to the limit of the cache directory.
	Bytes int64
}

// known is the directory of something that is known of the place at a URL; "" where nothing is
// kept.
func (a Access) known(s, what string) string {
	if a.Dir == "" {
		return ""
	}
	return filepath.Join(cachedir.Open(a.Dir).KnownDir(keptAs(s)), what)
}

// keptAs is the name of a place in the cache directory: that of a directory is its path, and all commits of a dataset
// of the Hub have one.
func keptAs(s string) string {
	s = strings.TrimRight(s, "/")
	if p, err := blob.ParseHub(s); err == nil {
		p.Revision = ""
		return p.String()
	}
	if path, ok := strings.CutPrefix(s, fileScheme); ok {
		return "/" + strings.TrimLeft(path, "/")
	}
	return s
}

// Index is the directory of the index of the store at a URL, which all who read it on this
// machine share.
func (a Access) Index(s string) string { return a.known(s, "index") }

// Unput is the directory for packs of the store at a URL that are not put yet.
func (a Access) Unput(s string) string { return a.known(s, "build") }

// Lists is the directory for lists of the names at a URL.
func (a Access) Lists(s string) string { return a.known(s, "lists") }

// Hold keeps all that is known of the place at a URL until what it returns is closed. Where that
// cannot be, a limit of the cache directory may remove it, and it is fetched again.
func (a Access) Hold(s string, log *slog.Logger) io.Closer {
	if a.Dir == "" {
		return nothing{}
	}
	err := os.MkdirAll(a.Dir, 0o700)
	if err == nil {
		var held io.Closer
		if held, err = cachedir.Open(a.Dir).Share(keptAs(s)); err == nil {
			return held
		}
	}
	log.Warn("the cache directory cannot be used for what is known of a place", "dir", a.Dir, "of", s, "cause", err)
	return nothing{}
}

type nothing struct{}

// Close implements [io.Closer].
func (nothing) Close() error { return nil }

// fileScheme begins the URL of a directory: one of a network file system gains by the cache.
const fileScheme = "file://"

// Check says what is wrong with a URL, as far as that can be told from it alone, and returns it
// as messages write it.
func Check(s string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "", fmt.Errorf("%q is no URL", s)
	case u.User != nil:
		// It is not repeated: messages are logged.
		return "", fmt.Errorf("credentials do not belong into a URL, which other users and logs see: leave them out, and put them into the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or into ~/.aws/credentials")
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("%s: a URL of a place ends with its path; endpoint and region are options", s)
	}
	if u.Host == "" && strings.Trim(u.Path, "/") == "" {
		return "", fmt.Errorf("%s names no place: write s3://BUCKET/PREFIX, hf://datasets/OWNER/NAME or file:///DIRECTORY", s)
	}
	if blob.IsHub(s) {
		if _, err := blob.ParseHub(strings.TrimRight(s, "/")); err != nil {
			return "", err
		}
	}
	return strings.TrimRight(s, "/"), nil
}

// Connect returns the place at a URL.
func (a Access) Connect(ctx context.Context, s string) (blob.Objects, error) {
	s, err := Check(s)
	if err != nil {
		return nil, err
	}
	if path, ok := strings.CutPrefix(s, fileScheme); ok {
		return blob.OpenDirectory("/" + strings.TrimLeft(path, "/"))
	}
	return blob.Open(ctx, s, a.Blob)
}

// Open shows the place at a URL as a file system, without a block cache unless o has one.
// Cancelling ctx ends all reads.
func (a Access) Open(ctx context.Context, s string, o Options) (*FS, error) {
	objects, err := a.Connect(ctx, s)
	if err != nil {
		return nil, err
	}
	return a.Show(ctx, s, objects, o), nil
}

// Show is Open for a place that is connected.
func (a Access) Show(ctx context.Context, s string, objects blob.Objects, o Options) *FS {
	o.Temp = a.Dir
	f := New(ctx, s, objects, o)
	f.held = a.Hold(s, f.o.Log)
	return f
}

// Place makes what a user wrote absolute: a path, or a URL, which stays as it is. A URL that
// cannot be one is an error of usage.
func Place(arg string) (string, error) {
	if !Is(arg) {
		return filepath.Abs(arg)
	}
	url, err := Check(arg)
	return url, usage.With(err)
}

// Flags write an access as flags of pipefs.
func (a Access) Flags() (flags []string) {
	if a.Blob.Endpoint != "" {
		flags = append(flags, "--endpoint="+a.Blob.Endpoint)
	}
	if a.Blob.Region != "" {
		flags = append(flags, "--region="+a.Blob.Region)
	}
	if a.Blob.Anonymous {
		flags = append(flags, "--anonymous")
	}
	return flags
}

const (
	// windowBytes is how much of a stream is fetched at once, and windowsAhead how many
	// windows behind the one that is read.
	windowBytes  = 4 << 20
	windowsAhead = 3
)

// stream is a pack that is read from its first byte to its last, in small pieces: it is
// fetched in windows, some of them ahead of the reader. A read elsewhere, as of a footer, is
// answered too.
type stream struct {
	entry
	mu      sync.Mutex
	windows []*window // the one that was asked for last at the end
}

// window is a piece of a stream, fetched or about to be.
type window struct {
	n    int64 // its number
	done chan struct{}
	b    []byte
	err  error
}

// ReadAt implements [io.ReaderAt].
func (s *stream) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) && off+int64(n) < s.info.Size {
		at := off + int64(n)
		w := s.window(at / windowBytes)
		<-w.done
		if w.err != nil {
			return n, s.fs.fail("read", s.info.Name, w.err)
		}
		n += copy(b[n:], w.b[at%windowBytes:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// window finds a window, and begins to fetch those behind it.
func (s *stream) window(number int64) *window {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.begin(number)
	for ahead := number + 1; ahead <= number+windowsAhead && ahead*windowBytes < s.info.Size; ahead++ {
		s.begin(ahead)
	}
	return w
}

func (s *stream) begin(number int64) *window {
	for _, w := range s.windows {
		if w.n == number {
			return w
		}
	}
	w := &window{n: number, done: make(chan struct{})}
	if len(s.windows) > 2*windowsAhead {
		s.windows = append(s.windows[:0], s.windows[1:]...)
	}
	s.windows = append(s.windows, w)
	go func() {
		defer close(w.done)
		w.b = make([]byte, min(windowBytes, s.info.Size-number*windowBytes))
		w.err = s.fs.objects.ReadAt(s.fs.ctx, s.info.Name, s.info.Version, w.b, number*windowBytes)
	}()
	return w
}
