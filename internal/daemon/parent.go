package daemon

import (
	"encoding/json"
	"io"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Parent is the process that waits for this one to be ready. The methods of a nil
// Parent do nothing: nobody waits.
type Parent struct {
	// Config is that of [Child].
	Config []byte

	mu   sync.Mutex
	pipe *os.File // nil when everything is said
}

// Waiting returns the parent if there is one that waits. It may be called once.
func Waiting() *Parent {
	fd, err := strconv.Atoi(os.Getenv(environment))
	// not for our own children: they would take themselves for the daemon
	_ = os.Unsetenv(environment)
	if err != nil || fd < 3 || !isPipe(fd) {
		return nil
	}
	// fusermount3 must not hold the pipe open when we are gone
	unix.CloseOnExec(fd)
	from := os.NewFile(configFile, "configuration")
	defer from.Close()
	config, _ := io.ReadAll(from) // what is cut short is no JSON
	return &Parent{Config: config, pipe: os.NewFile(uintptr(fd), "ready")}
}

func (p *Parent) say(m message, last bool) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pipe == nil {
		return nil
	}
	err := json.NewEncoder(p.pipe).Encode(m)
	if last {
		p.pipe.Close()
		p.pipe = nil
	}
	return err
}

// Status tells what is waited for right now; it completes "waiting for".
func (p *Parent) Status(what string) { _ = p.say(message{Status: what}, false) }

// Note has the parent tell the user something.
func (p *Parent) Note(text string) { _ = p.say(message{Note: text}, false) }

// Ready lets the parent go. An error means that it has gone before: whoever
// started it no longer expects the mount.
func (p *Parent) Ready() error { return p.say(message{Ready: true}, true) }

// Fail gives the parent an error and a code to end with. After Ready it does nothing.
func (p *Parent) Fail(err error, code int) {
	_ = p.say(message{Error: err.Error(), Code: code}, true)
}
