package mountd

import (
	"bytes"
	"context"
	"errors"
	"image"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	pfs "github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/prepare/pack"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/supervise"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/usage"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
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

// TestCheck refuses what does not go together as an error of usage, and what lies in the place as a
// MountError.
func TestCheck(t *testing.T) {
	testenv.Mounts(t)
	root := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(root, "a.txt"), nil, 0o644))
	for want, change := range map[string]func(*Config){
		"--direct needs --cache daemon":                 func(c *Config) { c.Cache.Direct = true },
		"--mix adaptive needs --cache daemon":           func(c *Config) { c.Views.Mix.Adaptive = true },
		"have one name, and so one path":                func(c *Config) { c.Views.Lists = []string{filepath.Join(root, "a.txt"), "/b/a.txt"} },
		"--dataset goes with a store":                   func(c *Config) { c.Read.Dataset = "/data" },
		"--refresh goes with a store":                   func(c *Config) { c.Read.Refresh = 0 },
		"--masks '*.png' matches no sample":             func(c *Config) { c.Roles.Masks = []string{"*.png"} },
		"place: --store " + root + "/st does not exist": func(c *Config) { c.Read.Store = root + "/st" },
		"place: ": func(c *Config) { c.Dir = root },
	} {
		c := Default(root, t.TempDir())
		change(&c)
		_, err := c.Check(t.Context(), CheckOptions{})
		text, place := strings.CutPrefix(want, "place: ")
		var wrong *usage.Error
		var mount *MountError
		if err == nil || !strings.Contains(err.Error(), text) || errors.As(err, &mount) != place && !errors.As(err, &wrong) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestOpenSourceRefuses what is not what the caller says.
func TestOpenSourceRefuses(t *testing.T) {
	root := t.TempDir()
	for want, o := range map[string]SourceOptions{
		"is no store; pipefs pack makes one":                {Path: root, StoreOnly: true},
		"--dataset goes with a store":                       {Path: root, Dataset: "/data"},
		"--images '*.jpg' matches no sample of":             {Path: root, Roles: transcode.Roles{Images: []string{"*.jpg"}}},
		"credentials do not belong into a URL":              {Path: "s3://me:secret@bucket/ds"},
		"there is no dataset or store at " + root + "/none": {Path: root + "/none"},
	} {
		_, err := OpenSource(t.Context(), o)
		var wrong *usage.Error
		if err == nil || !strings.Contains(err.Error(), want) || errors.As(err, &wrong) == strings.HasPrefix(want, "there is no") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestExplainSteps tells of each step of a view whether it applies.
func TestExplainSteps(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	photo := transcode.Info{Format: transcode.JPEG, Mode: transcode.ModeRGB, Width: 60, Height: 40, Scannable: true}
	mask := transcode.Info{Format: transcode.PNG, Mode: transcode.ModeP, Width: 60, Height: 40}
	png := transcode.Info{Format: transcode.PNG, Mode: transcode.ModeRGB, Width: 60, Height: 40}
	for _, c := range []struct {
		view string
		info transcode.Info
		role transcode.Role
		want string
	}{
		{"scan5", photo, transcode.Auto, "scan5"},
		{"resize20-bmp", photo, transcode.Auto, "decode resize20 bmp"},
		{"scan5-bmp", png, transcode.Auto, "!scan5 decode bmp"},
		{"png", png, transcode.Auto, "!png"},
		{"resize20-bmp", mask, transcode.Auto, "decode !resize20 bmp"},
		{"resize20-bmp", mask, transcode.Image, "decode resize20 bmp"},
		{"rrc20-hflip-npy", photo, transcode.Auto, "decode rrc20 hflip npy"},
	} {
		p, err := r.ParseRandom(c.view)
		testenv.Must(t, err)
		plan := r.Plan(p, c.info, c.role)
		var got []string
		for _, s := range explainSteps(p, plan) {
			if (s.LeftOut == "") == (s.Makes == "") {
				t.Errorf("%s: %+v", c.view, s)
			}
			if s.LeftOut != "" {
				s.Step = "!" + s.Step
			}
			got = append(got, s.Step)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s of %v %v: %q, want %q", c.view, c.info.Format, c.info.Mode, got, c.want)
		}
	}
}

// Files that lead past the mount are found, and no name that only looks like it.
func TestPathsInto(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.txt": "a.jpg\n/data/ds/img/b.jpg\n/data/ds/img/c.jpg", "b.YAML": "path: /data/ds\r\n", "c.csv": "file:///data/ds/a.jpg,1\n",
		"d.csv": "1,/data/ds", "e.json": `{"root": "/real/ds/img"}`, "picture.jpg": "/data/ds/a.jpg", "long.txt": "/data/ds/a\n" + strings.Repeat("x", listBytes),
		"others.txt": "/data/ds2/a.jpg\n/my/data/ds/a.jpg\ndata/ds/a.jpg\n/data/ds-old/a\n/data/dsä/a\n/data\n",
	} {
		testenv.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	testenv.Must(t, unix.Mkfifo(filepath.Join(dir, "pipe.txt"), 0o600))
	if got, want := strings.Join(PathsInto(dir, "/data/ds", "/real/ds"), " "), "a.txt:2 b.YAML:1 c.csv:1 d.csv:1 e.json:1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A store says itself where its dataset is: one of another user must not lead to files of
// whoever mounts it.
func TestNearbyOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test gives files away: run it as root")
	}
	c := setUp(t)
	dir := filepath.Join(t.TempDir(), "st")
	d, err := source.Open(c.Source, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	what := pack.Dataset{Registry: Registry(transcode.Limits{}, nil, nil), Dir: d}
	if _, err := store.Pack(t.Context(), dir, what, what, store.PackOptions{DatasetPath: c.Source}); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(dir, store.Options{})
	testenv.Must(t, err)
	defer s.Close()
	const other, another = 65533, 65534
	for _, test := range []struct {
		store, dataset int // owners
		found          bool
	}{
		{0, 0, true}, {0, other, true}, {other, other, true}, {other, 0, false}, {other, another, false},
	} {
		testenv.Must(t, os.Chown(dir, test.store, -1))
		testenv.Must(t, os.Chown(c.Source, test.dataset, -1))
		near := OpenNearby(s, dir, source.Options{})
		if (near != nil) != test.found {
			t.Errorf("%+v: found is %v", test, near != nil)
		}
		if near != nil {
			near.Close()
		}
	}
}
