package doctor

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// scrubber makes texts fit to be sent to others: it takes credentials out, and hashes what may name a file. It keeps numbers
// and words that the program itself contains, and no other. Equal names have equal hashes within one archive only.
type scrubber struct {
	secrets []string // values of variables, the longest first
	words   map[string]bool
	salt    []byte // nil leaves names as they are
}

const removed = "REMOVED"

var (
	userInfo = regexp.MustCompile(`://[^/\s@"']+@`)
	query    = regexp.MustCompile(`(://[^\s?"'\\]*\?)[^\s"'\\]+`)
	known    = regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{12,}\b|\bhf_[0-9A-Za-z]{8,}|(?i:bearer|basic)\s+[0-9A-Za-z+/=._-]{8,}`)
	assigned = regexp.MustCompile(`(?i)([\w-]*(?:token|secret|passw|credential|signature|authorization|access_?key|api_?key)[\w-]*["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s,;}"']+)`)
	secret   = regexp.MustCompile(`(?i)token|secret|passw|credential|signature|_key`)

	token   = regexp.MustCompile(`[^\s"'` + "`" + `()\[\]{}<>,;=|\\…]+`)
	number  = regexp.MustCompile(`^[-+~]?[0-9][0-9.,:+TZ-]*(?:%|[nµm]?s|h|m|[kKMGT]?i?B)?(?:[0-9.]+(?:[nµm]?s|m))*(?:/s)?$`)
	letters = regexp.MustCompile(`\pL+`)
	word    = regexp.MustCompile(`[A-Za-z]{2,}`)
)

// plain are words of the system that name nobody's files.
var plain = strings.Fields(`proc sys dev tmp run mnt media data home root etc var usr opt lib bin cache local shm pts cgroup cgroup2
	fuse fuseblk fuse.pipefs fuse.sshfs tmpfs devtmpfs sysfs devpts mqueue debugfs tracefs securityfs overlay squashfs ext2 ext3 ext4 xfs btrfs zfs
	nfs nfs4 cifs lustre ceph gpfs beegfs virtiofs 9p relatime noatime lazytime nodiratime noexec inode64 nr_inodes fd self status
	s3: hf: http: https: tar jpg jpeg png npy bmp`)

// newScrubber makes one that knows the values of secret variables among environments, and the words of a program.
func newScrubber(withPaths bool, program []byte, environments ...string) *scrubber {
	s := &scrubber{words: map[string]bool{}}
	for _, all := range environments {
		for _, v := range strings.FieldsFunc(all, func(r rune) bool { return r == 0 }) {
			if name, value, _ := strings.Cut(v, "="); secret.MatchString(name) && len(value) > 3 {
				s.secrets = append(s.secrets, value)
			}
		}
	}
	slices.SortFunc(s.secrets, func(a, b string) int { return len(b) - len(a) })
	if !withPaths {
		s.salt = []byte(rand.Text())
		for _, w := range word.FindAll(program, -1) {
			s.words[string(bytes.ToLower(w))] = true
		}
		for _, w := range plain {
			s.words[w] = true
		}
	}
	return s
}

// text scrubs a text.
func (s *scrubber) text(t string) string {
	for _, v := range s.secrets {
		t = strings.ReplaceAll(t, v, removed)
	}
	t = userInfo.ReplaceAllString(t, "://"+removed+"@")
	t = query.ReplaceAllString(t, "${1}"+removed)
	t = known.ReplaceAllString(t, removed)
	t = assigned.ReplaceAllString(t, "${1}"+removed)
	if s.salt == nil {
		return t
	}
	return token.ReplaceAllStringFunc(t, s.token)
}

// token hashes what may be a name.
func (s *scrubber) token(t string) string {
	bare := strings.TrimRight(t, ".:!?")
	rest := t[len(bare):]
	switch {
	case slices.Contains(plain, bare):
		return t
	case number.MatchString(bare):
		return t
	case strings.Contains(bare, "/"):
		parts := strings.Split(bare, "/")
		for i, p := range parts {
			parts[i] = s.name(p)
		}
		return strings.Join(parts, "/") + rest
	case path.Ext(bare) != "":
		return s.name(bare) + rest
	}
	for _, w := range letters.FindAllString(bare, -1) {
		if !s.words[strings.ToLower(w)] {
			return s.name(bare) + rest
		}
	}
	return t
}

// name is the hash of a name, with its extension.
func (s *scrubber) name(n string) string {
	if n == "" || n == "." || n == ".." || slices.Contains(plain, n) {
		return n
	}
	mac := hmac.New(sha256.New, s.salt)
	mac.Write([]byte(n))
	ext := path.Ext(n)
	if !s.words[strings.ToLower(strings.TrimPrefix(ext, "."))] {
		ext = ""
	}
	return "~" + hex.EncodeToString(mac.Sum(nil)[:4]) + ext
}

// json scrubs all strings of a value, also those that are keys.
func (s *scrubber) json(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err = e.Encode(s.tree(tree))
	return out.Bytes(), err
}

func (s *scrubber) tree(v any) any {
	switch v := v.(type) {
	case string:
		return s.text(v)
	case []any:
		for i := range v {
			v[i] = s.tree(v[i])
		}
	case map[string]any:
		m := map[string]any{}
		for key, value := range v {
			if text, is := value.(string); is && text != "" && secret.MatchString(key) {
				value = removed
			}
			m[s.text(key)] = s.tree(value)
		}
		return m
	}
	return v
}

// programText is this program, whose words are those of its messages.
func programText() ([]byte, error) { return os.ReadFile("/proc/self/exe") }

// profile scrubs the strings of a profile in the format of pprof that begin as paths, such as that of the program.
func (s *scrubber) profile(zipped []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	const stringTable = 6 // Profile.string_table
	for len(b) > 0 {
		id, kind, n := protowire.ConsumeField(b)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		field := b[:n]
		b = b[n:]
		if id == stringTable && kind == protowire.BytesType {
			text, _ := protowire.ConsumeString(field[protowire.SizeTag(id):])
			if strings.HasPrefix(text, "/") {
				field = protowire.AppendString(protowire.AppendTag(nil, id, kind), s.text(text))
			}
		}
		if _, err := w.Write(field); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return out.Bytes(), err
}
