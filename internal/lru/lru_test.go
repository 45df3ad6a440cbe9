package lru

import (
	"slices"
	"testing"
)

func TestLRU(t *testing.T) {
	l := New[string, int](10, 3)
	put := func(key string, value int, cost int64, want ...int) {
		t.Helper()
		if dropped := l.Put(key, value, cost); !slices.Equal(dropped, want) {
			t.Errorf("put %s dropped %v, want %v", key, dropped, want)
		}
	}
	put("a", 1, 4)
	put("b", 2, 4)
	l.Get("a")
	put("c", 3, 4, 2)        // over the cost: b was used the longest time ago
	put("a", 4, 1, 1)        // replaced
	put("d", 5, 1)           // cost 6, three entries
	put("e", 6, 1, 3)        // over the entries
	put("f", 7, 50, 4, 5, 6) // alone over the budget: it stays, all others go
	if v, ok := l.Get("f"); !ok || v != 7 {
		t.Errorf("the newest is gone: %v %v", v, ok)
	}
	if _, ok := l.Remove("nothing"); ok {
		t.Error("removed what was not there")
	}
	if dropped := l.Clear(); !slices.Equal(dropped, []int{7}) || l.cost != 0 {
		t.Errorf("cleared %v, cost %d", dropped, l.cost)
	}
	put("g", 8, 1)
}
