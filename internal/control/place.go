package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mounts"
)

// untilGone is how long a daemon that ends may take: it serves open files for a while, and
// writes out what it keeps.
const untilGone = 30 * time.Second

// untilClear is how long a mount whose daemon does not answer may take to be gone, dead, or
// there again.
const untilClear = 3 * time.Second

// chosenSuffix is that of the directories that are chosen.
const chosenSuffix = ".mnt"

// ShareKey names what is mounted, as seen from this mount namespace: 16 hexadecimal digits.
func ShareKey(what ...string) string {
	space, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		space = ""
	}
	sum := sha256.New()
	for _, s := range append(what, space) {
		fmt.Fprintf(sum, "%d %s\n", len(s), s)
	}
	return hex.EncodeToString(sum.Sum(nil)[:shareKeyBytes])
}

const shareKeyBytes = 8

// Place is where a shared mount lies.
type Place struct {
	Dir    string // a resolved path
	Key    string
	lock   string // path of the file that is locked
	socket string // of the daemon
	chosen bool   // the directory is ours to make and to remove
}

// ChosenPlace is the place that is chosen for a key. The name makes the path readable.
func ChosenPlace(key, name string) (*Place, error) {
	name = strings.Trim(strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, name), "-")
	dir, err := RuntimeDir()
	if err == nil {
		dir, err = mounts.Resolve(dir)
	}
	if err != nil {
		return nil, err
	}
	return PlaceAt(key, filepath.Join(dir, strings.TrimPrefix(name[:min(len(name), 40)]+"-"+key, "-")+chosenSuffix))
}

// PlaceAt is the place at a directory, which is a resolved path.
func PlaceAt(key, dir string) (*Place, error) {
	socket, err := Socket(dir)
	if err != nil {
		return nil, err
	}
	runtime, err := mounts.Resolve(filepath.Dir(socket))
	if err != nil {
		return nil, err
	}
	return &Place{
		Dir: dir, Key: key, lock: strings.TrimSuffix(socket, filepath.Ext(socket)) + ".lock", socket: socket,
		chosen: filepath.Dir(dir) == runtime && strings.HasSuffix(dir, key+chosenSuffix),
	}, nil
}

// ErrNotMounted says that nothing is mounted at a place.
var ErrNotMounted = errors.New("nothing is mounted there")

// Hold makes this process a holder of what is mounted at the place, which stays for linger
// after it. Where that has begun to end, Hold waits until it is gone. The error is
// [ErrNotMounted] where nothing is mounted, or a mount whose daemon is gone. The caller has the
// lock.
func (p *Place) Hold(ctx context.Context, linger time.Duration) (*net.UnixConn, Reply, error) {
	var none Reply
	for until := time.Now().Add(untilClear); ; {
		at, err := mounts.At(p.Dir)
		switch {
		case err != nil:
			return nil, none, err
		case at == nil || !at.Ours():
			return nil, none, ErrNotMounted
		}
		conn, reply, err := p.try(ctx, linger)
		switch {
		case err == nil:
			return conn, reply, nil
		case errors.Is(err, ErrEnding):
			continue // and it is gone
		case mounts.Dead(mounts.Probe(p.Dir)):
			return nil, none, ErrNotMounted
		case reply.Refused, reply.Denied, errors.Is(err, fs.ErrPermission), ctx.Err() != nil, time.Now().After(until):
			return nil, none, err
		}
		time.Sleep(20 * time.Millisecond) // it may be going away at this moment
	}
}

// try asks the daemon once. The error is [ErrEnding] where the daemon has ended
// meanwhile.
func (p *Place) try(ctx context.Context, linger time.Duration) (*net.UnixConn, Reply, error) {
	client, err := Find(p.Dir)
	if err != nil {
		return nil, Reply{}, err
	}
	daemon, err := client.Daemon(ctx)
	if err != nil {
		return nil, Reply{}, err
	}
	defer daemon.Close()
	conn, reply, err := client.Hold(ctx, Request{Key: p.Key, Linger: int(linger / time.Second)})
	if reply.Ending {
		err = ErrEnding
		if !daemon.Wait(untilGone) {
			err = fmt.Errorf("process %d, the daemon of %s, has begun to end, and has not ended within %v", daemon.PID, p.Dir, untilGone)
		}
	}
	return conn, reply, err
}

// Make makes the directory of a chosen place, and takes away what daemons that were killed
// have left at others. The caller has the lock.
func (p *Place) Make() error {
	if !p.chosen {
		return nil
	}
	all, err := filepath.Glob(filepath.Join(filepath.Dir(p.Dir), "*"+chosenSuffix))
	if err != nil {
		return err
	}
	for _, dir := range all {
		if dir != p.Dir {
			sweep(dir)
		}
	}
	if err := os.Mkdir(p.Dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// sweep takes away a dead mount in a directory that was chosen. It leaves alone whatever it
// is not sure of: what is not mounted here may be mounted in another namespace.
func sweep(dir string) {
	name := strings.TrimSuffix(dir, chosenSuffix)
	at, err := mounts.At(dir)
	if err != nil || at == nil || !at.Ours() || !mounts.Dead(mounts.Probe(dir)) {
		return
	}
	p, err := PlaceAt(name[strings.LastIndexAny(name, "-/")+1:], dir)
	if err != nil {
		return
	}
	lock := p.TryLock()
	if lock == nil {
		return // somebody is mounting there
	}
	defer lock.Release()
	if mounts.Dead(mounts.Probe(dir)) && mounts.Unmount(dir, true) == nil {
		p.Remove()
		_ = os.Remove(p.socket)
	}
}

// Remove removes the directory of a chosen place where nothing is mounted. The caller has
// the lock.
func (p *Place) Remove() {
	if at, err := mounts.At(p.Dir); err == nil && at == nil && p.chosen {
		_ = os.Remove(p.Dir)
	}
}

// Leave is what a daemon does last: it removes what its mount had of its own, unless
// somebody is about to mount there again.
func (p *Place) Leave() {
	if lock := p.TryLock(); lock != nil {
		p.Remove()
		lock.Release()
	}
}

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
