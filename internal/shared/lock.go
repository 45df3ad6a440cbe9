package shared

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Lock keeps others from starting, joining or taking away what is at a place. The kernel
// releases the lock of a process that ends.
type Lock struct{ file *os.File }

// Lock waits until nobody else has the lock. It calls notice once, if that takes longer
// than a moment.
func (p *Place) Lock(ctx context.Context, notice func()) (*Lock, error) {
	for started := time.Now(); ; {
		lock, err := p.lockOnce()
		if lock != nil || err != nil {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("interrupted while another process mounts the same: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
		if notice != nil && time.Since(started) > 5*time.Second {
			notice()
			notice = nil
		}
	}
}

// TryLock returns nil where somebody else has the lock, or it cannot be had.
func (p *Place) TryLock() *Lock {
	lock, err := p.lockOnce()
	if err != nil {
		return nil
	}
	return lock
}

// lockOnce returns nil where somebody else has the lock. Who releases it removes the file:
// the lock of a file that was removed is worth nothing.
func (p *Place) lockOnce() (*Lock, error) {
	file, err := os.OpenFile(p.lock, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && sameFile(file, p.lock) {
		return &Lock{file}, nil
	}
	file.Close()
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
		return nil, fmt.Errorf("locking %s: %w", p.lock, err)
	}
	return nil, nil
}

func sameFile(file *os.File, path string) bool {
	a, err := file.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}

// Release lets the next one have the lock.
func (l *Lock) Release() {
	_ = os.Remove(l.file.Name())
	l.file.Close()
}
