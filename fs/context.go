package fs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
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
func requestContext(cancel <-chan struct{}, caller *fuse.InHeader) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(context.Background())
	if cancel == nil {
		return ctx, stop
	}
	pid := caller.Pid
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-cancel:
		}
		// It is told only once, so a deadly signal that follows a harmless one has
		// to be looked for.
		for !dying(pid) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(dyingInterval):
			}
		}
		stop()
	}()
	return ctx, stop
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
