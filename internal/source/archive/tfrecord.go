package archive

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/source/names"
)

const (
	// maxRecord is the longest record of a TFRecord file that is read, in bytes: it is checked whole.
	maxRecord = 256 << 20
	// recordHead and recordTail are the bytes before and behind the data of a record.
	recordHead, recordTail = 12, 4
)

// scanRecords calls emit with the images of the records of a TFRecord file, which are tf.Examples. name is the name of the
// file without its directory and extension. The checksum of all data is checked. Where that of a length is wrong, it
// is not known where the next record begins: what comes behind is lost, and the error says where that is.
func scanRecords(shard int, r io.ReaderAt, size int64, name string, emit func(member) error) error {
	in := bufio.NewReaderSize(io.NewSectionReader(r, 0, size), 1<<20)
	var head [recordHead]byte
	var data []byte
	used := map[uint64]bool{}
	for at, n := int64(0), 0; at < size; n++ {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return fmt.Errorf("at byte %d: the file ends within a record", at)
		}
		length := int64(binary.LittleEndian.Uint64(head[:]))
		if !source.IsTFRecord(string(head[:])) {
			return fmt.Errorf("at byte %d: the checksum of the length of a record is wrong", at)
		}
		if length < 0 || length > size-at-recordHead-recordTail {
			return fmt.Errorf("at byte %d: the file ends within a record", at)
		}
		m := member{path: fmt.Sprintf("%s-%06d", name, n), at: at, entry: entry{shard: shard}}
		if length > maxRecord {
			m.why = fmt.Sprintf("the record has %d bytes, and records of more than %d are not read", length, int64(maxRecord))
			if _, err := in.Discard(int(length + recordTail)); err != nil {
				return err
			}
		} else {
			if need := int(length + recordTail); cap(data) < need {
				data = make([]byte, need)
			}
			data = data[:length+recordTail]
			if _, err := io.ReadFull(in, data); err != nil {
				return err
			}
			m.read(data[:length:length], binary.LittleEndian.Uint32(data[length:]), at+recordHead, used)
		}
		if err := emit(m); err != nil {
			return err
		}
		at += recordHead + length + recordTail
	}
	return nil
}

// read makes a member of the data of a record that begins at a byte of the file. used are hashes of the names before it.
func (m *member) read(data []byte, crc uint32, at int64, used map[uint64]bool) {
	if source.RecordCRC(data) != crc {
		m.why = "the checksum of the record is wrong"
		return
	}
	x, err := readExample(data)
	image, err2 := x.one(imageKeys)
	if err = errors.Join(err, err2); err != nil {
		m.why = fmt.Sprintf("the record cannot be used: %v", err)
		return
	}
	m.offset, m.size = at+int64(cap(data)-cap(image)), int64(len(image)) // image is a part of data
	m.packed = m.size
	if label, is := x.number(labelKeys); is {
		m.class = strconv.FormatInt(label, 10)
	}
	if text, err := x.one(textKeys); err == nil {
		m.text = string(text)
	}
	ext := sniff(image)
	m.path += ext
	if given, err := x.one(fileKeys); err == nil {
		file := path.Base(string(given))
		if path.Ext(file) == "" {
			file += ext
		}
		if h := hash(file); names.Unfit(file) == "" && !used[h] { // a second record of a name goes by its number
			used[h] = true
			m.path = file
		}
	}
}

// The names of features, in the order in which they are looked for: those of Slim and of the Object Detection API of TensorFlow, then those of
// TensorFlow Datasets.
var (
	imageKeys = []string{"image/encoded", "image"}
	labelKeys = []string{"image/class/label", "label"}
	textKeys  = []string{"image/class/text"}
	fileKeys  = []string{"image/filename", "file_name"}
	wanted    = slices.Concat(imageKeys, labelKeys, textKeys, fileKeys)
)

// example is a tf.Example: those of its serialized features that are wanted, by name.
type example map[string][]byte

// each calls visit with the fields of a protobuf message that have bytes or an integer.
func each(b []byte, visit func(field protowire.Number, data []byte, value uint64) error) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var data []byte
		var value uint64
		switch kind {
		case protowire.BytesType:
			data, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(b)
		default:
			field, n = 0, protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := visit(field, data, value); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// inside calls visit with what a field of messages holds.
func inside(field protowire.Number, visit func(data []byte) error) func(protowire.Number, []byte, uint64) error {
	return func(f protowire.Number, data []byte, _ uint64) error {
		if f != field || data == nil {
			return nil
		}
		return visit(data)
	}
}

// readExample parses a record: Example{Features features = 1}, Features{map<string, Feature> feature = 1}.
func readExample(b []byte) (example, error) {
	x := example{}
	err := each(b, inside(1, func(features []byte) error {
		return each(features, inside(1, func(pair []byte) error {
			var name, feature []byte
			err := each(pair, func(field protowire.Number, data []byte, _ uint64) error {
				switch field {
				case 1:
					name = data
				case 2:
					feature = data
				}
				return nil
			})
			if err == nil && slices.Contains(wanted, string(name)) {
				x[string(name)] = feature
			}
			return err
		}))
	}))
	if err != nil {
		return x, fmt.Errorf("it is no tf.Example: %w", err)
	}
	return x, nil
}

func (x example) find(keys []string) ([]byte, bool) {
	for _, key := range keys {
		if feature, is := x[key]; is {
			return feature, true
		}
	}
	return nil, false
}

// one returns the only value of a feature: Feature{BytesList bytes_list = 1}, BytesList{repeated bytes value = 1}.
func (x example) one(keys []string) (value []byte, err error) {
	feature, is := x.find(keys)
	if !is {
		return nil, fmt.Errorf("it has no feature %s", keys[0])
	}
	n := 0
	err = each(feature, inside(1, func(list []byte) error {
		return each(list, inside(1, func(b []byte) error {
			n++
			value = b
			return nil
		}))
	}))
	if err == nil && n != 1 {
		err = fmt.Errorf("its feature %s has %d values, not one of bytes", keys[0], n)
	}
	return value, err
}

// number returns the only value of a feature: Feature{Int64List int64_list = 3}, Int64List{repeated int64 value = 1}, packed or
// not.
func (x example) number(keys []string) (value int64, is bool) {
	feature, _ := x.find(keys)
	n := 0
	err := each(feature, inside(3, func(list []byte) error {
		return each(list, func(field protowire.Number, packed []byte, v uint64) error {
			if field == 1 && packed == nil {
				n, value = n+1, int64(v)
			}
			for field == 1 && len(packed) > 0 {
				v, k := protowire.ConsumeVarint(packed)
				if k < 0 {
					return protowire.ParseError(k)
				}
				n, value, packed = n+1, int64(v), packed[k:]
			}
			return nil
		})
	}))
	return value, err == nil && n == 1
}
