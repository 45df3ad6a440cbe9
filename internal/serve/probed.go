package serve

import (
	"sync"

	"github.com/pipefs/pipefs/internal/source"
)

// probed are the files that were opened last to read their headers. They stay open for
// the readers who come for the rest: most do so at once, and opening a file costs a
// network file system a request.
type probed struct {
	mu   sync.Mutex
	last [probedFiles]*Handle // a ring
	next int
}

// probedFiles is how many stay open. Each takes a descriptor.
const probedFiles = 32

// add keeps the file of a handle open, and closes the oldest one.
func (p *probed) add(h *Handle, f *source.File) {
	h.probed.Store(f)
	p.mu.Lock()
	oldest := p.last[p.next]
	p.last[p.next] = h
	p.next = (p.next + 1) % probedFiles
	p.mu.Unlock()
	oldest.closeProbed()
}

// clear closes all of them.
func (p *probed) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.last {
		h.closeProbed()
	}
	p.last = [probedFiles]*Handle{}
}

func (h *Handle) closeProbed() {
	if h == nil {
		return
	}
	if f := h.probed.Swap(nil); f != nil {
		f.Close()
	}
}
