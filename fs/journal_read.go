package fs

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/fs/conn"
	"github.com/pipefs/pipefs/internal/source"
)

// past is what the daemons before this one told the kernel.
type past struct {
	began     uint32 // how many there were
	first     beginning
	handshake *conn.Handshake
	entries   []pastEntry          // by id; those without a name were never told
	names     []byte               // of entries, one after the other
	attrs     []source.Attr        // the first is none
	listings  map[uint32]*snapshot // by directory
	views     []viewRecord         // in the order in which they were entered
	nextView  uint32
	specials  []specialRecord
	batches   map[uint32]pastBatch
	next      uint32 // number of the next special
	source    string // see [Journal.Source]
	alone     *suspect
	refused   []suspect

	indexed uint32 // directory whose listing index has the places of
	index   map[uint32]int
}

// pastBatch is a file of an epoch view.
type pastBatch struct {
	dir  uint32
	size uint64
	name string
}

// pastEntry is an entry of the tree.
type pastEntry struct {
	dir  uint32
	kind uint8
	link bool
	len  uint8
	off  uint64 // of its name in names
	attr uint32 // in attrs
}

// ErrJournal says that a journal cannot be read by this program.
var ErrJournal = errors.New("it was written by another version of pipefs")

// readJournal reads all whole records, and returns where they end. A daemon that was killed may have left part of one
// behind them. One that is damaged is an error: without it numbers would be given a second time.
func readJournal(file *os.File) (*past, int64, error) {
	p := &past{attrs: make([]source.Attr, 1), listings: map[uint32]*snapshot{}, batches: map[uint32]pastBatch{}, nextView: originalView + 1}
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return p, 0, err
	}
	data, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, 0, os.NewSyscallError("mmap", err)
	}
	defer func() { _ = unix.Munmap(data) }()
	at := 0
	for len(data)-at >= recordHeader {
		n := int(binary.LittleEndian.Uint32(data[at+1:]))
		record := data[at:min(at+recordHeader+n, len(data))]
		header, all := checks(record)
		whole := len(record) == recordHeader+n
		switch {
		case header == record[5] && !whole:
			return p, int64(at), nil
		case header == record[5] && all == binary.LittleEndian.Uint32(record[6:]):
		case at == 0:
			return nil, 0, ErrJournal
		default:
			return nil, 0, errTorn
		}
		r := &recordReader{b: record[recordHeader:]}
		p.add(data[at], r)
		if r.err != nil {
			return nil, 0, r.err
		}
		at += recordHeader + n
	}
	return p, int64(at), nil
}

// add takes one record.
func (p *past) add(kind byte, r *recordReader) {
	switch kind {
	case recordBegin:
		var b beginning
		r.json(&b)
		if r.err == nil && b.Version != JournalVersion {
			r.err = fmt.Errorf("%w: format %d, not %d", ErrJournal, b.Version, JournalVersion)
		}
		if p.began++; p.began == 1 {
			p.first = b
		}
	case recordHandshake:
		p.handshake = &conn.Handshake{}
		r.json(p.handshake)
	case recordEntries:
		dir := r.id()
		for len(r.b) > 0 && r.err == nil {
			id, flags, length := r.id(), r.byte(), r.byte()
			p.entry(id, pastEntry{dir: dir, kind: flags &^ linkFlag, link: flags&linkFlag != 0, len: length, off: uint64(len(p.names))})
			p.names = append(p.names, r.take(int(length))...)
		}
	case recordReplace:
		id, before, flags := r.id(), r.id(), r.byte()
		if int(before) >= len(p.entries) {
			r.err = errTorn
			return
		}
		e := p.entries[before]
		e.attr = 0
		e.kind, e.link = flags&^linkFlag, flags&linkFlag != 0
		p.entry(id, e)
		p.replace(e.dir, before, id)
	case recordAttr:
		if id := r.id(); int(id) < len(p.entries) {
			p.entries[id].attr = uint32(len(p.attrs))
			p.attrs = append(p.attrs, r.attr())
		}
	case recordListing:
		p.listing(r)
	case recordView:
		var v viewRecord
		r.json(&v)
		p.views = append(p.views, v)
		p.nextView = max(p.nextView, v.Index+1)
	case recordForgot:
		index := r.id()
		for i := range p.views {
			if p.views[i].Index == index {
				p.views = append(p.views[:i], p.views[i+1:]...)
				break
			}
		}
	case recordSpecial:
		var s specialRecord
		r.json(&s)
		p.specials = append(p.specials, s)
		p.next = max(p.next, s.ID+1)
	case recordBatch:
		id, size, dir := r.id(), r.unsigned(), r.id()
		p.batches[id] = pastBatch{dir, size, string(r.b)}
	case recordSource:
		p.source = string(r.b)
	case recordAlone:
		p.alone = nil
		r.json(&p.alone)
	case recordRefused:
		var s suspect
		r.json(&s)
		p.refused = append(p.refused, s)
	case recordReserve:
		p.next = max(p.next, r.id())
	default:
		r.err = fmt.Errorf("%w: record %q", ErrJournal, kind)
	}
}

func (p *past) entry(id uint32, e pastEntry) {
	for uint32(len(p.entries)) <= id {
		p.entries = append(p.entries, pastEntry{dir: rootID})
	}
	p.entries[id] = e
}

// replace gives the place of an entry in its directory's listing to another one.
func (p *past) replace(dir, before, id uint32) {
	s := p.listings[dir]
	if s == nil {
		return
	}
	if p.indexed != dir {
		p.indexed, p.index = dir, make(map[uint32]int, len(s.ids))
		for i, id := range s.ids {
			p.index[id] = i
		}
	}
	if i, ok := p.index[before]; ok {
		s.ids[i] = id
		delete(p.index, before)
		p.index[id] = i
	}
}

func (p *past) listing(r *recordReader) {
	dir := r.id()
	s := &snapshot{version: r.id()}
	for len(r.b) > 0 && r.err == nil {
		first, n := r.id(), r.id()
		for i := range n {
			s.ids = append(s.ids, first+i)
		}
	}
	p.listings[dir] = s
	if p.indexed == dir {
		p.indexed = 0
	}
}

var errTorn = errors.New("a record is damaged")

// recordReader takes values from a record.
type recordReader struct {
	b   []byte
	err error
}

func (r *recordReader) take(n int) []byte {
	if n > len(r.b) {
		r.b, r.err = nil, errTorn
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *recordReader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *recordReader) unsigned() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.err = nil, errTorn
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *recordReader) signed() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.b, r.err = nil, errTorn
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *recordReader) id() uint32 { return uint32(r.unsigned()) }

func (r *recordReader) json(v any) {
	if err := json.Unmarshal(r.b, v); err != nil {
		r.err = err
	}
}

func (r *recordReader) attr() (a source.Attr) {
	a.ID = r.unsigned()
	a.Size, a.MTime, a.CTime = r.signed(), r.signed(), r.signed()
	a.Mode, a.UID, a.GID = iofs.FileMode(r.id()), r.id(), r.id()
	return a
}
