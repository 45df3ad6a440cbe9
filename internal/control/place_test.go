package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

func TestChosen(t *testing.T) {
	run := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", run)
	key := ShareKey("a", "b")
	if key != ShareKey("a", "b") || key == ShareKey("ab") {
		t.Errorf("key %s", key)
	}
	p, err := ChosenPlace(key, "image net!")
	testenv.Must(t, err)
	if filepath.Base(p.Dir) != "image-net-"+key+chosenSuffix || !p.chosen {
		t.Errorf("%+v", p)
	}
	if again, err := PlaceAt(key, p.Dir); err != nil || *again != *p {
		t.Errorf("%+v, %v", again, err)
	}
	if long, err := ChosenPlace(key, strings.Repeat("long", 100)); err != nil || len(filepath.Base(long.Dir)) > 80 {
		t.Errorf("%+v, %v", long, err)
	}
	for _, dir := range []string{run, filepath.Join(run, "pipefs", "x"+chosenSuffix)} {
		if p, err := PlaceAt(key, dir); err != nil || p.chosen {
			t.Errorf("%s was chosen, %v", dir, err)
		}
	}
	if _, _, err := p.Hold(t.Context(), 0); !errors.Is(err, ErrNotMounted) {
		t.Errorf("holding nothing: %v", err)
	}
	testenv.Must(t, p.Make())
	p.Leave()
	if left, _ := os.ReadDir(filepath.Dir(p.Dir)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// One at a time has the lock, although the file goes away each time.
func TestLock(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	p, err := ChosenPlace(ShareKey("x"), "x")
	testenv.Must(t, err)
	var n, inside atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				l, err := p.Lock(t.Context(), nil)
				if err != nil {
					t.Error(err)
					return
				}
				n.Add(1)
				if inside.Add(1) != 1 || p.TryLock() != nil {
					t.Error("two have the lock")
				}
				inside.Add(-1)
				l.Release()
			}
		})
	}
	all.Wait()
	if n.Load() != 40 {
		t.Errorf("%d times", n.Load())
	}
	l := p.TryLock()
	defer l.Release()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Lock(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
