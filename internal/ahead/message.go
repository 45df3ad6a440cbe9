package ahead

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/pipefs/pipefs/internal/epoch"
)

// Version of the messages.
const Version = 1

// Command is the number of the ioctl by which messages are sent, without its size:
// _IOWR('p', 0xa1, MESSAGE). It returns 0, or 1 where the message is refused; its argument is
// then the reason, and ends with a zero byte.
const Command = 3<<30 | 'p'<<8 | 0xa1

// MaxMessage is the most bytes that a message can have: the size has 14 bits in the number of
// an ioctl.
const MaxMessage = 1<<14 - 1

// CommandSize is how large the argument of an ioctl is, and whether it is one of ours.
func CommandSize(command uint32) (size int, ok bool) {
	return int(command >> 16 & MaxMessage), command&^uint32(MaxMessage<<16) == Command
}

// header is the first line of a message, in JSON. What follows are paths below the root of the
// mount, each with a zero byte behind it; or with Digest, places in the list of Dir, each of
// four bytes, the lowest one first.
type header struct {
	V      int    `json:"v"`
	Stream string `json:"stream"` // chosen by the sender
	// Replace: what the stream has announced before is read, or will not be.
	Replace bool `json:"replace"`

	View string `json:"view"`
	Dir  string `json:"dir"` // of the dataset; empty for all of it
	// Digest is the SHA-256 of the names of the list, in hexadecimal digits: of the paths of
	// the samples that ImageFolder finds in Dir of the view, below that, each with a newline
	// behind it. With Own they are the paths in the dataset.
	Digest string `json:"digest"`
	Own    bool   `json:"own"`
}

// maxStream bounds the name of a stream, in bytes.
const maxStream = 64

// parse reads a message.
func parse(message []byte) (h header, rest []byte, err error) {
	line, rest, ok := bytes.Cut(message, []byte{'\n'})
	if !ok {
		return h, nil, errors.New("the message has no first line")
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return h, nil, fmt.Errorf("the first line of the message cannot be read: %w", err)
	}
	switch {
	case h.V != Version:
		return h, nil, fmt.Errorf("the daemon knows version %d of hints, not %d: use the pipefs that mounted", Version, h.V)
	case h.Stream == "" || len(h.Stream) > maxStream:
		return h, nil, fmt.Errorf("the name of a stream has 1 to %d bytes", maxStream)
	}
	return h, rest, nil
}

// paths reads what follows the first line.
func paths(rest []byte) ([]string, error) {
	text, ok := strings.CutSuffix(string(rest), "\x00")
	switch {
	case len(rest) == 0:
		return nil, nil
	case !ok:
		return nil, errors.New("the last path is cut short")
	}
	return strings.Split(text, "\x00"), nil
}

// places reads what follows the first line, of a list of n samples.
func places(rest []byte, n int) ([]uint32, error) {
	if len(rest)%4 != 0 {
		return nil, errors.New("the last place is cut short")
	}
	all := make([]uint32, len(rest)/4)
	for i := range all {
		all[i] = binary.LittleEndian.Uint32(rest[4*i:])
		if int64(all[i]) >= int64(n) {
			return nil, fmt.Errorf("there is no sample %d: the list has %d", all[i], n)
		}
	}
	return all, nil
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
