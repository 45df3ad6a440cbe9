package jpeg

import "testing"

// BenchmarkProgressive transcodes the photographs one after another. Bytes are
// those of the input.
func BenchmarkProgressive(b *testing.B) {
	var pictures [][]byte
	total := 0
	for _, file := range photographs(b) {
		pictures = append(pictures, read(b, file))
		total += len(pictures[len(pictures)-1])
	}
	b.SetBytes(int64(total / len(pictures)))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := Progressive(pictures[i%len(pictures)], Limits{}); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkDecode is the part of BenchmarkProgressive that reads the file.
func BenchmarkDecode(b *testing.B) {
	var pictures [][]byte
	total := 0
	for _, file := range photographs(b) {
		pictures = append(pictures, read(b, file))
		total += len(pictures[len(pictures)-1])
	}
	b.SetBytes(int64(total / len(pictures)))
	w := new(workspace)
	i := 0
	for b.Loop() {
		if err := w.dec.decode(pictures[i%len(pictures)], Limits{}, &w.c); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkParseHeader(b *testing.B) {
	src := read(b, photographs(b)[0])
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseHeader(src, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRestore makes the photographs again from their scans.
func BenchmarkRestore(b *testing.B) {
	var scans []Scans
	total := 0
	for _, file := range photographs(b) {
		src := read(b, file)
		total += len(src)
		s, err := Transcode(src, Options{Undo: true})
		if err != nil {
			b.Fatal(err)
		}
		scans = append(scans, s)
	}
	b.SetBytes(int64(total / len(scans)))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		s := &scans[i%len(scans)]
		if _, err := Restore(s.Data, s.Undo, Limits{}); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
