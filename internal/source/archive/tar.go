package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

const (
	// maxNested is how deep tars within tars are looked into.
	maxNested = 3
	// maxClass is the longest label of WebDataset that is read, in bytes.
	maxClass = 256
)

// around reads a range that lies in one block of an archive by way of that: archive/tar reads the last byte of a member,
// then the header behind it.
type around struct {
	io.ReaderAt
	block []byte
	from  int64 // where block begins
}

// aroundBytes is the length of a block.
const aroundBytes = 4096

func (a *around) ReadAt(b []byte, off int64) (int, error) {
	if len(b) >= aroundBytes {
		return a.ReaderAt.ReadAt(b, off)
	}
	if off < a.from || off+int64(len(b)) > a.from+int64(len(a.block)) {
		if a.block == nil {
			a.block = make([]byte, aroundBytes)
		}
		n, err := a.ReaderAt.ReadAt(a.block[:aroundBytes], off)
		if a.block, a.from = a.block[:n], off; n < len(b) {
			return copy(b, a.block), err
		}
	}
	return copy(b, a.block[off-a.from:]), nil
}

// tarScan looks through one tar.
type tarScan struct {
	shard   int
	r       io.ReaderAt
	emit    func(member) error
	group   []member // members of one key of WebDataset, which stand side by side
	key     string
	later   [][]member // groups that have links, which are emitted when it is known where those lead
	waiting int        // members of such groups
	inner   error      // the first damage in a tar within
	stop    error      // of emit
}

// scanTar calls emit with the members of a tar. What comes behind damage is lost, and the error says where that begins.
func scanTar(shard int, r io.ReaderAt, end int64, emit func(member) error) error {
	s := tarScan{shard: shard, r: r, emit: emit}
	err := s.walk(0, end, "", 0, s.add)
	if s.stop == nil {
		s.stop = s.flush()
	}
	if s.stop == nil && len(s.later) > 0 {
		s.stop = s.follow(end)
	}
	return errors.Join(s.stop, err, s.inner)
}

// walk calls visit with the members of the tar in a range of the archive, whose paths begin with dir.
func (s *tarScan) walk(first, end int64, dir string, depth int, visit func(member) error) error {
	r := io.NewSectionReader(&around{ReaderAt: s.r}, first, end-first)
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		at, _ := r.Seek(0, io.SeekCurrent) // which does not fail
		at += first
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("at byte %d: %w", at, err)
		}
		m := member{path: dir + clean(h.Name), at: at, entry: entry{
			shard: s.shard, offset: at, size: h.Size, packed: h.Size, mtime: h.ModTime.UnixNano(),
		}}
		m.why = unfitHeader(h)
		switch {
		case m.why != "":
		case h.Typeflag == tar.TypeDir:
			m.path += "/"
			m.codec, m.offset, m.size, m.packed = dirCodec, 0, 0, 0
		case h.Typeflag == tar.TypeLink:
			m.size, m.packed, m.hard = 0, 0, true
			m.setLink(dir, h.Linkname, h.Linkname)
		case h.Typeflag == tar.TypeSymlink:
			m.size, m.packed = 0, 0
			m.setLink(dir, h.Linkname, path.Join(path.Dir(m.path[len(dir):]), h.Linkname))
		case h.Size > end-at:
			m.why = fmt.Sprintf("the archive ends at byte %d, within it", end)
		case strings.HasSuffix(strings.ToLower(h.Name), ".tar") && depth < maxNested && isTar(s.r, at, h.Size):
			err := s.walk(at, at+h.Size, strings.TrimSuffix(m.path, path.Ext(m.path))+"/", depth+1, visit)
			if s.stop != nil {
				return s.stop
			}
			if err != nil && s.inner == nil {
				s.inner = fmt.Errorf("in %s: %w", h.Name, err)
			}
			continue
		}
		if s.stop = visit(m); s.stop != nil {
			return s.stop
		}
	}
}

// clean is a name without what says nothing: tar writes "./a" for the member a of its directory.
func clean(name string) string {
	for strings.HasPrefix(name, "./") {
		name = strings.TrimLeft(name[2:], "/")
	}
	return strings.TrimSuffix(name, "/")
}

// unfitHeader says why a member is no file or directory that can be shown; empty where it is one.
func unfitHeader(h *tar.Header) string {
	sparse := h.Typeflag == tar.TypeGNUSparse
	for k := range h.PAXRecords {
		sparse = sparse || strings.HasPrefix(k, "GNU.sparse.")
	}
	switch {
	case sparse:
		return "it is a sparse file, whose bytes do not lie together"
	case strings.HasPrefix(h.Name, "/"):
		return "its name is an absolute path"
	case h.Typeflag == tar.TypeReg, h.Typeflag == tar.TypeDir, h.Typeflag == '\x00', h.Typeflag == tar.TypeCont,
		h.Typeflag == tar.TypeLink, h.Typeflag == tar.TypeSymlink:
		return ""
	}
	return "it is no file"
}

// isTar reports whether a range begins as a tar does.
func isTar(r io.ReaderAt, at, size int64) bool {
	var magic [5]byte
	if size < 1024 {
		return false
	}
	_, err := r.ReadAt(magic[:], at+257)
	return err == nil && string(magic[:]) == "ustar"
}

// keyOf is the key of WebDataset, the name up to the first dot of its last part, and the rest.
func keyOf(name string) (key, rest string) {
	slash := strings.LastIndexByte(name, '/') + 1
	if dot := strings.IndexByte(name[slash:], '.'); dot > 0 {
		return name[:slash+dot], strings.ToLower(name[slash+dot+1:])
	}
	return name, ""
}

// add takes the next member.
func (s *tarScan) add(m member) error {
	key, rest := keyOf(m.path)
	if m.why != "" || m.codec == dirCodec || rest == "" {
		key = ""
	}
	if key != s.key || key == "" {
		if err := s.flush(); err != nil {
			return err
		}
		s.key = key
	}
	m.key = key
	s.group = append(s.group, m)
	return nil
}

// flush passes on the members of a key.
func (s *tarScan) flush() error {
	group := s.group
	s.group, s.key = s.group[:0], ""
	if slices.ContainsFunc(group, func(m member) bool { return m.link != "" }) {
		if s.waiting += len(group); s.waiting <= maxLinks {
			s.later = append(s.later, slices.Clone(group))
			return nil
		}
	}
	return s.pass(group)
}

// pass emits the members of a key, with its class.
func (s *tarScan) pass(group []member) error {
	class := ""
	for _, m := range group {
		if _, rest := keyOf(m.path); rest == "cls" && m.key != "" && m.why == "" && m.link == "" && m.size <= maxClass {
			b := make([]byte, m.size)
			if _, err := s.r.ReadAt(b, m.offset); err != nil {
				return fmt.Errorf("%s: %w", m.path, err)
			}
			class = strings.TrimSpace(string(b))
		}
	}
	for _, m := range group {
		if m.link != "" {
			m.why = fmt.Sprintf("it is one of more than %d links in its archive", maxLinks)
		}
		m.class = class
		if err := s.emit(m); err != nil {
			return err
		}
	}
	return nil
}
