package bucket

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/pipefs/pipefs/store/blob"
)

const (
	// listings is how many parts of a place are listed at once.
	listings = 32
	// listAhead is how many parts may be listed before what lies before them is written.
	listAhead = 2 * listings
	// maxDepth is how deep directories are looked into to find parts.
	maxDepth = 6
)

// part is one of those that a place is divided into, in the order of names: objects that are listed
// already, or all whose names begin with a prefix.
type part struct {
	listed run
	prefix string
}

// run is objects in the order of their names, in little memory.
type run struct {
	objects     []byte // each with the lengths of its name and its value
	first, last string // names
}

func (r *run) add(i *blob.Info) {
	if r.objects == nil {
		r.first = i.Name
	}
	r.last = i.Name
	for _, part := range [][]byte{[]byte(i.Name), appendObject(nil, i)} {
		r.objects = append(binary.AppendUvarint(r.objects, uint64(len(part))), part...)
	}
}

// each calls f with the objects.
func (r *run) each(f func(*blob.Info) error) error {
	b := r.objects
	part := func() []byte {
		n, k := binary.Uvarint(b)
		p := b[k : k+int(n)]
		b = b[k+int(n):]
		return p
	}
	for len(b) > 0 {
		name := string(part())
		i, err := decodeObject(name, part())
		if err == nil {
			err = f(&i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// list lists a place: at once, where that is best, or else first directories from the top down until there are enough of them, then
// what is in these, several at once.
func (m *manifestWriter) list(ctx context.Context, o blob.Objects) error {
	if _, snapshot := o.(blob.Snapshot); snapshot {
		found, err := below(ctx, o, "")
		if err != nil {
			return err
		}
		return found.each(m.add)
	}
	parts, err := divide(ctx, o)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	ahead := make(chan chan run, listAhead)
	group.Go(func() error {
		defer close(ahead)
		return listParts(ctx, o, parts, ahead)
	})
	group.Go(func() error {
		for found := range ahead {
			listed := <-found
			if err := listed.each(m.add); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	return group.Wait()
}

// listParts sends what is in each part, in order. A part begins to be listed when there is room for
// it in ahead.
func listParts(ctx context.Context, o blob.Objects, parts []part, ahead chan<- chan run) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(listings)
	for k := range parts {
		p := &parts[k]
		done := make(chan run, 1)
		select {
		case ahead <- done:
		case <-ctx.Done():
			return group.Wait()
		}
		if p.prefix == "" {
			done <- p.listed
			p.listed = run{}
			continue
		}
		group.Go(func() error {
			found, err := below(ctx, o, p.prefix)
			done <- found // the writer waits for it, whatever it is
			return err
		})
	}
	return group.Wait()
}

// below returns all objects whose names begin with a prefix.
func below(ctx context.Context, o blob.Objects, prefix string) (found run, err error) {
	for page, err := range o.List(ctx, prefix, true) {
		if err != nil {
			return run{}, err
		}
		for k := range page {
			found.add(&page[k])
		}
	}
	return found, nil
}

// divide divides a place into parts. Directories are replaced by what is in them, a level at a
// time, until there are enough to be listed at once.
func divide(ctx context.Context, o blob.Objects) ([]part, error) {
	parts, err := level(ctx, o, "")
	if err != nil {
		return nil, err
	}
	for range maxDepth {
		if n := countPrefixes(parts); n == 0 || n >= listings {
			break
		}
		next := make([][]part, len(parts))
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(listings)
		for k := range parts {
			if next[k] = parts[k : k+1]; parts[k].prefix != "" {
				group.Go(func() (err error) {
					next[k], err = level(ctx, o, parts[k].prefix)
					return err
				})
			}
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
		parts = slices.Concat(next...)
	}
	return join(parts), nil
}

// level divides what is below a prefix that is empty or ends with a slash.
func level(ctx context.Context, o blob.Objects, prefix string) (parts []part, err error) {
	for page, err := range o.List(ctx, prefix, false) {
		if err != nil {
			return nil, err
		}
		for _, i := range page {
			if i.Dir {
				parts = append(parts, part{prefix: i.Name + "/"})
				continue
			}
			if len(parts) == 0 || parts[len(parts)-1].prefix != "" {
				parts = append(parts, part{})
			}
			parts[len(parts)-1].listed.add(&i)
		}
	}
	return parts, nil
}

func countPrefixes(parts []part) (n int) {
	for _, p := range parts {
		if p.prefix != "" {
			n++
		}
	}
	return n
}

// maxParts is how many parts a place is divided into, about. Each takes a request.
const maxParts = 512

// join makes one part of several directories whose names begin alike, where there are very many.
func join(parts []part) (joined []part) {
	var alike []int // bytes that directories have in common with those before them
	last := ""
	for _, p := range parts {
		if p.prefix != "" && last != "" {
			alike = append(alike, common(last, p.prefix))
		}
		last = cmp.Or(p.prefix, last)
	}
	if len(alike) < maxParts {
		return parts
	}
	slices.Sort(alike)
	length := alike[maxParts-1] // the greatest of which there are maxParts prefixes at most
	for len(parts) > 0 {
		end := 1
		key := parts[0].prefix[:min(length, len(parts[0].prefix))]
		for key != "" && end < len(parts) && strings.HasPrefix(parts[end].prefix, key) {
			end++
		}
		// No object beside them may begin so, and the place has to understand the question.
		before, behind := "", ""
		if len(joined) > 0 {
			before = joined[len(joined)-1].listed.last
		}
		if end < len(parts) {
			behind = parts[end].listed.first
		}
		if end > 1 && utf8.ValidString(key) && !strings.HasPrefix(before, key) && !strings.HasPrefix(behind, key) {
			joined = append(joined, part{prefix: key})
		} else {
			joined = append(joined, parts[:end]...)
		}
		parts = parts[end:]
	}
	return joined
}

// common is how many bytes two names begin with alike.
func common(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
