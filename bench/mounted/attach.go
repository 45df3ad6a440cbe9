package mounted

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// Attach uses an existing mount. Close does not unmount it.
func Attach(ctx context.Context, program, dir string) (_ *Mount, err error) {
	m := &Mount{Dir: dir, program: program, process: -1, attached: true}
	stats, err := m.Stats(ctx)
	if err != nil {
		return nil, err
	}
	m.PID, m.source, m.log = stats.PID, stats.Source, stats.Log
	if m.process, err = unix.PidfdOpen(m.PID, 0); err != nil {
		return nil, fmt.Errorf("the daemon of %s, process %d: %w", dir, m.PID, err)
	}
	m.inodes, _ = slab("fuse_inode")
	return m, nil
}
