package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
)

const (
	// maxNested is how deep tars within tars are looked into.
	maxNested = 3
	// maxClass is the longest label of WebDataset that is read, in bytes.
	maxClass = 256
)

// position is a reader of a range that knows where it is, and that archive/tar seeks in.
type position struct {
	r         io.ReaderAt
	at, first int64
	end       int64
}

func (p *position) Read(b []byte) (int, error) {
	if p.at >= p.end {
		return 0, io.EOF
	}
	b = b[:min(int64(len(b)), p.end-p.at)]
	n, err := p.r.ReadAt(b, p.at)
	p.at += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (p *position) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
		offset += p.first
	case io.SeekCurrent:
		offset += p.at
	case io.SeekEnd:
		offset += p.end
	}
	if offset < p.first {
		return 0, errors.New("before the archive")
	}
	p.at = offset
	return p.at - p.first, nil
}

// tarScan looks through one tar.
type tarScan struct {
	shard int
	r     io.ReaderAt
	emit  func(member) error
	group []member // members of one key of WebDataset, which stand side by side
	key   string
	class string // of the key
}

// scanTar calls emit with the members of the tar in a range of an archive, whose paths begin with dir. What comes behind
// damage is lost, and the error says where that begins.
func scanTar(shard int, r io.ReaderAt, first, end int64, dir string, depth int, emit func(member) error) error {
	s := tarScan{shard: shard, r: r, emit: emit}
	p := &position{r: r, at: first, first: first, end: end}
	t := tar.NewReader(p)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return s.flush()
		}
		if err != nil {
			return errors.Join(s.flush(), fmt.Errorf("at byte %d: %w", p.at, err))
		}
		m := member{path: dir + clean(h.Name), entry: entry{
			shard: shard, offset: p.at, size: h.Size, packed: h.Size, mtime: h.ModTime.UnixNano(),
		}}
		if why := unfitHeader(h); why != "" {
			m.why = why
		}
		switch {
		case m.why != "":
		case h.Typeflag == tar.TypeDir:
			m.path += "/"
			m.codec, m.offset, m.size, m.packed = dirCodec, 0, 0, 0
		case h.Size > end-p.at:
			m.why = fmt.Sprintf("the archive ends at byte %d, within it", end)
		case strings.HasSuffix(strings.ToLower(h.Name), ".tar") && depth < maxNested && isTar(r, p.at, h.Size):
			if err := s.flush(); err != nil {
				return err
			}
			inner := strings.TrimSuffix(m.path, path.Ext(m.path)) + "/"
			if err := scanTar(shard, r, p.at, p.at+h.Size, inner, depth+1, emit); err != nil {
				return fmt.Errorf("in %s: %w", h.Name, err)
			}
			continue
		}
		if err := s.add(m); err != nil {
			return err
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
	case h.Typeflag == tar.TypeReg, h.Typeflag == tar.TypeDir, h.Typeflag == '\x00', h.Typeflag == tar.TypeCont:
		return ""
	case h.Typeflag == tar.TypeLink, h.Typeflag == tar.TypeSymlink:
		return "it is a link, to " + strconv.Quote(h.Linkname)
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
	if rest == "cls" && m.why == "" && m.size <= maxClass {
		b := make([]byte, m.size)
		if _, err := s.r.ReadAt(b, m.offset); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		s.class = strings.TrimSpace(string(b))
	}
	s.group = append(s.group, m)
	return nil
}

// flush passes on the members of a key.
func (s *tarScan) flush() error {
	for _, m := range s.group {
		m.class = s.class
		if err := s.emit(m); err != nil {
			return err
		}
	}
	s.group, s.class, s.key = s.group[:0], "", ""
	return nil
}
