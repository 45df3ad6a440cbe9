package mountd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/source"
)

// presence is whether what a mount shows is still there.
type presence struct {
	directory *source.Directory // the dataset, where it is in one; else nil

	mu      sync.Mutex
	missing error
}

// lost says what is not there; it is empty if all is.
func (p *presence) lost() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.missing == nil {
		return ""
	}
	return p.missing.Error()
}

// presenceInterval is how often the dataset and the store are looked at.
const presenceInterval = time.Second

// watchPresence tells of a dataset or store that is deleted, and shows a dataset that is there again.
func (m *Mount) watchPresence() {
	tick := time.NewTicker(presenceInterval)
	defer tick.Stop()
	for {
		select {
		case <-m.refreshes.ctx.Done():
			return
		case <-tick.C:
			m.lookPresent()
		}
	}
}

func (m *Mount) lookPresent() {
	p := &m.presence
	var missing error
	again := false
	if p.directory != nil {
		if again, missing = p.directory.Reopen(); missing != nil {
			missing = fmt.Errorf("the dataset %w: make it again, or unmount", missing)
		}
	}
	if m.packed != "" && !remote.Is(m.packed) {
		if _, err := os.Stat(m.packed); errors.Is(err, fs.ErrNotExist) {
			missing = errors.Join(missing, fmt.Errorf("the store %s was deleted: unmount, and mount another one", m.packed))
		}
	}
	p.mu.Lock()
	before := p.missing
	p.missing = missing
	p.mu.Unlock()
	switch {
	case missing != nil && before == nil:
		m.log.Error("what the mount shows is gone", "mount", m.config.Dir, "cause", missing)
	case missing == nil && (again || before != nil):
		m.log.Warn("what the mount shows was deleted, and is there again", "mount", m.config.Dir)
	}
	if again {
		if err := m.fs.RescanRoot(m.refreshes.ctx); err != nil {
			m.log.Warn("looking for what is newer", "cause", err)
		}
	}
}
