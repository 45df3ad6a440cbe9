package archive

import (
	"archive/zip"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

const (
	encrypted = 1 // a flag of a zip's member
	// zipHeader is how many bytes precede a member in a zip, at least: its local header, whose name and extra fields have a
	// length of their own there.
	zipHeader    = 30
	zipSignature = "PK\x03\x04"
)

// zipReader answers each read as if there were a local header without name and extra fields while headless is set. What archive/zip
// takes for the place of a member's bytes then tells where its header lies, and nothing of the archive is read.
type zipReader struct {
	io.ReaderAt
	headless bool
}

func (r *zipReader) ReadAt(b []byte, off int64) (int, error) {
	if !r.headless {
		return r.ReaderAt.ReadAt(b, off)
	}
	clear(b)
	copy(b, zipSignature)
	return len(b), nil
}

// headerOf is where the local header of a member lies.
func (r *zipReader) headerOf(f *zip.File) (int64, error) {
	r.headless = true
	defer func() { r.headless = false }()
	at, err := f.DataOffset()
	return at - zipHeader, err
}

// scanZip calls emit with the members of a zip, of which it reads the directory alone, and the links. A member's local header lies beside
// its bytes: who reads these looks at it.
func scanZip(shard int, archive io.ReaderAt, size int64, emit func(member) error) error {
	r := &zipReader{ReaderAt: archive}
	z, err := zip.NewReader(r, size)
	if err != nil {
		return err
	}
	found := make([]member, 0, len(z.File))
	for i, f := range z.File {
		m := member{path: clean(f.Name), at: int64(i), entry: entry{
			shard: shard, packed: int64(f.CompressedSize64), size: int64(f.UncompressedSize64), mtime: f.Modified.UnixNano(), crc: f.CRC32,
		}}
		m.why = unfitFile(f)
		switch {
		case m.why != "":
		case strings.HasSuffix(f.Name, "/"):
			m.path += "/"
			m.entry = entry{shard: shard, mtime: m.mtime, codec: dirCodec}
		case f.Mode().Type() == fs.ModeSymlink:
			to, err := readLink(f)
			if err != nil {
				m.why = fmt.Sprintf("it is a link, and damaged: %v", err)
				break
			}
			m.entry = entry{shard: shard}
			m.setLink("", to, path.Join(path.Dir(m.path), to))
		default:
			m.codec = zipped
			if f.Method == zip.Deflate {
				m.codec = deflated
			}
			if m.offset, err = r.headerOf(f); err != nil || m.offset < 0 || m.offset > size-zipHeader {
				m.why = "its header is damaged: it lies outside of the archive"
			} else if m.packed > size-zipHeader-m.offset {
				m.why = "it reaches beyond the archive"
			}
		}
		found = append(found, m)
	}
	overlapping(found)
	followZip(found)
	for _, m := range found {
		if err := emit(m); err != nil {
			return err
		}
	}
	return nil
}

// readLink returns where a link leads, which is its content.
func readLink(f *zip.File) (string, error) {
	if f.UncompressedSize64 > maxPath {
		return "", fmt.Errorf("a path has %d bytes at most", maxPath)
	}
	r, err := f.Open()
	if err != nil {
		return "", err
	}
	defer r.Close()
	to, err := io.ReadAll(io.LimitReader(r, maxPath))
	return string(to), err
}

// followZip gives links the bytes of what they lead to.
func followZip(found []member) {
	var links []*member
	for i := range found {
		if found[i].link != "" {
			links = append(links, &found[i])
		}
	}
	t := targetsOf(links)
	for i := range found {
		t.take(found[i])
	}
	for _, m := range links {
		t.follow(m)
	}
}

// unfitFile says why a member cannot be shown; empty where it can.
func unfitFile(f *zip.File) string {
	size := f.UncompressedSize64
	switch {
	case strings.HasPrefix(f.Name, "/"):
		return "its name is an absolute path"
	case f.Flags&encrypted != 0:
		return "it is encrypted"
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return fmt.Sprintf("it is compressed by method %d, and only deflate is read", f.Method)
	case !f.Mode().IsDir() && !f.Mode().IsRegular() && f.Mode().Type() != fs.ModeSymlink:
		return "it is no file"
	case int64(f.CompressedSize64) < 0 || int64(size) < 0, f.Method == zip.Store && f.CompressedSize64 != size:
		return "its sizes cannot be right"
	case f.Method == zip.Deflate && size > maxInflated:
		return fmt.Sprintf("it has %d bytes, and deflated members of more than %d are not read", size, int64(maxInflated))
	case f.Method == zip.Deflate && size/1100 > f.CompressedSize64:
		return "its sizes cannot be right" // deflate makes 1,032 bytes of one at most
	}
	return ""
}

// overlapping leaves out members that lie over others: a few bytes would become very many files.
func overlapping(found []member) {
	order := make([]*member, 0, len(found))
	for i := range found {
		if m := &found[i]; m.why == "" && m.link == "" && m.codec != dirCodec && m.packed > 0 {
			order = append(order, m)
		}
	}
	slices.SortStableFunc(order, func(a, b *member) int { return int(min(max(a.offset-b.offset, -1), 1)) })
	end := int64(0)
	for _, m := range order {
		if m.offset < end {
			m.why = "it lies over another member"
			continue
		}
		end = m.offset + zipHeader + m.packed
	}
}
