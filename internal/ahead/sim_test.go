package ahead

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// simDisk takes its time.
type simDisk struct{ s *testenv.Sim }

func (simDisk) Begin() time.Time      { return time.Now() }
func (d simDisk) Done(time.Time, int) { d.s.Sleep(3) }

// TestSimulation: senders that announce files of many sizes, readers who read them, others, or none, and go away, and a
// mount that ends. Whoever gets bytes gets the right ones, what is loaded is within the budget, and all goes in the end.
func TestSimulation(t *testing.T) {
	root, registry := t.TempDir(), codecs.Default(transcode.Limits{})
	var names []string
	for i := range 24 {
		names = append(names, fmt.Sprintf("%04d.jpg", i))
		testenv.Must(t, os.WriteFile(filepath.Join(root, names[i]), bytes.Repeat([]byte{byte(i), 1}, []int{200, 1000, 6000}[i%3]), 0o644))
	}
	const budget = 20_000
	testenv.Simulate(t, 60, func(s *testenv.Sim) {
		d, err := source.Open(root, source.Options{Limit: simDisk{s}})
		testenv.Must(s.T, err)
		defer d.Close()
		server, err := serve.New(serve.Options{Registry: registry, Source: d, Dataset: d, Workers: 2, CacheBytes: 30_000})
		testenv.Must(s.T, err)
		q := New(Options{Server: server, Budget: budget})
		f := &fixture{T: s.T, root: root, names: names, server: server, queue: q}
		q.Use(f)
		if s.OneIn(2) {
			q.typical = 1000 // as after many small files
		}
		closes := s.OneIn(4)
		for reader := range 3 {
			s.Go(func() {
				for range 3 {
					at := s.IntN(len(names))
					batch := append(append([]string{"none.jpg"}, names[at:]...), names[:at]...)[:2+s.IntN(12)]
					rest := []byte(strings.Join(batch, "\x00") + "\x00")
					if err := q.Take(message(header{V: Version, Stream: fmt.Sprint(reader), Replace: s.OneIn(2)}, rest)); err != nil && !(closes && errors.Is(err, context.Canceled)) {
						s.Error(err)
					}
					for _, name := range batch[1:] {
						s.Sleep(2)
						if s.OneIn(4) {
							name = names[s.IntN(len(names))]
						}
						f.read(name)
						if n := q.Stats().Bytes; n > budget {
							s.Errorf("%d bytes are loaded, more than the budget of %d", n, budget)
						}
						if s.OneIn(8) {
							break
						}
					}
				}
			})
		}
		if closes {
			s.Go(func() { s.Sleep(10); q.Close() })
		}
		s.Wait()
		time.Sleep(2 * silent)
		if x := q.Stats(); x.Bytes != 0 || x.Streams != 0 || q.unread != 0 || q.loading != 0 || q.waiting != 0 {
			s.Errorf("nobody reads: %d files, %d being loaded, %d bytes of hints, %+v", q.unread, q.loading, q.waiting, x)
		}
		q.Close()
		server.Close()
	})
}
