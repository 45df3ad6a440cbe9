package mountd

import (
	"log/slog"
	"os"

	"github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/daemon"
)

// Attach mounts for daemons that other processes of this program are: the connection, and
// where it is permitted the file that says how much the kernel reads ahead. The user is
// whom they run as, nil for who this process runs as.
func Attach(c *Config, u *daemon.User, log *slog.Logger) (conn, readAhead *os.File, err error) {
	uid, gid := os.Geteuid(), os.Getegid()
	if u != nil {
		uid, gid = u.UID, u.GID
	}
	p, err := fs.Attach(c.Dir, uid, gid, c.kernelOptions(), log)
	if err != nil {
		return nil, nil, err
	}
	conn, readAhead = p.Files()
	return conn, readAhead, nil
}
