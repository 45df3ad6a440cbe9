package mountd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// A store says itself where its dataset is: one of another user must not lead to files of
// whoever mounts it.
func TestNearbyOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test gives files away: run it as root")
	}
	c := setUp(t)
	dir := filepath.Join(t.TempDir(), "st")
	d, err := source.Open(c.Source, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	what := pack.Dataset{Registry: Registry(transcode.Limits{}, nil, nil), Dir: d}
	if _, err := store.Pack(t.Context(), dir, what, what, store.PackOptions{DatasetPath: c.Source}); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(dir, store.Options{})
	testenv.Must(t, err)
	defer s.Close()
	const other, another = 65533, 65534
	for _, test := range []struct {
		store, dataset int // owners
		found          bool
	}{
		{0, 0, true}, {0, other, true}, {other, other, true}, {other, 0, false}, {other, another, false},
	} {
		testenv.Must(t, os.Chown(dir, test.store, -1))
		testenv.Must(t, os.Chown(c.Source, test.dataset, -1))
		near := OpenNearby(s, dir, source.Options{})
		if (near != nil) != test.found {
			t.Errorf("%+v: found is %v", test, near != nil)
		}
		if near != nil {
			near.Close()
		}
	}
}
