package serve

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/mixer"
	"github.com/pipefs/pipefs/transcode"
)

// contentOf reads all of a file of a view.
func contentOf(t testing.TB, c *Content, err error) []byte {
	t.Helper()
	testenv.Must(t, err)
	defer c.Release()
	got := make([]byte, c.Size())
	if _, err := c.ReadAt(got, 0); err != nil {
		t.Error(err)
	}
	return got
}

// What is loaded ahead of its readers is what they would have got, of every view, in memory and
// in memfds; and each read of it is of the one that was loaded.
func TestLoadAhead(t *testing.T) {
	root := writeDataset(t)
	plain := newFixture(t, root, nil)
	for _, memfd := range []bool{false, true} {
		f := newFixture(t, root, func(o *Options) { o.Memfd = memfd })
		f.Unhinted()
		key := Key(2 << 32)
		for _, spec := range views {
			for _, name := range []string{"a.jpg", "b.jpg", "c.png", "labels.json"} {
				key++
				v := view(t, spec)
				file := f.file(t, name)
				want, err := plain.Open(t.Context(), key, file, v)
				bytesWanted := contentOf(t, want, err)
				read, original := 0, key+1<<40
				target := Target{Key: key, Original: original, File: file, View: v, Since: time.Now()}
				a, size, err := f.LoadAhead(t.Context(), target, 1<<30, func(bool) { read++ })
				testenv.Must(t, err)
				if size != int64(len(bytesWanted)) || a == nil {
					t.Errorf("%s in %s: %d bytes, want %d", name, spec, size, len(bytesWanted))
				}
				if _, _, err := f.LoadAhead(t.Context(), target, 1<<30, nil); !errors.Is(err, ErrAlready) {
					t.Errorf("again: %v", err)
				}
				h, err := f.Server.Resolve(t.Context(), key, file, v, Sized)
				testenv.Must(t, err)
				if h.Unchanged() {
					h, err = f.Server.Resolve(t.Context(), original, file, transcode.Pipeline{}, Sized)
					testenv.Must(t, err)
				}
				fetched, opened := f.Stats().FetchedBytes, f.Stats().Opened
				var all sync.WaitGroup
				for range 4 {
					all.Go(func() {
						c, err := h.Open(context.Background())
						if got := contentOf(t, c, err); !bytes.Equal(got, bytesWanted) {
							t.Errorf("%s in %s has other bytes", name, spec)
						}
					})
				}
				all.Wait()
				if s := f.Stats(); read != 1 || s.FetchedBytes != fetched || s.Opened != opened+1 || len(f.aheads.byKey) > 0 {
					t.Errorf("%s in %s: read %d times, %d bytes fetched, opened %d times, %d stay loaded", name, spec, read, s.FetchedBytes-fetched, s.Opened-opened, len(f.aheads.byKey))
				}
				a.Forget() // too late
				// It was opened meanwhile.
				target.Since = time.Now().Add(-time.Hour)
				if _, _, err := f.LoadAhead(t.Context(), target, 1<<30, nil); !errors.Is(err, ErrAlready) {
					t.Errorf("it was opened: %v", err)
				}
			}
		}
	}
}

// What nobody reads is forgotten, and what cannot be loaded is told to who reads it.
func TestForgetAhead(t *testing.T) {
	f := newFixture(t, writeDataset(t), nil)
	target := Target{Key: 1 << 32, Original: 2 << 32, File: f.file(t, "a.jpg"), View: view(t, "npy")}
	a, _, err := f.LoadAhead(t.Context(), target, 1<<30, nil)
	testenv.Must(t, err)
	a.Forget()
	a.Forget()
	f.Unhinted()
	target.View = view(t, "png") // whose size is not known before
	if _, _, err := f.LoadAhead(t.Context(), target, 100, nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
	target.File.Identity.Size++
	if _, _, err := f.LoadAhead(t.Context(), target, 1<<30, nil); err == nil {
		t.Error("the file is another one")
	}
	c, err := f.Open(t.Context(), 1<<32, f.file(t, "a.jpg"), view(t, "npy"))
	contentOf(t, c, err)
	if n := f.Unhinted(); n != 1 {
		t.Errorf("%d files were opened that nobody announced", n)
	}
}

// A panic is an error of the file, and nobody waits for it for ever.
func TestAheadPanics(t *testing.T) {
	f := newFixture(t, writeDataset(t), func(o *Options) { o.Policy = panicking{} })
	target := Target{Key: 1 << 32, Original: 2 << 32, File: f.file(t, "a.jpg"), View: view(t, "npy")}
	if _, _, err := f.LoadAhead(t.Context(), target, 1<<30, nil); err == nil || f.Stats().Panics != 1 {
		t.Errorf("%v, %d panics", err, f.Stats().Panics)
	}
}

// panicking is a policy that has a bug.
type panicking struct{ mixer.Longest }

func (panicking) Choose(mixer.Request) int { panic("a bug") }
