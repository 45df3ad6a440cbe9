package archive

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
)

const jpegHead, pngHead = "\xff\xd8\xff\xe0", "\x89PNG\r\n\x1a\n"

func message(field protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), b)
}

// feature is an entry of the map of an example: of bytes, or of packed or single integers.
func feature(name string, values ...any) []byte {
	var list []byte
	kind := protowire.Number(1)
	for _, v := range values {
		switch v := v.(type) {
		case string:
			list = append(list, message(1, []byte(v))...)
		case int:
			kind = 3
			list = protowire.AppendVarint(protowire.AppendTag(list, 1, protowire.VarintType), uint64(v))
		case []int:
			kind = 3
			var packed []byte
			for _, n := range v {
				packed = protowire.AppendVarint(packed, uint64(n))
			}
			list = append(list, message(1, packed)...)
		}
	}
	return message(1, append(message(1, []byte(name)), message(2, message(kind, list))...))
}

func record(data string) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, source.RecordCRC(b))
	return binary.LittleEndian.AppendUint32(append(b, data...), source.RecordCRC([]byte(data)))
}

func exampleOf(features ...[]byte) []byte {
	var all []byte
	for _, f := range features {
		all = append(all, f...)
	}
	return record(string(message(1, all)))
}

func join(parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func TestRecords(t *testing.T) {
	one, two := jpegHead+"one", pngHead+"two"
	d, _ := open(t, map[string][]byte{
		"t.tfrecord-00000-of-00002": join(
			exampleOf(feature("image/encoded", one), feature("image/class/label", []int{10}), feature("image/class/text", "a/b, c"), feature("image/filename", "x/n1.JPEG")),
			exampleOf(feature("image/height", 1), feature("image/class/label", 2), feature("image/encoded", two)),
			exampleOf(feature("image/encoded", one), feature("image/class/label", -1)),
			exampleOf(feature("image/encoded", one+"!"), feature("image/class/label", 2), feature("image/class/text", "two"), feature("image/filename", "same.jpg")),
			exampleOf(feature("image/encoded", one+"?"), feature("image/class/label", 2), feature("image/filename", "same.jpg")),
			exampleOf(feature("image/encoded", "words")),
			exampleOf(feature("image/encoded", one, two)),
			exampleOf(feature("image/class/label", 2)),
			record("\xff\xff\xff"),
		),
		"t.tfrecord-00001-of-00002": join(
			exampleOf(feature("label", 2), feature("image", two), feature("file_name", "..")),
			exampleOf(feature("image/encoded", two), feature("image/filename", "n2"), feature("image/class/label", []int{1, 2})),
			exampleOf(feature("image/encoded", one+"#"), feature("image/class/label", 10), feature("image/filename", "n1.JPEG")),
		),
	})
	const a, b = "t-00000-of-00002", "t-00001-of-00002"
	want := map[string]string{
		"0010-a_b, c/": "", "0010-a_b, c/" + a + "-n1.JPEG": one, "0010-a_b, c/" + b + "-n1.JPEG": one + "#",
		"0002-two/": "", "0002-two/" + a + "-000001.png": two, "0002-two/same.jpg": one + "!", "0002-two/" + a + "-000004.jpg": one + "?", "0002-two/" + b + "-000000.png": two,
		"unlabelled/": "", "unlabelled/" + a + "-000002.jpg": one, a + "-000005.bin": "words", "n2.png": two,
	}
	for _, c := range []int{0, 1, 3, 4, 5, 6, 7, 8, 9} {
		want[fmt.Sprintf("%04d/", c)] = ""
	}
	if diff := cmp.Diff(want, read(t, d)); diff != "" {
		t.Error(diff)
	}
	if s := d.Summary(); s.LeftOut != 3 || len(s.Damaged) > 0 || !s.Unlabelled {
		t.Errorf("%d left out, %q", s.LeftOut, s.Damaged)
	}
}

// Files whose names do not say what they hold are known by what is in them.
func TestUnnamedRecords(t *testing.T) {
	one := exampleOf(feature("image/encoded", jpegHead))
	d, dir := open(t, map[string][]byte{"train-00000-of-00002": one, "train-00001-of-00002": one})
	if diff := cmp.Diff(map[string]string{"train-00000-of-00002-000000.jpg": jpegHead, "train-00001-of-00002-000000.jpg": jpegHead}, read(t, d)); diff != "" {
		t.Error(diff)
	}
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "train-00000-of-00002"), []byte("words, and more"), 0o644))
	if _, other, err := In(d.under); err != nil || other != "train-00000-of-00002" {
		t.Errorf("%q, %v", other, err)
	}
}

// Names of classes change how directories sort among files beside them.
func TestRecordNamesSort(t *testing.T) {
	d, _ := open(t, map[string][]byte{"s.tfrecord": join(
		exampleOf(feature("image/encoded", "x"), feature("image/filename", "0001-aa.jpg")),
		exampleOf(feature("image/encoded", "y"), feature("image/filename", "y.jpg"), feature("image/class/label", 1), feature("image/class/text", "zz")),
		exampleOf(feature("image/encoded", "z"), feature("image/filename", "0001.jpg")),
	)})
	if diff := cmp.Diff(map[string]string{"0000/": "", "0001-aa.jpg": "x", "0001-zz/": "", "0001-zz/y.jpg": "y", "0001.jpg": "z"}, read(t, d)); diff != "" {
		t.Error(diff)
	}
}

// A record whose data is damaged is left out; one whose length is damaged ends the file, and that is told.
func TestDamagedRecords(t *testing.T) {
	first := exampleOf(feature("image/encoded", "one"), feature("image/filename", "1.jpg"))
	whole := join(first, exampleOf(feature("image/encoded", "two"), feature("image/filename", "2.jpg")), exampleOf(feature("image/encoded", "three"), feature("image/filename", "3.jpg")))
	tree := map[string]string{"1.jpg": "one", "2.jpg": "two", "3.jpg": "three"}
	damaged := 0
	for at := len(first); at < len(whole); at += 11 {
		for _, cut := range []bool{false, true} {
			data := append([]byte(nil), whole...)
			damaged++
			if data[at] ^= 0x40; cut {
				data = data[:at]
			}
			d, _ := open(t, map[string][]byte{"x.tfrecord": data})
			got := read(t, d)
			for name, content := range got {
				if tree[name] != content {
					t.Errorf("byte %d: %s is %q", at, name, content)
				}
			}
			s := d.Summary()
			told := s.LeftOut == 1 && len(got) == 2 || len(s.Damaged) == 1 && strings.Contains(s.Damaged[0], "at byte ")
			if between := cut && (at == len(first) || len(got) == 2 && !told); !told && !between { // between two records it only looks shorter
				t.Errorf("byte %d, cut %v: %d of 3, %+v", at, cut, len(got), s)
			}
		}
	}
	testenv.Proved(t, "damage", damaged)
	lying := binary.LittleEndian.AppendUint64(nil, 1<<62)
	lying = binary.LittleEndian.AppendUint32(lying, source.RecordCRC(lying))
	d, _ := open(t, map[string][]byte{"x.tfrecord": join(first, lying, make([]byte, 100))})
	if s := d.Summary(); len(read(t, d)) != 1 || len(s.Damaged) != 1 {
		t.Errorf("%+v", s)
	}
}

// FuzzRecord: an image of an example lies in its record, whatever that says.
func FuzzRecord(f *testing.F) {
	f.Add(exampleOf(feature("image/encoded", "x"), feature("image/class/label", []int{1, 2}), feature("image/filename", "a.jpg"))[recordHead:])
	f.Fuzz(func(t *testing.T, data []byte) {
		m := member{}
		data = data[:len(data):len(data)]
		m.read(data, source.RecordCRC(data), recordHead, map[uint64]bool{})
		if m.why == "" && (m.offset < recordHead || m.size < 0 || m.offset+m.size > recordHead+int64(len(data))) {
			t.Errorf("%+v", m)
		}
	})
}
