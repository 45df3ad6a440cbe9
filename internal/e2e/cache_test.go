package e2e

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// cachedSet is a packed dataset of which 30 % fit the cache.
type cachedSet struct {
	t      *testing.T
	env    []string
	mnt    string
	want   map[string][]byte // by path in the mount
	names  []string          // of train, sorted
	others []string          // of val
	bytes  int64             // of train
	budget int64
}

func mountCached(t *testing.T, policy string) *cachedSet {
	t.Helper()
	dataset := testmount.Generate(t, "-samples", "60", "-copies", "5", "-width", "240", "-height", "180", "-png-every", "0")
	s := &cachedSet{t: t, env: testmount.Home(t), want: map[string][]byte{}}
	store := filepath.Join(t.TempDir(), "store")
	testmount.Command(t, s.env, "pack", "--originals", "keep", dataset, store)
	all := samplesOf(t, dataset)
	s.names, s.others = all[:290], all[290:]
	var pages int64
	for i, name := range all {
		data, err := os.ReadFile(filepath.Join(dataset, name))
		testenv.Must(t, err)
		if i < len(s.names) {
			s.bytes += int64(len(data))
			pages += (int64(len(data)) + 4095) / 4096 * 4096
		}
		s.want[name] = data
	}
	s.budget = pages * 3 / 10
	s.mnt = testmount.Mount(t, s.env, store, "--cache", cmp.Or(map[string]string{"lru": "daemon"}[policy], policy), "--no-background",
		"--cache-bytes", fmt.Sprintf("%dB", s.budget), "--direct")
	return s
}

// read reads files whole and compares them.
func (s *cachedSet) read(names []string) {
	for _, name := range names {
		got, err := os.ReadFile(filepath.Join(s.mnt, "original", name))
		if err != nil || !bytes.Equal(got, s.want[name]) {
			s.t.Errorf("%s: %d bytes, %v", name, len(got), err)
			return
		}
	}
}

func (s *cachedSet) epoch(r *rand.Rand) {
	names := slices.Clone(s.names)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	s.read(names)
}

// counters are those of the cache.
func (s *cachedSet) counters() (values map[string]int64, texts map[string]string) {
	values, texts = counters(s.t, s.mnt, "cache", "serve")
	if held := values["memory"]; held > s.budget {
		s.t.Errorf("%d bytes in memory, %d are promised", held, s.budget)
	}
	return values, texts
}

// TestCachePolicies reads shuffled epochs through a cache of 30 % of a store: what is read is right, what is kept fits, and each
// policy does what it is chosen for.
func TestCachePolicies(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]struct{ least, most float64 }{"liquid": {0.2, 0.4}, "minio": {0.2, 0.33}, "lru": {0, 0.15}} {
		t.Run(policy, func(t *testing.T) {
			s := mountCached(t, policy)
			r := rand.New(rand.NewPCG(1, 2))
			s.epoch(r)
			before, _ := s.counters()
			for range 2 {
				s.epoch(r)
			}
			after, texts := s.counters()
			hits := float64(after["hits"]-before["hits"]) / float64(2*len(s.names))
			if hits < want.least || hits > want.most || texts["policy"] != policy {
				t.Errorf("%.3f hits, %v", hits, texts)
			}
			// A look at the validation set. A file that stays open, as while a child process of its reader is made, is read as well.
			kept, err := os.Open(filepath.Join(s.mnt, "original", s.others[0]))
			testenv.Must(t, err)
			defer kept.Close()
			s.read(s.others)
			if policy == "lru" {
				s.read(s.others) // what was read last is read again
				last, _ := s.counters()
				if n := last["hits"] - after["hits"]; n < int64(len(s.others)) {
					t.Errorf("%d hits of %d", n, len(s.others))
				}
			}
			if policy != "liquid" {
				return
			}
			before, _ = s.counters()
			s.epoch(r)
			after, texts = s.counters()
			if fetched := float64(after["fetched"]-before["fetched"]) / float64(s.bytes); fetched > 0.75 || after["epoch"] < 4 || texts["epochs recognized"] != "yes" {
				t.Errorf("after the validation: %.3f of the bytes fetched, %v %v", fetched, after, texts)
			}
			var readers sync.WaitGroup // two loaders at once
			for seed := range uint64(2) {
				readers.Go(func() {
					r := rand.New(rand.NewPCG(seed, 5))
					for range 2 {
						s.epoch(r)
					}
				})
			}
			readers.Wait()
			if _, texts = s.counters(); texts["epochs recognized"] != "yes" {
				t.Error(texts)
			}
			if table := testmount.Command(t, s.env, "stats", s.mnt); !strings.Contains(table, "kept for the next epoch") {
				t.Error(table)
			}
		})
	}
}
