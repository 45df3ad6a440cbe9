package epoch

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// manyTree is a tree of a hundred directories with so many samples together.
type manyTree int

func (n manyTree) Version() (uint64, error) { return 1, nil }

func (n manyTree) Members(dir string) (members []Member, err error) {
	if dir == "" {
		for class := range 100 {
			members = append(members, Member{Name: fmt.Sprintf("class%03d", class), ID: uint32(class), Dir: true})
		}
		return members, nil
	}
	class, err := strconv.Atoi(dir[5:])
	for i := range int(n) / 100 {
		members = append(members, Member{Name: fmt.Sprintf("%06d.jpg", i), ID: uint32(100 + class*int(n)/100 + i)})
	}
	return members, err
}

func (n manyTree) Path(id uint32) string {
	i := int(id) - 100
	return fmt.Sprintf("class%03d/%06d.jpg", i/(int(n)/100), i%(int(n)/100))
}

func (n manyTree) Listed(_ transcode.Pipeline, path string) (string, error) { return path, nil }

// BenchmarkBegin is what comes before the first batch of an epoch of 300,000 samples, and of one of 1.28 million that
// goes on in its middle. The list is there already: the view is found, and said to be itself, index.json is read,
// and the first samples are looked for.
func BenchmarkBegin(b *testing.B) {
	b.Run("300000", func(b *testing.B) { benchmarkBegin(b, 300_000, 0) })
	b.Run("resumed-1280000", func(b *testing.B) { benchmarkBegin(b, 1_280_000, 640_000) })
}

func benchmarkBegin(b *testing.B, samples, from int) {
	registry := codecs.Default(transcode.Limits{})
	v := New(Options{Registry: registry})
	b.Cleanup(func() { v.Close() })
	v.Use(manyTree(samples))
	pipeline, err := registry.ParseRandom("rrc224-hflip-npy")
	if err != nil {
		b.Fatal(err)
	}
	begin := func(epoch uint64) {
		p := Path{Seed: 7, Epoch: epoch, World: 8, Rank: 3, Batch: 64, From: from, View: "rrc224-hflip-npy"}
		w, err := v.Find(p, pipeline.In(7, epoch))
		if err != nil {
			b.Fatal(err)
		}
		w.Digest()
		for _, name := range []string{IndexName, "000000.labels.npy", "000000.paths.txt"} {
			if _, err := w.File(name); err != nil {
				b.Fatal(err)
			}
		}
	}
	begin(0)
	epoch := uint64(0)
	for b.Loop() {
		epoch++
		begin(epoch)
	}
}
