package fs

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/fs/conn"
	"github.com/pipefs/pipefs/internal/source"
)

// JournalVersion is that of the journal's format. A program that writes another one
// cannot take a mount over.
const JournalVersion = 3

// Journal is what the next daemon has to know of a mount if this one dies: which number
// stands for which entry, view, link and file, and how the connection began. It is a file
// in memory that the daemon's parent holds open. A record is written before the kernel is
// told of what it says, and with one call, so that a daemon that is killed leaves whole
// records, but for the last one.
//
// The methods of a nil Journal do nothing: nobody would read it.
type Journal struct {
	file *os.File
	// began is how many daemons have written it, this one included.
	began uint32
	past  *past // what was written before; nil once it is restored, or if this is the first

	mu     sync.Mutex
	source string // see Source
	buf    []byte
	err    error // the first: what follows it would be of no use
	log    *slog.Logger
}

// NewJournal makes an empty one for [OpenJournal], in memory that belongs to whoever holds
// it open.
func NewJournal() (*os.File, error) {
	fd, err := unix.MemfdCreate("pipefs-journal", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "journal"), nil
}

// The kinds of records.
const (
	recordBegin     = 'B' // a daemon: beginning
	recordHandshake = 'H' // a conn.Handshake
	recordEntries   = 'E' // directory, then for each: id, kind, name
	recordReplace   = 'R' // entry, the one whose place it takes, whether it may be a link
	recordAttr      = 'A' // entry and its attributes
	recordListing   = 'L' // directory, version, runs of ids: first, how many
	recordView      = 'V' // beginning of a viewRecord
	recordForgot    = 'F' // index of a view that was forgotten
	recordSpecial   = 'S' // a specialRecord
	recordBatch     = 'P' // special that is a file of an epoch view, its size, that of the directory, its name
	recordSource    = 'G' // what the owner of the journal noted of the source
	recordAlone     = 'O' // a suspect that runs alone, or null: none does
	recordRefused   = 'X' // a suspect
	recordReserve   = 'N' // numbers of specials below this may have been given out
)

// beginning is what each daemon writes first.
type beginning struct {
	Version   int       `json:"version"`
	Freshness uint8     `json:"freshness"`
	Cache     CacheMode `json:"cache"`
	Seed      uint64    `json:"seed"`
	Made      time.Time `json:"made"`
}

// viewRecord is a view that was entered.
type viewRecord struct {
	Index  uint32 `json:"index"`
	Path   string `json:"path"`
	Digest string `json:"digest"` // of what makes its bytes
}

// specialRecord is a special that was given out.
type specialRecord struct {
	ID      uint32   `json:"id"`
	Link    string   `json:"link,omitempty"`   // name of a link of the root
	Target  string   `json:"target,omitempty"` // of a link
	Control bool     `json:"control,omitempty"`
	Draw    *drawDir `json:"draw,omitempty"`
	File    string   `json:"file,omitempty"` // name of a file
	Size    int      `json:"size,omitempty"`
	Sum     []byte   `json:"sum,omitempty"`
	// Epoch is the path of a directory below .epoch, Digest that of the epoch view.
	Epoch  string    `json:"epoch,omitempty"`
	Digest string    `json:"digest,omitempty"`
	Made   time.Time `json:"made"`
}

// OpenJournal opens the journal of a mount. What the daemons before this one wrote is
// restored by [New].
func OpenJournal(file *os.File) (*Journal, error) {
	if file == nil {
		return nil, nil
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETFL, unix.O_APPEND); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	j := &Journal{file: file, began: 1}
	past, whole, err := readJournal(file)
	if err != nil {
		return nil, fmt.Errorf("journal of the mount: %w", err)
	}
	if past.began > 0 {
		j.past, j.began, j.source = past, past.began+1, past.source
	}
	// The record at which a daemon was killed.
	if err := file.Truncate(whole); err != nil {
		return nil, err
	}
	return j, nil
}

// Resumes reports whether the mount has been served before.
func (j *Journal) Resumes() bool { return j != nil && j.began > 1 }

// Handshake is that with which the connection began; nil if it did not.
func (j *Journal) Handshake() *conn.Handshake {
	if j == nil || j.past == nil {
		return nil
	}
	return j.past.handshake
}

// Began notes the handshake of a connection.
func (j *Journal) Began(h conn.Handshake) {
	if j != nil && j.Handshake() == nil {
		j.writeJSON(recordHandshake, h)
	}
}

// Source is what NoteSource noted last, or a daemon before this one.
func (j *Journal) Source() string {
	if j == nil {
		return ""
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.source
}

// NoteSource notes what the next daemon has to know of what the mount shows. The text means
// something to the caller alone.
func (j *Journal) NoteSource(text string) {
	if j == nil || j.Source() == text {
		return
	}
	j.write(recordSource, func(b []byte) []byte { return append(b, text...) })
	j.mu.Lock()
	defer j.mu.Unlock()
	j.source = text
}

// A record begins with its kind, the length of its body, a check of these two, and a checksum of all. The check
// tells a damaged length from that of a record which was not written to its end.
const recordHeader = 1 + 4 + 1 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checks are those of a record.
func checks(b []byte) (header byte, all uint32) {
	sum := crc32.Checksum(b[:1+4], castagnoli)
	return byte(sum), crc32.Update(sum, castagnoli, b[recordHeader:])
}

// write appends one record.
func (j *Journal) write(kind byte, fill func([]byte) []byte) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return
	}
	b := fill(append(j.buf[:0], kind, 0, 0, 0, 0, 0, 0, 0, 0, 0))
	binary.LittleEndian.PutUint32(b[1:], uint32(len(b)-recordHeader))
	header, all := checks(b)
	b[5] = header
	binary.LittleEndian.PutUint32(b[6:], all)
	if j.buf = b; cap(b) > 1<<20 {
		j.buf = nil
	}
	n, err := j.file.Write(b)
	if err == nil && n < len(b) {
		err = errors.New("it is full")
	}
	if err == nil {
		return
	}
	j.err = err
	// Without it the next daemon would give the same numbers to other files.
	_ = j.file.Truncate(0)
	if j.log != nil {
		j.log.Error("the journal of the mount cannot be written: if this daemon dies, the mount ends with it", "cause", err)
	}
}

func (j *Journal) writeJSON(kind byte, v any) {
	if j == nil {
		return
	}
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // only types of this file
	}
	j.write(kind, func(b []byte) []byte { return append(b, data...) })
}

func (j *Journal) entries(dir uint32, names string, made []entry, ids []*uint32) {
	j.write(recordEntries, func(b []byte) []byte {
		b = binary.AppendUvarint(b, uint64(dir))
		for i, e := range made {
			b = binary.AppendUvarint(b, uint64(*ids[i]))
			b = append(b, e.flags(), e.len)
			b = append(b, names[e.off:e.off+uint32(e.len)]...)
		}
		return b
	})
}

// flags are kind and link in one byte.
func (e entry) flags() byte {
	if e.link {
		return e.kind | linkFlag
	}
	return e.kind
}

const linkFlag = 1 << 7

func (j *Journal) replaced(id, before uint32, e entry) {
	j.write(recordReplace, func(b []byte) []byte {
		b = binary.AppendUvarint(b, uint64(id))
		b = binary.AppendUvarint(b, uint64(before))
		return append(b, e.flags())
	})
}

func (j *Journal) attr(id uint32, a source.Attr) {
	j.write(recordAttr, func(b []byte) []byte {
		b = binary.AppendUvarint(b, uint64(id))
		b = binary.AppendUvarint(b, a.ID)
		for _, v := range []int64{a.Size, a.MTime, a.CTime} {
			b = binary.AppendVarint(b, v)
		}
		for _, v := range []uint32{uint32(a.Mode), a.UID, a.GID} {
			b = binary.AppendUvarint(b, uint64(v))
		}
		return b
	})
}

func (j *Journal) listing(dir uint32, s *snapshot) {
	j.write(recordListing, func(b []byte) []byte {
		b = binary.AppendUvarint(b, uint64(dir))
		b = binary.AppendUvarint(b, uint64(s.version))
		for i := 0; i < len(s.ids); {
			first, n := s.at(i), 1
			for i+n < len(s.ids) && s.at(i+n) == first+uint32(n) {
				n++
			}
			b = binary.AppendUvarint(b, uint64(first))
			b = binary.AppendUvarint(b, uint64(n))
			i += n
		}
		return b
	})
}

func (j *Journal) view(v *view, digest string) {
	j.writeJSON(recordView, viewRecord{Index: v.index, Path: v.name, Digest: digest})
}

func (j *Journal) number(kind byte, n uint32) {
	j.write(kind, func(b []byte) []byte { return binary.AppendUvarint(b, uint64(n)) })
}

// batch notes a file of an epoch view. There are many.
func (j *Journal) batch(s *special, dir uint32, name string) {
	j.write(recordBatch, func(b []byte) []byte {
		b = binary.AppendUvarint(b, uint64(uint32(s.node)))
		b = binary.AppendUvarint(b, uint64(s.size))
		b = binary.AppendUvarint(b, uint64(dir))
		return append(b, name...)
	})
}
