package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pipefs/pipefs/internal/mounts"
)

// trial tells how the trial went. It is not made where it cannot succeed.
func (m *Machine) trial(ctx context.Context, pointless bool) Finding {
	const about = "trial"
	if pointless {
		return note(about, "mend the problem above, and run this again", "nothing was mounted")
	}
	began := time.Now()
	if err := m.Trial(ctx); err != nil {
		return fatal(about, fmt.Errorf("mounting two small pictures failed: %w", err), "")
	}
	return ok(about, "two small pictures were mounted, read in two views, and unmounted, in %v", time.Since(began).Round(time.Millisecond))
}

// patience is how long mounting, reading and unmounting may take together.
const patience = 30 * time.Second

// trial mounts two small pictures as a user does, reads them and unmounts them. Nothing of
// it stays.
func trial(ctx context.Context, program string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// not os.TempDir: sockets need short paths
	dir, err := os.MkdirTemp("/tmp", "pipefs-doctor-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	dataset, mnt := filepath.Join(dir, "dataset"), filepath.Join(dir, "mnt")
	run := func(args ...string) error {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = append(cmd.Environ(), "XDG_CACHE_HOME="+dir, "XDG_STATE_HOME="+dir, "XDG_RUNTIME_DIR="+dir)
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("pipefs %s: %s (%w)", args[0], strings.TrimSpace(string(said)), err)
		}
		return nil
	}
	picture := append([]byte("P6\n2 2\n255\n"), "pipefspipefs"...)
	for _, name := range []string{"a.ppm", "b.ppm"} {
		if err := errors.Join(os.MkdirAll(dataset, 0o700), os.MkdirAll(mnt, 0o700), os.WriteFile(filepath.Join(dataset, name), picture, 0o600)); err != nil {
			return err
		}
	}
	if err := run("mount", "--ready-timeout", "20s", "--store-max", "0", dataset, mnt); err != nil {
		return err
	}
	defer func() {
		// A mount that somebody looks at all the time is busy: it need not be.
		if e := run("umount", mnt); e != nil {
			if lazy := mounts.Unmount(mnt, true); lazy != nil {
				err = errors.Join(err, e, lazy)
			}
		}
	}()
	original, err := os.ReadFile(filepath.Join(mnt, "original/a.ppm"))
	if err != nil {
		return err
	}
	if !bytes.Equal(original, picture) {
		return errors.New("original/ shows other bytes than the dataset has")
	}
	bmp, err := os.ReadFile(filepath.Join(mnt, "bmp/b.bmp"))
	if err == nil && !bytes.HasPrefix(bmp, []byte("BM")) {
		err = errors.New("bmp/ shows a file that is no BMP")
	}
	return err
}
