package mixer

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// TestCachePolicies compares the policies, as a table.
func TestCachePolicies(t *testing.T) {
	want := map[string][4]float64{ // ratio and deviation, each at least and at most
		LiquidCache + "/random":     {0.28, 0.32, 0, 1.2 * floor},
		LiquidCache + "/sequential": {0.28, 0.32, 0, 0.03},
		MinIOCache + "/random":      {0.28, 0.32, 0, 1.2 * floor},
		MinIOCache + "/sequential":  {0.28, 0.32, 0.4, 0.5}, // all, then none
		LRUCache + "/random":        {0.02, 0.1, 0.03, 0.3},
		LRUCache + "/sequential":    {0, 0, 0, 0},
	}
	for _, policy := range CachePolicies {
		for _, order := range []string{"random", "sequential"} {
			p := patterns[order]
			s := simulate(t, policy, total(equal, train)*3/10, many, equal)
			s.c.SetTotal(p.total)
			ratio, deviation := p.read(s, rand.New(rand.NewPCG(1, 4)))
			t.Logf("%-6s  %-10s  hits %.3f ± %.3f", policy, order, ratio, deviation)
			if w := want[policy+"/"+order]; ratio < w[0] || ratio > w[1] || deviation < w[2] || deviation > w[3] {
				t.Errorf("%s, %s: hits %.3f ± %.3f, want %v", policy, order, ratio, deviation, w)
			}
		}
	}
}

// TestCacheBudgets: none, more than enough, a sample that no budget is enough for,
// and few descriptors.
func TestCacheBudgets(t *testing.T) {
	all := total(equal, train)
	huge := func(key uint64) int64 {
		if key == train[17] {
			return all*3/10 + 1
		}
		return equal(key)
	}
	for _, policy := range CachePolicies {
		for name, c := range map[string]struct {
			bytes       int64
			samples     int
			cost        func(uint64) int64
			least, most float64
		}{
			"nothing":        {0, many, equal, 0, 0},
			"no descriptors": {all, 0, equal, 0, 0},
			"everything":     {all, many, equal, 1, 1},
			"more":           {10 * all, many, equal, 1, 1},
			"descriptors":    {all, 600, equal, 0, 0.32},
			"huge":           {all * 3 / 10, many, huge, 0, 0.32},
			"one sample":     {equal(0), many, equal, 0, 0.01},
		} {
			if policy != LRUCache && name == "descriptors" {
				c.least = 0.28
			}
			if policy != LRUCache && name == "huge" {
				c.least = 0.21 // 0.3 of 1.3, by bytes
			}
			s := simulate(t, policy, c.bytes, c.samples, c.cost)
			s.c.SetTotal(len(train))
			r := rand.New(rand.NewPCG(5, 6))
			ratio, _ := patterns["random"].read(s, r)
			if ratio < c.least || ratio > c.most {
				t.Errorf("%s, %s: hits %.3f", policy, name, ratio)
			}
		}
	}
}

func TestNewCache(t *testing.T) {
	if _, err := NewCache("arc", 1, 1); err == nil || !strings.Contains(err.Error(), "liquid, lru, minio") {
		t.Error(err)
	}
}

// TestCacheSize: what is remembered of a sample that is not kept.
func TestCacheSize(t *testing.T) {
	const n = 1 << 20
	c, err := NewCache(LiquidCache, 1000, 10)
	testenv.Must(t, err)
	for key := range uint64(n) {
		c.Open(key, 1000)
	}
	pages := len(c.(*liquid).epochs.seen.pages)
	if per := float64(pages) * (5*seenLen + 48) / n; per > 16 { // 48: at most, an entry of the map
		t.Errorf("%.1f bytes a sample", per)
	}
}

// BenchmarkCache opens samples in random order; there must be no garbage.
func BenchmarkCache(b *testing.B) {
	keys := sequence(0, 100_000)
	r := rand.New(rand.NewPCG(1, 1))
	order := append(shuffled(r, keys), shuffled(r, keys)...)
	for _, policy := range CachePolicies {
		b.Run(fmt.Sprintf("policy=%s", policy), func(b *testing.B) {
			c, err := NewCache(policy, 30_000, many)
			testenv.Must(b, err)
			c.SetTotal(len(keys))
			for _, k := range order {
				c.Open(k, 1)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				c.Open(order[i%len(order)], 1)
				i++
			}
		})
	}
}

func TestCacheDoesNotAllocate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var order []uint64
	for range 4 {
		order = append(order, shuffled(r, train)...)
	}
	for _, policy := range CachePolicies {
		c, err := NewCache(policy, 600, many)
		testenv.Must(t, err)
		c.SetTotal(len(train))
		pass := func() {
			for _, k := range order {
				c.Open(k, 1)
			}
		}
		pass()
		if allocs := testing.AllocsPerRun(3, pass); allocs > 8 { // of 8,000; the map may move
			t.Errorf("%s: %v allocations in %d opens", policy, allocs, len(order))
		}
	}
}
