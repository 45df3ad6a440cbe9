package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is TFRecord's checksum of b: CRC32C, rotated and shifted, so that it may
// itself be checked by a CRC.
func masked(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// appendRecord appends a record: length, checksum of the length, data, checksum of
// the data.
func appendRecord(dst, data []byte) []byte {
	length := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(data)))
	dst = binary.LittleEndian.AppendUint32(dst, masked(dst[length:]))
	dst = append(dst, data...)
	return binary.LittleEndian.AppendUint32(dst, masked(data))
}

// writeTFRecords writes files into TFRecord files of so many records each.
func writeTFRecords(ctx context.Context, dir string, files []string, each int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	shards := (len(files) + each - 1) / each
	return parallel(ctx, shards, func(i int) (err error) {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("train-%05d-of-%05d.tfrecord", i, shards)))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		w := bufio.NewWriterSize(f, 1<<20)
		var record []byte
		for _, name := range files[i*each : min(len(files), (i+1)*each)] {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			record = appendRecord(record[:0], data)
			if _, err := w.Write(record); err != nil {
				return err
			}
		}
		// A store is on the disk when pack ends; so are these.
		return errors.Join(w.Flush(), f.Sync())
	})
}
