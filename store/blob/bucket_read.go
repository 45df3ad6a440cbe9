package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"
)

// piece is the length of the requests that a long range is split into.
const piece = 4 << 20 // bytes

// Stat implements [Objects].
func (b *Bucket) Stat(ctx context.Context, name string) (Info, error) {
	i, _, err := b.stat(ctx, name)
	return i, err
}

// stat tells the id of the object's writer as well.
func (b *Bucket) stat(ctx context.Context, name string) (_ Info, writer string, err error) {
	if err := checkName(name); err != nil {
		return Info{}, "", err
	}
	var o minio.ObjectInfo
	err = b.do(ctx, request{op: OpStat, name: name}, func(ctx context.Context) (err error) {
		o, err = b.core.StatObject(ctx, b.bucket, b.key(name), minio.StatObjectOptions{})
		return err
	})
	if err != nil {
		return Info{}, "", err
	}
	if o.ETag == "" {
		return Info{}, "", fmt.Errorf("%s: the server at %s gives objects no ETag", b.url(name), b.endpoint)
	}
	return Info{Name: name, Size: o.Size, Version: Version(o.ETag), Modified: o.LastModified}, o.UserMetadata[writerKey], nil
}

// ReadAt implements [Objects]. A long range is read in several requests at once.
func (b *Bucket) ReadAt(ctx context.Context, name string, v Version, buf []byte, off int64) error {
	if err := checkName(name); err != nil {
		return err
	}
	if v == "" {
		return fmt.Errorf("%s: %w", b.url(name), ErrChanged) // no object is of this version
	}
	return inPieces(ctx, buf, off, func(ctx context.Context, buf []byte, off int64) error { return b.readAt(ctx, name, v, buf, off) })
}

// inPieces reads a long range in several requests at once.
func inPieces(ctx context.Context, buf []byte, off int64, read func(ctx context.Context, buf []byte, off int64) error) error {
	if len(buf) < 2*piece {
		return read(ctx, buf, off)
	}
	group, ctx := errgroup.WithContext(ctx)
	for len(buf) > 0 {
		n := min(piece, len(buf))
		part, at := buf[:n:n], off
		group.Go(func() error { return read(ctx, part, at) })
		buf, off = buf[n:], off+int64(n)
	}
	return group.Wait()
}

func (b *Bucket) readAt(ctx context.Context, name string, v Version, buf []byte, off int64) error {
	if len(buf) == 0 {
		return ctx.Err()
	}
	return b.do(ctx, request{op: OpGet, name: name, size: int64(len(buf))}, func(ctx context.Context) error {
		var o minio.GetObjectOptions
		if err := errors.Join(o.SetMatchETag(string(v)), o.SetRange(off, off+int64(len(buf))-1)); err != nil {
			return err
		}
		body, info, header, err := b.core.GetObject(ctx, b.bucket, b.key(name), o)
		if err != nil {
			return err
		}
		defer body.Close()
		if Version(info.ETag) != v { // the server does not know If-Match
			return ErrChanged
		}
		if err := checkRange(header, off, int64(len(buf))); err != nil {
			return err
		}
		if _, err := io.ReadFull(body, buf); err != nil {
			return fmt.Errorf("%w: %w", errTruncated, err)
		}
		return nil
	})
}

// checkRange compares the answer with the range that was asked for.
func checkRange(header http.Header, off, n int64) error {
	from, end := int64(0), int64(-1)
	if r := header.Get("Content-Range"); r != "" {
		span, total, _ := strings.Cut(strings.TrimPrefix(r, "bytes "), "/")
		first, last, _ := strings.Cut(span, "-")
		var errs [2]error
		from, errs[0] = strconv.ParseInt(first, 10, 64)
		end, errs[1] = strconv.ParseInt(last, 10, 64)
		if errs[0] != nil || errs[1] != nil {
			return fmt.Errorf("the server answers with the range %q", r)
		}
		if all, err := strconv.ParseInt(total, 10, 64); err == nil && all < off+n && end == all-1 {
			return errEnds
		}
	} else if size, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64); err == nil {
		if end = size - 1; size < off+n {
			return errEnds
		}
	}
	if from != off || end < off+n-1 {
		return fmt.Errorf("the server does not keep to ranges: asked for %d-%d, it sends %d-%d", off, off+n-1, from, end)
	}
	return nil
}

// errEnds: the object ends before the range does.
var errEnds = errors.New("the object is shorter")

// List implements [Objects]. Keys that end with a slash, by which some tools mark directories, are
// left out.
func (b *Bucket) List(ctx context.Context, prefix string, deep bool) iter.Seq2[[]Info, error] {
	return func(yield func([]Info, error) bool) {
		if dir := prefix[:strings.LastIndexByte(prefix, '/')+1]; dir != "" && checkName(strings.TrimSuffix(dir, "/")) != nil {
			return // no object has such a name
		}
		// The library's request for a page knows no context, but its connection does.
		way := &inContext{to: b.options.Transport}
		core, err := b.newCore(way)
		if err != nil {
			yield(nil, err)
			return
		}
		delimiter := "/"
		if deep {
			delimiter = ""
		}
		var seen cycle
		for token, more := "", true; more; {
			var page minio.ListBucketV2Result
			err := b.do(ctx, request{op: OpList, name: prefix}, func(ctx context.Context) (err error) {
				way.ctx = ctx
				page, err = core.ListObjectsV2(b.bucket, b.key(prefix), "", token, delimiter, pageSize)
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
			infos := b.infos(&page)
			token, more = page.NextContinuationToken, page.IsTruncated
			mark := token
			if len(infos) > 0 {
				mark = keyOf(infos[0])
			}
			if more && (token == "" || seen.again(mark)) {
				yield(nil, fmt.Errorf("%s: %w", b.url(prefix), errEndless))
				return
			}
			if len(infos) > 0 && !yield(infos, nil) {
				return
			}
		}
	}
}

// infos are the objects and common prefixes of a page, in the order of their names, where that of a
// prefix ends with a slash.
func (b *Bucket) infos(page *minio.ListBucketV2Result) []Info {
	infos := make([]Info, 0, len(page.Contents)+len(page.CommonPrefixes))
	for _, o := range page.Contents {
		if name := strings.TrimPrefix(o.Key, b.prefix); name != "" && !strings.HasSuffix(name, "/") && !isReserved(name) {
			infos = append(infos, Info{Name: name, Size: o.Size, Version: Version(strings.Trim(o.ETag, `"`)), Modified: o.LastModified})
		}
	}
	for _, p := range page.CommonPrefixes {
		infos = append(infos, Info{Name: strings.TrimSuffix(strings.TrimPrefix(p.Prefix, b.prefix), "/"), Dir: true})
	}
	slices.SortFunc(infos, byKey)
	return infos
}

// byKey compares names as listings order them.
func byKey(a, b Info) int { return strings.Compare(keyOf(a), keyOf(b)) }

// keyOf is the name of an object; that of a prefix ends with a slash.
func keyOf(i Info) string {
	if i.Dir {
		return i.Name + "/"
	}
	return i.Name
}

// cycle finds a sequence that repeats itself, in the memory of one of its members (Brent, "An improved
// Monte Carlo factorization algorithm", 1980, section 2).
type cycle struct {
	mark      string
	age, next int
}

// again reports whether the sequence came back to a member that it had. It may say so a while later.
func (c *cycle) again(mark string) bool {
	if c.next > 0 && mark == c.mark {
		return true
	}
	if c.age++; c.age >= c.next {
		c.mark, c.age, c.next = mark, 0, max(1, 2*c.next)
	}
	return false
}

// errEndless: pages of a list come again.
var errEndless = errors.New("the list does not end: the server sends a page of it again")

// inContext sends requests in a context of its own.
type inContext struct {
	ctx context.Context
	to  http.RoundTripper
}

func (c *inContext) RoundTrip(r *http.Request) (*http.Response, error) {
	return c.to.RoundTrip(r.WithContext(c.ctx))
}
