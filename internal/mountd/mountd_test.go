package mountd

import (
	"bytes"
	"context"
	"errors"
	"image"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	pfs "github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/supervise"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

const patience = time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setUp gives the mounts of a test directories of their own, and a dataset of one picture.
func setUp(t *testing.T) Config {
	t.Helper()
	if err := mounts.CheckFUSE(""); err != nil {
		t.Fatalf("this test mounts: %v", err)
	}
	dir := t.TempDir()
	for _, name := range []string{"ds", "mnt", "run"} {
		testenv.Must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(dir, "run"))
	testenv.Must(t, pictures.Write(filepath.Join(dir, "ds", "a.png"), image.NewNRGBA(image.Rect(0, 0, 40, 30))))
	c := Default(filepath.Join(dir, "ds"), filepath.Join(dir, "mnt"))
	c.GPU.Off = true
	return c
}

func start(t *testing.T, c Config) *Mount {
	t.Helper()
	m, err := Start(t.Context(), c, patience)
	testenv.Must(t, err)
	return m
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	testenv.Must(t, err)
	return len(entries)
}

// A mount needs no process of its own, and leaves nothing behind.
func TestMountReadStop(t *testing.T) {
	c := setUp(t)
	for i, mode := range []pfs.CacheMode{pfs.PageCache, pfs.DaemonCache, pfs.PageCache} {
		c.Cache.Mode = mode
		before := descriptors(t)
		var notes []string
		c.Note = func(text string) { notes = append(notes, text) }
		m := start(t, c)
		source, err := os.ReadFile(filepath.Join(c.Source, "a.png"))
		testenv.Must(t, err)
		if got, err := os.ReadFile(filepath.Join(c.Dir, "original", "a.png")); err != nil || !bytes.Equal(got, source) {
			t.Errorf("original/: %d bytes, %v", len(got), err)
		}
		r := Registry(transcode.Limits{}, nil, nil)
		p, err := r.Parse("bmp")
		testenv.Must(t, err)
		info, err := r.ProbeBytes(source)
		testenv.Must(t, err)
		want, err := r.Plan(p, info, transcode.Auto).Run(t.Context(), source)
		testenv.Must(t, err)
		if got, err := os.ReadFile(filepath.Join(c.Dir, "bmp", "a.bmp")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("bmp/: %d bytes instead of %d, %v", len(got), len(want), err)
		}
		if len(notes) != 0 {
			t.Errorf("the user was told %q", notes)
		}
		client, err := control.Find(c.Dir)
		testenv.Must(t, err)
		reply, err := client.Do(t.Context(), control.Request{Op: control.OpStats})
		if err != nil || reply.Stats.Source != c.Source || reply.Stats.Current != "scan10" {
			t.Errorf("the daemon tells %+v, %v", reply, err)
		}
		testenv.Must(t, m.Stop())
		gone(t, c.Dir)
		if after := descriptors(t); after > before && i > 0 { // the first mount starts what a process has once
			t.Errorf("%d descriptors are open, %d were before", after, before)
		}
	}
}

// What was kept of a sample that is gone does not count against the limit once the dataset
// is mounted again.
func TestReclaims(t *testing.T) {
	c := setUp(t)
	testenv.Must(t, os.WriteFile(filepath.Join(c.Source, "labels.txt"), nil, 0o644))
	m := start(t, c)
	if _, err := os.ReadFile(filepath.Join(c.Dir, "resize16-png", "a.png")); err != nil {
		t.Fatal(err)
	}
	testenv.Must(t, m.Stop())
	if kept := m.server.Stats().OverlayBytes; kept == 0 {
		t.Fatal("nothing was kept")
	}
	testenv.Must(t, os.Remove(filepath.Join(c.Source, "a.png")))
	m = start(t, c)
	testenv.EventuallyIs(t, "what was kept of a file that is gone is given up", func() bool { return m.server.Stats().OverlayBytes == 0 })
	if s := m.server.Stats(); s.ReclaimedBytes == 0 {
		t.Errorf("%+v", s)
	}
	testenv.Must(t, m.Stop())
}

// gone checks that neither a mount nor a socket is left.
func gone(t *testing.T, dir string) {
	t.Helper()
	if _, err := mounts.PlaceOf(dir); err == nil {
		t.Errorf("%s is still mounted", dir)
	}
	socket, err := control.Socket(dir)
	testenv.Must(t, err)
	if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the control socket: %v", err)
	}
}

// A daemon that is told to end does so although a file is open.
func TestSuperviseBusy(t *testing.T) {
	c := setUp(t)
	m := start(t, c)
	f, err := os.Open(filepath.Join(c.Dir, "original", "a.png"))
	testenv.Must(t, err)
	signals := make(chan os.Signal, 2)
	signals <- unix.SIGTERM
	signals <- unix.SIGTERM
	time.AfterFunc(supervise.Lingering/4, func() { f.Close() })
	testenv.Must(t, m.Supervise(signals))
	<-m.Done()
	testenv.Must(t, m.closeAll())
	gone(t, c.Dir)
}

// What cannot be mounted is an error, and nothing is left of the attempt.
func TestStartFails(t *testing.T) {
	c := setUp(t)
	for name, change := range map[string]func(*Config){
		"no source":              func(c *Config) { c.Source += "/none" },
		"a view that is none":    func(c *Config) { c.Views.List = []string{"frobnicate"} },
		"a dataset of a dataset": func(c *Config) { c.Read.Dataset = c.Source },
		"no directory":           func(c *Config) { c.Dir += "/none" },
	} {
		bad := c
		change(&bad)
		if m, err := Start(t.Context(), bad, patience); err == nil {
			t.Errorf("%s: mounted, %v", name, m.Stop())
		}
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(interrupted, c, patience); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if _, err := mounts.PlaceOf(c.Dir); err == nil {
		t.Error("it is mounted")
	}
}
