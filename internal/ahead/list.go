package ahead

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/pipefs/pipefs/internal/epoch"
)

// Lists tells what the samples of a directory are, as ImageFolder lists them.
type Lists interface {
	Samples(dir string) (*epoch.Samples, error)
}

// list is the samples of a directory in a view.
type list struct {
	samples *epoch.Samples
	view    string
	digest  string
}

func (l *list) len() int { return l.samples.Len() }

// path is that of a sample below the root of the mount.
func (l *list) path(i int) string { return path.Join(l.view, l.samples.Path(i)) }

// digests are the lists that were asked for last: a digest of many names takes a while.
type digests struct {
	mu    sync.Mutex
	lists map[[2]string]*list
}

// maxLists is how many lists are remembered.
const maxLists = 16

// list returns the list that a message means, if its digest is that of its sender.
func (q *Queue) list(h header) (*list, error) {
	l, err := q.newest(h)
	if err != nil {
		return nil, err
	}
	if l.digest != h.Digest {
		return nil, fmt.Errorf("the order is of another list: the mount lists %d samples in %s with the digest %s, and not %s. "+
			"Samples that have come or gone since the list was made, and files that the loader takes and pipefs does not, change it",
			l.len(), path.Join(h.View, h.Dir), l.digest, h.Digest)
	}
	return l, nil
}

// newest is the list as it is now.
func (q *Queue) newest(h header) (*list, error) {
	if q.o.Lists == nil {
		return nil, errors.New("this mount knows no lists")
	}
	p, err := q.tree.View(h.View)
	if err != nil {
		return nil, err
	}
	samples, err := q.o.Lists.Samples(h.Dir)
	if err != nil {
		return nil, fmt.Errorf("the samples below %s: %w", path.Join(h.View, h.Dir), err)
	}
	if h.Own {
		return &list{samples: samples, view: h.View, digest: samples.Digest()}, nil
	}
	q.lists.mu.Lock()
	defer q.lists.mu.Unlock()
	key := [2]string{h.View, h.Dir}
	if l := q.lists.lists[key]; l != nil && l.samples.Same(samples) {
		return l, nil
	}
	sum := sha256.New()
	for i := range samples.Len() {
		listed, err := q.tree.Listed(p, samples.Path(i))
		if err != nil {
			return nil, err
		}
		sum.Write([]byte(strings.TrimPrefix(strings.TrimPrefix(listed, h.Dir), "/") + "\n"))
	}
	if q.lists.lists == nil || len(q.lists.lists) >= maxLists {
		q.lists.lists = map[[2]string]*list{}
	}
	l := &list{samples: samples, view: h.View, digest: hex.EncodeToString(sum.Sum(nil))}
	q.lists.lists[key] = l
	return l, nil
}
