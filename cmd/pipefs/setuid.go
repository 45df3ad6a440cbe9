package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/daemon"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mounts"
)

// ownerUser is the value of --setuid that stands for the owner of what is mounted.
const ownerUser = "owner"

// premounted tells the program that a daemon becomes what is mounted already.
const premounted = "_PIPEFS_PREMOUNTED"

// user is whom the daemon becomes before it opens anything; nil where it stays who it
// is.
func (c *mountConfig) user() (*daemon.User, error) {
	if c.setuid == "" || c.setuid == ownerUser && os.Geteuid() != 0 {
		return nil, nil
	}
	if c.setuid != ownerUser {
		u, err := daemon.LookupUser(c.setuid)
		switch {
		case err != nil:
			return nil, exit.Errorf(exit.Usage, "--setuid %s: %w", c.setuid, err)
		case u.UID == os.Geteuid():
			return nil, nil
		case os.Geteuid() != 0:
			return nil, exit.Errorf(exit.Usage, "--setuid %s: only root can become another user", c.setuid)
		}
		return u, nil
	}
	info, err := mounts.Stat(c.source)
	if err != nil {
		return nil, exit.With(exit.Mount, err)
	}
	st := info.Sys().(*syscall.Stat_t)
	if st.Uid == 0 {
		return nil, nil
	}
	u, err := daemon.LookupUser(strconv.Itoa(int(st.Uid)))
	if err != nil { // files may belong to a user whom this machine does not know
		u = &daemon.User{Name: strconv.Itoa(int(st.Uid)), UID: int(st.Uid), GID: int(st.Gid)}
	}
	return u, nil
}

// tellUser says what a daemon cannot do that gives up root.
func (c *mountConfig) tellUser(w io.Writer, u *daemon.User) {
	without := ""
	if c.cache == "daemon" {
		without = "; kept files are read through the daemon, since passthrough takes root"
	}
	fmt.Fprintf(w, "pipefs: the daemon runs as user %s, and serves what that user may read%s (--setuid root keeps root)\n", u.Name, without)
}

// become mounts, which takes root, and runs this program again as another user, which
// serves. It returns only if that failed.
func (c *mountConfig) become(u *daemon.User, options []*option, parent *daemon.Parent) (err error) {
	if c.logFile != "" {
		// The other user may not be able to open it.
		file, err := openLog(c.logFile)
		if err != nil {
			return exit.With(exit.System, err)
		}
		if err := unix.Dup3(int(file.Fd()), 2, 0); err != nil {
			return fmt.Errorf("log: %w", err)
		}
		file.Close()
	}
	p, err := fs.NewPremount(c.dir, u.UID, u.GID, c.kernelOptions())
	if err != nil {
		return exit.With(exit.Mount, err)
	}
	handed, err := p.Hand()
	if err == nil {
		err = daemon.Become(u, daemonArgs(c, options), []string{premounted + "=" + handed}, parent)
	}
	return errors.Join(err, mounts.Unmount(c.dir, true))
}

// takePremount takes over what become mounted; nil where that is nothing.
func (c *mountConfig) takePremount() (err error) {
	if handed := os.Getenv(premounted); handed != "" {
		_ = os.Unsetenv(premounted)
		c.premount, err = fs.TakePremount(handed)
	}
	return err
}

// kernelOptions are what the kernel is told of the mount.
func (c *mountConfig) kernelOptions() fs.MountOptions {
	o := fs.MountOptions{Source: c.source, AllowOther: c.allowOther, Premount: c.premount}
	if c.noexec {
		o.Options = append(o.Options, "noexec")
	}
	return o
}
