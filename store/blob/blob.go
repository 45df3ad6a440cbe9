// Package blob keeps sealed objects: named sequences of bytes that do not change once they
// are there, in a directory or in a bucket.
//
// # Nouns
//
// [Objects] is a place for objects: a directory with everything below it, or the part of a
// bucket whose keys begin with a prefix. The name of an object is relative to it, with slashes.
//
// A [Version] tells two contents of one name apart: the ETag of a bucket, the inode and the times
// of a file. A read names the version that it wants, so that old and new bytes are never mixed.
//
// # Writing
//
// PutIfAbsent seals an object; two writers of the same name cannot both succeed. One
// small object may move: PutIfMatch replaces the version that the writer has seen, and no
// other. Where an answer was lost, the object tells who wrote it.
//
// # Buckets
//
// A [Bucket] repeats what fails on the way, after pauses that grow, for as long as its patience
// lasts. How many requests are in flight follows what the server bears. Then an error is final: it
// says which object, at which server, and what to do, and never a secret.
//
// # The Hub
//
// A [Hub] is a dataset of the Hugging Face Hub at one commit. It is a [Snapshot], which does not change, and it is only
// read. Versions are SHA-256 of Git LFS, or hashes of git. The Hub answers with links to other servers, which expire.
//
// # Reserved names
//
// Names that begin with .pipefs- are those of the place itself, and are not listed: files that are
// not finished, a lock, and the object by which a Bucket sees that the server keeps to conditions.
package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// The classes of error, for errors.Is. A name that is not there is of the class
// [io/fs.ErrNotExist], and what the credentials do not permit of [io/fs.ErrPermission].
var (
	// ErrExists: PutIfAbsent found an object of that name.
	ErrExists = errors.New("the object exists")
	// ErrChanged: the object is not of the version that was named.
	ErrChanged = errors.New("the object was replaced")
	// ErrDiffers: the object has other bytes than it should have.
	ErrDiffers = errors.New("the object has other bytes")
	// ErrUnavailable: the server did not answer, or only with errors, until the time for it was up.
	ErrUnavailable = errors.New("the server does not answer")
)

// Version tells two contents of an object apart. Two equal ones of one name are taken to be the
// same bytes.
type Version string

// Info is what is known of an object without reading it.
type Info struct {
	Name     string // relative to the place, with slashes
	Size     int64  // bytes
	Version  Version
	Modified time.Time
	// Dir: this is no object but the common prefix of several, without its last slash.
	Dir bool
}

// Objects is a place for sealed objects. It is safe for concurrent use. What goes wrong on the way
// to a server is tried again within the limits of the place and of ctx; an error is final.
type Objects interface {
	// String names the place for messages: a path or a URL. It holds no credentials.
	String() string
	// Stat returns what is known of an object.
	Stat(ctx context.Context, name string) (Info, error)
	// List returns the objects whose names begin with prefix, sorted by the bytes of their
	// names, a page at a time. If deep is false, those with a slash behind the prefix are
	// summed up as one Info with Dir for each part up to that slash.
	List(ctx context.Context, prefix string, deep bool) iter.Seq2[[]Info, error]
	// ReadAt fills b with the bytes of an object from off on. The error is of the class
	// ErrChanged where the object is of another version, and io.ErrUnexpectedEOF where it
	// ends before b is full.
	ReadAt(ctx context.Context, name string, v Version, b []byte, off int64) error
	// PutIfAbsent makes an object of size bytes of body durable, whole or not at all. ErrExists
	// says that there is one.
	PutIfAbsent(ctx context.Context, name string, body io.ReaderAt, size int64) (Version, error)
	// PutIfMatch replaces a small object if it is of that version, or makes it if v is "" and
	// there is none. ErrChanged says that another writer was first.
	PutIfMatch(ctx context.Context, name string, v Version, data []byte) (Version, error)
	// Delete removes an object; one that is not there is no error.
	Delete(ctx context.Context, name string) error
}

// Compare compares an object with the bytes that it should have, and returns its version. The error is of the class
// ErrDiffers where it has others.
func Compare(ctx context.Context, o Objects, name string, body io.ReaderAt, size int64) (Version, error) {
	is, err := o.Stat(ctx, name)
	if err != nil {
		return "", err
	}
	if is.Size != size {
		return "", fmt.Errorf("%s has %d bytes, and here it has %d: %w", name, is.Size, size, ErrDiffers)
	}
	have, want := make([]byte, min(size, piece)), make([]byte, min(size, piece))
	for off := int64(0); off < size; off += piece {
		n := min(piece, size-off)
		if err := o.ReadAt(ctx, name, is.Version, have[:n], off); err != nil {
			return "", err
		}
		if _, err := body.ReadAt(want[:n], off); err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		if !bytes.Equal(have[:n], want[:n]) {
			return "", fmt.Errorf("%s: %w", name, ErrDiffers)
		}
	}
	return is.Version, nil
}

// reserved begins the names of files that a place makes for itself: unfinished objects and
// locks. No object has such a name, and none is listed.
const reserved = ".pipefs-"

// checkName refuses what is no name of an object: one that is not a clean relative path, or one
// that is reserved.
func checkName(name string) error {
	if !fs.ValidPath(name) || name == "." || strings.ContainsRune(name, 0) {
		return fmt.Errorf("%q is no name of an object: it is a relative path in UTF-8, and no part of it is . or empty", name)
	}
	if isReserved(name) {
		return fmt.Errorf("%q is no name of an object: names that begin with %s are reserved", name, reserved)
	}
	return nil
}

// pageSize is how many objects a page of a list has at most.
const pageSize = 1000

// isReserved reports whether an object is none of the user's.
func isReserved(name string) bool {
	return strings.HasPrefix(name[strings.LastIndexByte(name, '/')+1:], reserved)
}

// Options say how a bucket is reached. What they leave out comes from where the tools of AWS look
// for it: the environment, then the profile in ~/.aws.
type Options struct {
	Endpoint  string       // URL of the server, without the bucket; "" is that of AWS
	Region    string       // of the bucket
	Anonymous bool         // requests are not signed, whatever credentials there are
	Log       *slog.Logger `json:"-"`

	// Timeout of one request that moves few bytes; 0 is 15 seconds. It gets longer by what a
	// slow connection takes for its bytes.
	Timeout time.Duration
	// Patience is how long a request is repeated before it fails; 0 is two minutes.
	Patience time.Duration
	// Until ends all requests when it is done; nil never is.
	Until context.Context `json:"-"`
}

// scheme begins the URL of a bucket.
const scheme = "s3://"

// IsURL reports whether where names a place in a bucket, and not a path.
func IsURL(where string) bool { return strings.Contains(where, "://") }

// Open opens a place: s3://BUCKET/PREFIX, a dataset of the Hub, or the path of a directory. It looks for credentials. The
// server is asked nothing, except which commit a revision of the Hub is.
func Open(ctx context.Context, where string, o Options) (Objects, error) {
	switch {
	case !IsURL(where):
		return OpenDirectory(where)
	case IsHub(where):
		h, err := OpenHub(ctx, where, o)
		if err != nil {
			return nil, err
		}
		return h, nil
	}
	return OpenBucket(ctx, where, o)
}

// parseURL takes the URL of a place in a bucket apart. A prefix that is not empty ends with a slash.
func parseURL(where string) (bucket, prefix string, err error) {
	rest, is := strings.CutPrefix(where, scheme)
	if !is {
		return "", "", fmt.Errorf("%s is no place for objects: write s3://BUCKET/PREFIX, and --endpoint for a server that is not of AWS, or hf://datasets/OWNER/NAME",
			redacted(where))
	}
	bucket, prefix, _ = strings.Cut(rest, "/")
	if strings.Contains(bucket, "@") {
		return "", "", fmt.Errorf("a URL of a bucket holds no credentials; put them into the environment or into ~/.aws/credentials, and write s3://%s",
			bucket[strings.LastIndexByte(bucket, '@')+1:])
	}
	if bucket == "" {
		return "", "", fmt.Errorf("%s names no bucket: write s3://BUCKET/PREFIX", where)
	}
	if err := s3utils.CheckValidBucketName(bucket); err != nil {
		return "", "", fmt.Errorf("%q is no name of a bucket: %w", bucket, err)
	}
	prefix = strings.TrimSuffix(prefix, "/")
	if prefix == "" {
		return bucket, "", nil
	}
	return bucket, prefix + "/", checkName(prefix)
}

// redacted is a URL for a message: without user and password.
func redacted(where string) string {
	u, err := url.Parse(where)
	if err != nil {
		return "this URL"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// parseEndpoint is the host and scheme of a server.
func parseEndpoint(endpoint string) (*url.URL, error) {
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the endpoint %s is no URL of a server; one looks like https://storage.example.org or http://127.0.0.1:9000", redacted(endpoint))
	case u.User != nil:
		return nil, fmt.Errorf("the endpoint %s must not hold credentials; put them into the environment or into ~/.aws/credentials", redacted(endpoint))
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the endpoint %s must name a server only: the bucket stands in s3://BUCKET/PREFIX", redacted(endpoint))
	}
	u.Path = ""
	return u, nil
}

// Snapshot is a place that does not change: a list of it is good for ever. It is best listed at once, as its server
// counts requests.
type Snapshot interface {
	Objects
	// Origin names what the snapshot is one of: in all of them, objects of one name and version have the same bytes.
	Origin() string
}

// Origin is what the versions of a place belong to.
func Origin(o Objects) string {
	if s, ok := o.(Snapshot); ok {
		return s.Origin()
	}
	return o.String()
}
