package mountd

import (
	"errors"
	"log/slog"
	"os"

	"github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/daemon"
	"github.com/pipefs/pipefs/internal/mounts"
)

// premounted is the variable that tells a program what is mounted already.
const premounted = "_PIPEFS_PREMOUNTED"

// HandOver mounts, which takes root, and runs this program again as another user, with
// these arguments: it calls [TakeOver] and serves. HandOver returns only if that failed.
func HandOver(c *Config, u *daemon.User, args []string, parent *daemon.Parent) error {
	p, err := fs.NewPremount(c.Dir, u.UID, u.GID, c.kernelOptions())
	if err != nil {
		return err
	}
	handed, err := p.Hand()
	if err == nil {
		err = daemon.Become(u, args, []string{premounted + "=" + handed}, parent)
	}
	return errors.Join(err, mounts.Unmount(c.Dir, true))
}

// TakeOver is what the program before this one mounted; nil where that is nothing. It may
// be called once.
func TakeOver() (*fs.Premount, error) {
	handed := os.Getenv(premounted)
	if handed == "" {
		return nil, nil
	}
	_ = os.Unsetenv(premounted)
	return fs.TakePremount(handed)
}

// Attach mounts for daemons that other processes of this program are: the connection, and
// where it is permitted the file that says how much the kernel reads ahead. The user is
// whom they run as, nil for who this process runs as.
func Attach(c *Config, u *daemon.User, log *slog.Logger) (conn, readAhead *os.File, err error) {
	var p *fs.Premount
	if u != nil {
		p, err = fs.NewPremount(c.Dir, u.UID, u.GID, c.kernelOptions())
	} else {
		p, err = fs.Attach(c.Dir, c.kernelOptions(), log)
	}
	if err != nil {
		return nil, nil, err
	}
	conn, readAhead = p.Files()
	return conn, readAhead, nil
}
