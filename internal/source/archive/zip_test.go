package archive

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/testenv"
)

// Damaged deflated members are errors, each for itself.
func TestDamagedZip(t *testing.T) {
	data := writeZip(t, zip.Deflate, pair{"a", strings.Repeat("a", 5000)}, pair{"b", strings.Repeat("b", 5000)})
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	testenv.Must(t, err)
	at, err := r.File[0].DataOffset()
	testenv.Must(t, err)
	data[at+3] ^= 0xff
	d, _ := open(t, map[string][]byte{"x.zip": data})
	got := read(t, d)
	if !strings.Contains(got["a"], "error: ") || !strings.Contains(got["a"], "damaged") || got["b"] != strings.Repeat("b", 5000) {
		t.Errorf("%.100q %.20q", got["a"], got["b"])
	}
}

// A member whose local header is damaged is an error, and no other member is: those are looked at by who reads.
func TestDamagedHeader(t *testing.T) {
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		var members []pair
		for i := range 4 {
			members = append(members, pair{strconv.Itoa(i), strings.Repeat(strconv.Itoa(i), 5000)})
		}
		data := writeZip(t, method, members...)
		at := 0
		for i := range members {
			switch i {
			case 1:
				data[at] = 'X'
			case 2: // extra fields that reach behind the end
				data[at+28], data[at+29] = 0xff, 0xff
			}
			at += 4 + bytes.Index(data[at+4:], []byte(zipSignature))
		}
		d, log := openLog(t, "x.zip", data)
		got := read(t, d)
		for i, m := range members {
			want := m.data
			if i == 1 || i == 2 {
				want = "error: " + filepath.Join(d.Root(), "x.zip") + ":" + m.name + ": the member is damaged: its local header is wrong"
			}
			if got[m.name] != want {
				t.Errorf("method %d, member %s: %.200q; %s", method, m.name, got[m.name], log)
			}
		}
	}
}

// What the directory of a zip says of a member may be wrong: that member is left out and named, and the others are shown.
func TestUnfitZip(t *testing.T) {
	const method, packed, size, offset = 10, 20, 24, 42 // in an entry of the directory
	bad := []struct {
		at  map[int]uint16 // what is written where
		why string
	}{
		{map[int]uint16{8: encrypted}, "it is encrypted"},
		{map[int]uint16{method: 12}, "it is compressed by method 12"},
		{map[int]uint16{packed: 4}, "its sizes cannot be right"},
		{map[int]uint16{method: zip.Deflate, size: 60_000}, "its sizes cannot be right"}, // a bomb
		{map[int]uint16{method: zip.Deflate, size + 2: 300 << 4}, "deflated members of more than"},
		{map[int]uint16{offset: 0}, "it lies over another member"},
		{map[int]uint16{offset + 2: 99}, "its header is damaged"},
		{nil, "it reaches beyond the archive"},
	}
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := range bad {
		f, err := w.CreateHeader(&zip.FileHeader{Name: strconv.Itoa(i)})
		testenv.Must(t, err)
		_, err = io.WriteString(f, "x")
		testenv.Must(t, err)
	}
	_, err := w.CreateRaw(&zip.FileHeader{Name: "large", UncompressedSize64: 5 << 30, CompressedSize64: 5 << 30}) // which zip64 says
	testenv.Must(t, err)
	testenv.Must(t, w.Close())
	data := b.Bytes()
	at := bytes.Index(data, []byte("PK\x01\x02"))
	for _, c := range bad {
		at += 4 + bytes.Index(data[at+4:], []byte("PK\x01\x02"))
		for k, v := range c.at {
			binary.LittleEndian.PutUint16(data[at+k:], v)
		}
	}
	d, log := openLog(t, "x.zip", data)
	if diff := cmp.Diff(map[string]string{"0": "x"}, read(t, d)); diff != "" {
		t.Error(diff)
	}
	for i, c := range bad {
		name := strconv.Itoa(i + 1)
		if c.at == nil {
			name = "large"
		}
		if !slices.ContainsFunc(strings.Split(log, "\n"), func(line string) bool { return strings.Contains(line, `\"`+name+`\"`) && strings.Contains(line, c.why) }) {
			t.Errorf("%s: not %q in %s", name, c.why, log)
		}
	}
}

func TestLinksOfZip(t *testing.T) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range []pair{{"d/a", "data"}, {"@d/soft", "a"}, {"@up", "../a"}, {"@none", "x"}, {"@long", strings.Repeat("x", maxPath+1)}} {
		h := &zip.FileHeader{Name: strings.TrimPrefix(m.name, "@"), Method: zip.Deflate}
		if h.Name != m.name {
			h.SetMode(0o777 | fs.ModeSymlink)
		}
		f, err := w.CreateHeader(h)
		testenv.Must(t, err)
		_, err = f.Write([]byte(m.data))
		testenv.Must(t, err)
	}
	testenv.Must(t, w.Close())
	d, log := openLog(t, "x.zip", b.Bytes())
	if diff := cmp.Diff(map[string]string{"d/": "", "d/a": "data", "d/soft": "data"}, read(t, d)); diff != "" || d.Summary().LeftOut != 3 {
		t.Errorf("%s\n%s", diff, log)
	}
}
