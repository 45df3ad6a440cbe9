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

	"github.com/pipefs/pipefs/bench/loader"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the checksum of b as TFRecord has it: CRC32C, rotated, plus a constant, so
// that a checksum of data with checksums is not degenerate.
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
	return loader.Each(ctx, 0, shards, func(_ context.Context, _, i int) error {
		name := filepath.Join(dir, fmt.Sprintf("train-%05d-of-%05d.tfrecord", i, shards))
		return createRecords(name, func(add func(data []byte) error) error {
			for _, file := range files[i*each : min(len(files), (i+1)*each)] {
				data, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				if err := add(data); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// createRecords writes a TFRecord file. Like a store when pack ends, it is on the disk
// when this returns.
func createRecords(name string, write func(add func(data []byte) error) error) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	var record []byte
	if err := write(func(data []byte) error {
		record = appendRecord(record[:0], data)
		_, err := w.Write(record)
		return err
	}); err != nil {
		return err
	}
	return errors.Join(w.Flush(), f.Sync())
}
