package mounts

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Type is what the table calls a mount of pipefs.
const Type = "fuse.pipefs"

// Mount is one line of the table.
type Mount struct {
	ID, Parent int
	Dev        string // major:minor
	Root       string // the directory of the file system that is mounted
	Point      string // where
	Options    string // of this mount
	Type       string // fuse.pipefs, ext4, …
	Source     string // what: for pipefs the dataset or store
	Super      string // options of the file system, such as user_id=1000
}

// Ours reports whether pipefs made the mount.
func (m Mount) Ours() bool { return m.Type == Type }

// List reads the table of this process.
func List() ([]Mount, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("the table of mounts: %w", err)
	}
	defer f.Close()
	return Parse(f)
}

// Parse reads a table in the format of /proc/self/mountinfo, see proc(5).
func Parse(r io.Reader) ([]Mount, error) {
	var table []Mount
	lines := bufio.NewScanner(r)
	// overlay mounts with hundreds of layers have very long lines
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		m, err := parseLine(lines.Text())
		if err != nil {
			return nil, err
		}
		table = append(table, m)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("the table of mounts: %w", err)
	}
	return table, nil
}

// parseLine reads
//
//	36 35 98:0 /root /mnt ro,noatime shared:1 master:2 - ext4 /dev/sda1 rw
//
// where any number of optional fields, shared:1 and so on, stands before the
// hyphen.
func parseLine(line string) (Mount, error) {
	bad := fmt.Errorf("the table of mounts has a line that cannot be read: %q", line)
	before, after, ok := strings.Cut(line, " - ")
	if !ok {
		return Mount{}, bad
	}
	head, tail := strings.Fields(before), strings.Split(after, " ")
	if len(head) < 6 || len(tail) < 2 {
		return Mount{}, bad
	}
	id, err1 := strconv.Atoi(head[0])
	parent, err2 := strconv.Atoi(head[1])
	if err1 != nil || err2 != nil {
		return Mount{}, bad
	}
	return Mount{
		ID: id, Parent: parent, Dev: head[2],
		Root: unescape(head[3]), Point: unescape(head[4]), Options: head[5],
		Type: unescape(tail[0]), Source: unescape(tail[1]), Super: strings.Join(tail[2:], " "),
	}, nil
}

// Owner is the user who made a FUSE mount; ok is false for other mounts.
func (m Mount) Owner() (uid int, ok bool) {
	for option := range strings.SplitSeq(m.Super, ",") {
		if id, found := strings.CutPrefix(option, "user_id="); found {
			uid, err := strconv.Atoi(id)
			return uid, err == nil
		}
	}
	return 0, false
}

// unescape undoes the octal escapes of the kernel: \040 is a blank. Anything that
// is no escape stands for itself.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// At finds what is mounted at exactly this path: the last one mounted there, for
// it hides the others.
func At(table []Mount, path string) (Mount, bool) {
	for i := len(table) - 1; i >= 0; i-- {
		if table[i].Point == path {
			return table[i], true
		}
	}
	return Mount{}, false
}

// Holding finds the mount that a path lies in.
func Holding(table []Mount, path string) (Mount, bool) {
	best, found := Mount{}, false
	for _, m := range table {
		if Below(path, m.Point) && (!found || len(m.Point) >= len(best.Point)) {
			best, found = m, true
		}
	}
	return best, found
}

// Below reports whether path is dir or lies below it; both are clean.
func Below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
