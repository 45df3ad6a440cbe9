// Package lru holds a map that forgets what was used the longest time ago.
package lru

import (
	"maps"
	"slices"
)

// Map is a map that forgets what was used the longest time ago when a budget of
// cost or of entries is spent. It is not safe for concurrent use.
type Map[K comparable, V any] struct {
	byKey      map[K]*slot[K, V]
	ring       slot[K, V] // sentinel: next is the newest, prev the oldest
	cost       int64
	maxCost    int64
	maxEntries int
}

type slot[K comparable, V any] struct {
	key        K
	value      V
	cost       int64
	prev, next *slot[K, V]
}

// New returns an empty map that keeps values of at most maxCost together, and at most
// maxEntries of them.
func New[K comparable, V any](maxCost int64, maxEntries int) *Map[K, V] {
	l := &Map[K, V]{byKey: map[K]*slot[K, V]{}, maxCost: maxCost, maxEntries: maxEntries}
	l.ring.prev, l.ring.next = &l.ring, &l.ring
	return l
}

// Get finds a value and makes it the newest.
func (l *Map[K, V]) Get(key K) (value V, ok bool) {
	s := l.byKey[key]
	if s == nil {
		return value, false
	}
	s.unlink()
	l.link(s)
	return s.value, true
}

// Put adds a value, replacing one of the same key, and returns what had to go.
// The newest stays even where it alone is over the budget: it was put in to be
// read next.
func (l *Map[K, V]) Put(key K, value V, cost int64) (dropped []V) {
	if old, ok := l.Remove(key); ok {
		dropped = append(dropped, old)
	}
	s := &slot[K, V]{key: key, value: value, cost: cost}
	l.byKey[key] = s
	l.link(s)
	l.cost += cost
	for len(l.byKey) > 1 && (l.cost > l.maxCost || len(l.byKey) > l.maxEntries) {
		oldest := l.ring.prev
		dropped = append(dropped, oldest.value)
		l.Remove(oldest.key)
	}
	return dropped
}

// Len is the number of values.
func (l *Map[K, V]) Len() int { return len(l.byKey) }

// Keys returns the keys, in no order.
func (l *Map[K, V]) Keys() []K { return slices.Collect(maps.Keys(l.byKey)) }

// Remove forgets one key.
func (l *Map[K, V]) Remove(key K) (value V, ok bool) {
	s := l.byKey[key]
	if s == nil {
		return value, false
	}
	s.unlink()
	delete(l.byKey, key)
	l.cost -= s.cost
	return s.value, true
}

// Clear forgets everything.
func (l *Map[K, V]) Clear() (dropped []V) {
	for s := l.ring.prev; s != &l.ring; s = s.prev {
		dropped = append(dropped, s.value)
	}
	clear(l.byKey)
	l.ring.prev, l.ring.next = &l.ring, &l.ring
	l.cost = 0
	return dropped
}

func (s *slot[K, V]) unlink() { s.prev.next, s.next.prev = s.next, s.prev }

func (l *Map[K, V]) link(s *slot[K, V]) {
	s.prev, s.next = &l.ring, l.ring.next
	s.prev.next, s.next.prev = s, s
}
