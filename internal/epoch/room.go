package epoch

import "time"

// room gives a batch its memory, if need be that of others; it reports whether there is
// some. The caller holds mu.
func (m *maker) room(b *batch) bool {
	if data := m.reuse(b.size); data != nil {
		b.data = data
		return true
	}
	for m.held+b.size > m.o.Budget {
		if len(m.unused) > 0 {
			m.held -= int64(cap(m.unused[0]))
			m.unused = m.unused[1:]
			continue
		}
		victim := m.victim(b.wanted)
		if victim == nil {
			return false
		}
		delete(m.batches, victim.batchKey)
		m.empty(victim)
		if data := m.reuse(b.size); data != nil {
			b.data = data
			return true
		}
	}
	b.data = make([]byte, b.size)
	m.held += b.size
	return true
}

// reuse takes the memory of a batch of the same size that was dropped: touching new memory
// costs about as much as filling it.
func (m *maker) reuse(size int64) []byte {
	for i, data := range m.unused {
		if int64(cap(data)) >= size && int64(cap(data)) < size+size/4 {
			m.unused = append(m.unused[:i:i], m.unused[i+1:]...)
			return data[:size]
		}
	}
	return nil
}

// victim is the batch to be dropped for another one: of those that were read to the end
// the one that was used longest ago, and if there is none, for one that a reader waits for
// any, or else one that nobody came for.
func (m *maker) victim(wanted bool) (found *batch) {
	better := func(a, b *batch) bool {
		if x, y := a.finished(), b.finished(); x != y {
			return x
		}
		return a.used < b.used
	}
	for _, b := range m.batches {
		if b.data == nil || b.pins > 0 || !b.complete() || b.kept() {
			continue
		}
		if (wanted || b.finished() || time.Since(b.ended) > stale) && (found == nil || better(b, found)) {
			found = b
		}
	}
	return found
}

// empty takes the memory of a batch. The caller holds mu.
func (m *maker) empty(b *batch) {
	if b.early && !b.wanted {
		m.stats.wasted.Add(1)
	}
	m.unused = append(m.unused, b.data)
	b.data = nil
}

// giveBack gives all memory back that nobody uses.
func (m *maker) giveBack() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, b := range m.batches {
		if b.data != nil && b.pins == 0 && b.complete() {
			delete(m.batches, key)
			m.empty(b)
		}
	}
	for _, data := range m.unused {
		m.held -= int64(cap(data))
	}
	m.unused = nil
	m.hire() // somebody may wait for room
}
