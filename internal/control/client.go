package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/mounts"
)

// Link is where a mount shows the path of its socket.
const Link = ".pipefs/control"

// Client talks to the daemon of one mount.
type Client struct {
	mount, socket string
	// apart: the mount itself is not to be looked at: nobody may serve it.
	apart bool
}

// Find finds the daemon of the mount that path is, or lies in.
func Find(path string) (*Client, error) {
	real, err := mounts.Resolve(path)
	if err != nil {
		return nil, err
	}
	at, err := mounts.Holding(real)
	if err != nil {
		return nil, err
	}
	if at == nil || !at.Ours() {
		if _, err := mounts.Stat(real); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s does not exist", path)
		}
		return nil, fmt.Errorf("%s is not a pipefs mount, nor inside of one (pipefs mounts lists those that there are)", path)
	}
	link := filepath.Join(at.Mountpoint, Link)
	socket, err := mounts.Answer(link, mounts.Patience, func() (string, error) { return os.Readlink(link) })
	switch {
	case mounts.Dead(err):
		return nil, gone(at.Mountpoint)
	case errors.Is(err, fs.ErrPermission):
		guess, ok := socketOf(at)
		if !ok {
			return nil, fmt.Errorf("only root and the user who mounted %s may ask its daemon: %w", at.Mountpoint, err)
		}
		socket = guess
	case err != nil:
		return nil, fmt.Errorf("the mount %s does not tell its control socket: %w", at.Mountpoint, err)
	}
	return &Client{mount: at.Mountpoint, socket: socket}, nil
}

// At is the daemon of a mount that answers at a socket. The mount itself is not looked at.
func At(mount, socket string) *Client { return &Client{mount: mount, socket: socket, apart: true} }

// ErrGone marks a mount whose daemon is gone.
var ErrGone = errors.New("gone")

func gone(mount string) error {
	return fmt.Errorf("the daemon of %s is %w; unmount with pipefs umount %s, or mount again at the same place", mount, ErrGone, mount)
}

func (c *Client) dial(ctx context.Context) (*net.UnixConn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.socket)
	switch {
	case err == nil:
		return conn.(*net.UnixConn), nil
	case c.apart:
		return nil, err
	case mounts.Dead(mounts.Probe(c.mount)):
		return nil, gone(c.mount)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("only root and the user who mounted %s may ask its daemon: %w", c.mount, err)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("the daemon of %s cannot be reached: %w (it may run in another container, or its socket was removed)", c.mount, err)
	}
	return nil, fmt.Errorf("the daemon of %s: %w", c.mount, err)
}

// Do sends one request and returns the reply. What the daemon says is wrong is an error,
// and the reply tells why it said so.
func (c *Client) Do(ctx context.Context, r Request) (Reply, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return Reply{}, err
	}
	defer conn.Close()
	return c.ask(ctx, conn, r)
}

// Hold makes this process a holder of a shared mount, until it closes the connection.
func (c *Client) Hold(ctx context.Context, r Request) (*net.UnixConn, Reply, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, Reply{}, err
	}
	r.Op = OpHold
	reply, err := c.ask(ctx, conn, r)
	if err != nil {
		conn.Close()
		return nil, reply, err
	}
	return conn, reply, nil
}

// ask sends a request and reads the reply.
func (c *Client) ask(ctx context.Context, conn *net.UnixConn, r Request) (Reply, error) {
	deadline := time.Now().Add(2*patience + time.Duration(r.Seconds)*time.Second)
	if r.Op == OpTakeover {
		deadline = time.Now().Add(MaxTakeover)
	}
	if at, ok := ctx.Deadline(); ok && at.Before(deadline) {
		deadline = at
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return Reply{}, err
	}
	r.V = Version
	var reply Reply
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return Reply{}, fmt.Errorf("asking the daemon of %s: %w", c.mount, err)
	}
	// the counters of very many views may take a while, but not for ever
	if err := json.NewDecoder(io.LimitReader(conn, 16<<20)).Decode(&reply); err != nil {
		return Reply{}, fmt.Errorf("the daemon of %s gave no answer: %w", c.mount, err)
	}
	switch {
	case reply.Error != "":
		return reply, errors.New(reply.Error)
	case reply.V != Version:
		return reply, fmt.Errorf("the daemon of %s speaks version %d of the control protocol, not %d", c.mount, reply.V, Version)
	}
	return reply, nil
}

// Daemon is the process of a daemon, held so that its number cannot come to mean
// another process.
type Daemon struct {
	PID int
	fd  int
}

// Daemon finds the process behind the socket. The kernel tells which one it is.
func (c *Client) Daemon(ctx context.Context) (*Daemon, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	cred, err := Peer(conn)
	if err != nil {
		return nil, err
	}
	fd, err := unix.PidfdOpen(int(cred.Pid), 0)
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", cred.Pid, err)
	}
	return &Daemon{PID: int(cred.Pid), fd: fd}, nil
}

// Wait waits until the process is gone; it returns false if it is still there
// after patience.
func (d *Daemon) Wait(patience time.Duration) bool {
	until := time.Now().Add(patience)
	for {
		left := time.Until(until)
		if left < 0 {
			return false
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLIN}}, int(left/time.Millisecond)+1)
		if n > 0 {
			return true
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
	}
}

// Close lets go of the process.
func (d *Daemon) Close() { unix.Close(d.fd) }
