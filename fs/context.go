package fs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/source"
)

// requestContext returns a context that ends when the caller of a request is
// killed, and the function that has to be called when the request was answered.
//
// The kernel tells of every signal to the caller, also of those that it has a
// handler for. On a local disk such a signal does not interrupt anything, and most
// programs are not prepared for EINTR from a read. So only a caller that will not
// return to its program is given up.
//
// Most requests are answered without waiting for anything: the goroutine that
// watches the caller starts when somebody asks for Done.
func requestContext(cancel <-chan struct{}, caller *fuse.InHeader) (context.Context, context.CancelFunc) {
	if cancel == nil {
		return context.WithCancel(context.Background())
	}
	r := &request{Context: context.Background(), cancel: cancel, pid: caller.Pid}
	return r, r.stop
}

// request is the context of a request.
type request struct {
	context.Context
	cancel <-chan struct{}
	pid    uint32
	spent  account.Spent

	mu       sync.Mutex
	done     chan struct{} // made when it is first asked for
	answered chan struct{}
	err      error
}

// Value implements [context.Context].
func (r *request) Value(key any) any {
	if _, ok := key.(account.Key); ok {
		return &r.spent
	}
	return nil
}

// Done implements [context.Context].
func (r *request) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		r.done, r.answered = make(chan struct{}), make(chan struct{})
		if r.err != nil {
			close(r.done)
		} else {
			go r.watch(r.answered)
		}
	}
	return r.done
}

// Err implements [context.Context].
func (r *request) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// stop ends the context: the request was answered, or its caller is gone.
func (r *request) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return
	}
	r.err = context.Canceled
	if r.done != nil {
		close(r.done)
		close(r.answered)
	}
}

// watch waits for the caller to be killed.
func (r *request) watch(answered <-chan struct{}) {
	select {
	case <-answered:
		return
	case <-r.cancel:
	}
	// It is told only once, so a deadly signal that follows a harmless one has to
	// be looked for.
	for !dying(r.pid) {
		select {
		case <-answered:
			return
		case <-time.After(dyingInterval):
		}
	}
	r.stop()
}

const dyingInterval = 100 * time.Millisecond

// dying reports whether a thread has a deadly signal pending. Whatever the signal
// was, the kernel then marks SIGKILL as pending for each thread. A thread that
// cannot be seen from here, in a container, is taken to be dying.
func dying(pid uint32) bool {
	if pid == 0 {
		return true
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return true
	}
	for _, field := range []string{"\nSigPnd:\t", "\nShdPnd:\t"} {
		_, rest, ok := bytes.Cut(status, []byte(field))
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		mask, err := strconv.ParseUint(string(line), 16, 64)
		if !ok || err != nil || mask&sigkill != 0 {
			return true
		}
	}
	return false
}

const sigkill = 1 << 8 // signal 9

// readers are the users who may read each of several files of the dataset.
type readers struct {
	f     *FS
	added map[string]bool // paths
	owner source.Attr     // of the first file
	mode  uint32          // what all files permit
	mixed bool            // owners or groups differ, or attributes are unknown
}

// add adds a file, or a directory: who lists and searches it may read its names.
func (r *readers) add(a source.Attr, err error) {
	if len(r.added) == 1 {
		r.owner = a
	}
	perm := uint32(a.Mode.Perm())
	if r.mode &= perm; a.Mode.IsDir() {
		r.mode &= perm << 2
	}
	r.mixed = r.mixed || err != nil || a.UID != r.owner.UID || a.GID != r.owner.GID
}

// addPath adds a file or directory, and those above it.
func (r *readers) addPath(name string) {
	for ; !r.added[name]; name = name[:max(0, strings.LastIndexByte(name, '/'))] {
		r.added[name] = true
		r.add(r.f.server.Stat(name, false))
	}
}

// restrict hides a file that is made of the dataset from users who may not read what it is made
// of. Its bytes do not depend on who asks: the kernel has them once for all users, and checks the
// mode. One mode cannot stand for several owners; then the file is for the user who mounted.
func (f *FS) restrict(status fuse.Status, out *fuse.Attr, keep func(time.Duration)) fuse.Status {
	index, id := splitNode(out.Ino)
	if !status.Ok() || index != 0 {
		return status
	}
	keep(forever)
	if !f.others || id < firstSpecial {
		return status
	}
	s := f.root.special(id)
	r := readers{f: f, added: map[string]bool{}, mode: 0o444}
	switch {
	case s == nil:
	case s.sample != 0:
		r.addPath(f.tree.path(s.sample))
	case s.batch != nil:
		view := s.batch.View()
		if of := view.Path().Of; !view.Given() {
			r.addPath(of)
		} else {
			r.added[of] = true
			r.add(view.Stat())
		}
		for sample := range s.batch.Samples {
			r.addPath(sample)
		}
	case s.epoch != nil && s.epoch.view != nil && !s.epoch.view.Given():
		r.addPath(s.epoch.view.Path().Of)
	case strings.HasSuffix(s.name, listSuffix) && s.epoch == nil:
		err := f.eachDir(f.tree.dir(rootID), func(d *dir) { r.addPath(f.tree.path(d.id)) })
		r.mixed = r.mixed || err != nil
	}
	if len(r.added) == 0 {
		return status
	}
	keep(briefly) // of a change in the dataset the kernel is not told
	if !r.mixed {
		out.Uid, out.Gid = r.owner.UID, r.owner.GID
	} else if r.mode != 0o444 {
		r.mode = 0o400
	}
	if out.Mode&unix.S_IFMT == unix.S_IFDIR {
		r.mode |= r.mode >> 2
	}
	out.Mode = out.Mode&unix.S_IFMT | r.mode
	return status
}
