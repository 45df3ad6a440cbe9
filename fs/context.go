package fs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
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

	mu       sync.Mutex
	done     chan struct{} // made when it is first asked for
	answered chan struct{}
	err      error
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
