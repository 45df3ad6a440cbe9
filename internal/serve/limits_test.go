package serve

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// TestLowerLimitsThanThePackers reads a store with limits that its files are over:
// what has to be decoded fails, once and for good, and what lies there is shown.
func TestLowerLimitsThanThePackers(t *testing.T) {
	root, dir := writeDataset(t), t.TempDir()+"/store"
	packWith(t, registry, root, dir, pack.Rebuild)
	s := openStore(t, dir)
	low := codecs.Default(transcode.Limits{MaxScans: 3})
	server, err := New(Options{Registry: low, Source: StoreTree(s), Store: s})
	testenv.Must(t, err)
	t.Cleanup(func() { server.Close() })
	p := fixture{server, "", &sync.Map{}}
	f := p.file(t, "a.jpg")
	for i, c := range []struct {
		view string
		want error
	}{{"scan5", nil}, {"scan5-bmp", transcode.ErrUnsupported}, {"scan5-png", transcode.ErrUnsupported}, {"scan5", nil}} {
		v, err := low.Parse(c.view)
		testenv.Must(t, err)
		content, err := p.Open(t.Context(), Key(i), f, v)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.view, err, c.want)
		}
		if err == nil {
			content.Release()
		}
		if _, err := p.Resolve(t.Context(), 0, f, v); c.view != "scan5-bmp" && !errors.Is(err, c.want) {
			t.Errorf("size of %s: %v, want %v", c.view, err, c.want)
		}
	}
}

// TestContentBytes wants memory that is not copied to be what reading gives.
func TestContentBytes(t *testing.T) {
	c := &Content{size: 7, reader: memory{data: []byte("abcde"), tail: []byte("fg")}}
	for off := int64(-1); off < 9; off++ {
		for n := range 9 {
			got := c.Bytes(off, n)
			if got == nil {
				// It may be asked to be read: before, behind, and across the pieces.
				if off >= 0 && off < 5 && off+int64(n) <= 5 {
					t.Errorf("%d bytes at %d are not given", n, off)
				}
				continue
			}
			want := make([]byte, n)
			m, _ := c.ReadAt(want, off)
			if !bytes.Equal(got, want[:m]) {
				t.Errorf("%d bytes at %d: %q, want %q", n, off, got, want[:m])
			}
		}
	}
}
