package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// supervised is a mount whose daemon may die.
type supervised struct {
	t       *testing.T
	env     []string
	dataset string
	mnt     string
}

func newSupervised(t *testing.T, args ...string) *supervised {
	t.Parallel()
	dataset := testmount.Generate(t, "-samples", "48", "-classes", "3", "-width", "300", "-height", "225")
	s := &supervised{t: t, env: testmount.Home(t), dataset: dataset}
	s.mnt = testmount.Mount(t, s.env, dataset, append([]string{"--supervise"}, args...)...)
	return s
}

func (s *supervised) path(name ...string) string {
	return filepath.Join(append([]string{s.mnt}, name...)...)
}

// stats asks the mount.
func (s *supervised) stats() (stats control.Stats) {
	s.t.Helper()
	testenv.Must(s.t, json.Unmarshal([]byte(testmount.Command(s.t, s.env, "stats", "--json", s.mnt)), &stats))
	return stats
}

// eventually asks the mount until what it tells is wanted. A daemon that has just begun, on a busy machine, may not answer
// in time.
func (s *supervised) eventually(what string, wanted func(control.Stats) bool) (stats control.Stats) {
	s.t.Helper()
	testenv.Eventually(s.t, func() error {
		cmd := exec.Command(testmount.Binary(s.t), "stats", "--json", s.mnt)
		cmd.Env = s.env
		stats = control.Stats{}
		out, err := cmd.Output()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", what, err)
		case json.Unmarshal(out, &stats) != nil || !wanted(stats):
			return errors.New("waiting: " + what)
		}
		return nil
	})
	return stats
}

// kill kills the daemon, and returns when the next one serves.
func (s *supervised) kill() {
	s.t.Helper()
	before := s.stats()
	testenv.Must(s.t, syscall.Kill(before.PID, syscall.SIGKILL))
	s.eventually("the next daemon serves", func(now control.Stats) bool {
		return now.PID != before.PID && now.Supervised.Restarts == before.Supervised.Restarts+1
	})
}

// readCold reads a file that the kernel does not keep, in two parts.
func readCold(name string) (sum [32]byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	h := sha256.New()
	if _, err = io.CopyN(h, f, 1000); err != nil && !errors.Is(err, io.EOF) {
		return sum, err
	}
	_, err = io.Copy(h, f)
	return [32]byte(h.Sum(nil)), err
}

// TestSupervisedOpen wants what is open when a daemon dies to stay open: files, mapped
// files, and directories in the middle of being listed.
func TestSupervisedOpen(t *testing.T) {
	s := newSupervised(t, "--deaths", "1000")
	var names []string
	for i := range 2000 {
		names = append(names, fmt.Sprintf("a-name-of-some-length-so-that-pages-are-full-%04d.txt", i))
	}
	write(t, s.dataset, []byte("text"), append([]string{"many/x.txt"}, prefixed("many/", names)...)...)
	write(t, s.dataset, []byte("text"), prefixed("changes/", names)...)
	sample := firstIn(t, s.path("bmp"), "*/*.bmp")
	want, err := os.ReadFile(sample)
	testenv.Must(t, err)
	f, err := os.Open(sample)
	testenv.Must(t, err)
	defer f.Close()
	part := make([]byte, 1000)
	_, err = io.ReadFull(f, part)
	testenv.Must(t, err)
	many, changes := openDir(t, s.path("original/many")), openDir(t, s.path("original/changes"))
	testenv.Must(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))

	s.kill()
	write(t, s.dataset, []byte("text"), "changes/zz.txt")
	testenv.EventuallyIs(t, "the change shows", func() bool {
		_, err := os.Stat(s.path("original/changes/zz.txt"))
		return err == nil
	})
	rest, err := io.ReadAll(f)
	if testenv.Must(t, err); !bytes.Equal(append(part, rest...), want) {
		t.Error("other bytes")
	}
	if got := append(many.begun, many.rest(t)...); len(got) != len(names)+1 {
		t.Errorf("%d names instead of %d", len(got), len(names)+1)
	}
	if _, err := changes.f.Readdirnames(-1); err != nil && !errors.Is(err, unix.ESTALE) {
		t.Error(err)
	}
	// From the beginning it shows what is there.
	_, err = changes.f.Seek(0, io.SeekStart)
	testenv.Must(t, err)
	if got := changes.rest(t); len(got) != len(names)+1 {
		t.Errorf("%d names after the change", len(got))
	}
}

// TestSupervisedDeaths: a mount whose daemons die at once ends, with a message.
func TestSupervisedDeaths(t *testing.T) {
	t.Parallel()
	testenv.Mounts(t)
	env, dataset, mnt := testmount.Home(t), testmount.Generate(t, "-samples", "2"), filepath.Join(t.TempDir(), "mnt")
	testenv.Must(t, os.Mkdir(mnt, 0o755))
	log := filepath.Join(t.TempDir(), "log")
	testmount.Command(t, env, "mount", "--supervise", "--log-file", log, dataset, mnt)
	s := &supervised{t: t, env: env, dataset: dataset, mnt: mnt}
	f, err := os.Open(firstIn(t, s.path("bmp"), "*/*.bmp"))
	testenv.Must(t, err)
	defer f.Close()
	s.kill()
	s.kill()
	now := s.stats()
	testenv.Must(t, syscall.Kill(now.PID, syscall.SIGKILL))
	testenv.EventuallyIs(t, "the mount is dead", func() bool {
		return errors.Is(mounts.Probe(mnt), unix.ENOTCONN) && syscall.Kill(now.Supervised.PID, 0) != nil
	})
	testmount.Command(t, env, "umount", mnt)
	if at, err := mounts.At(mnt); at != nil || err != nil {
		t.Errorf("%+v, %v", at, err)
	}
	if _, err := f.Read(make([]byte, 1)); err == nil {
		t.Error("a file can be read that nobody serves")
	}
	if said, err := os.ReadFile(log); err != nil || !strings.Contains(string(said), "the daemon died 3 times within a minute") {
		t.Errorf("%s, %v", said, err)
	}
}

// TestSupervisedHung: a daemon that was stopped is started again while readers wait for it, and one
// that nobody asks anything is left alone.
func TestSupervisedHung(t *testing.T) {
	s := newSupervised(t, "--hung", "3s")
	name := firstIn(t, s.path("bmp"), "*/*.bmp")
	want, err := os.ReadFile(name)
	testenv.Must(t, err)
	before := s.stats()
	testenv.Must(t, syscall.Kill(before.PID, syscall.SIGSTOP))
	got, err := os.ReadFile(s.path("bmp-own", strings.TrimPrefix(strings.TrimSuffix(name, ".bmp")+".jpg", s.path("bmp"))))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes instead of %d, %v", len(got), len(want), err)
	}
	testenv.EventuallyIs(t, "another daemon serves", func() bool {
		stats := exec.Command(testmount.Binary(t), "stats", "--json", s.mnt) // it fails while none does
		stats.Env = s.env
		out, _ := stats.Output()
		var now control.Stats
		return json.Unmarshal(out, &now) == nil && now.PID != before.PID && now.Supervised.Restarts == 1
	})
}

// TestSupervisedList: a daemon whose list of objects is newer than that of the one before it shows what is
// new, and what was replaced.
func TestSupervisedList(t *testing.T) {
	t.Parallel()
	s := &supervised{t: t, env: testmount.Home(t), dataset: testmount.Generate(t, "-samples", "6", "-classes", "1")}
	s.mnt = testmount.Mount(t, s.env, "file://"+s.dataset, "--supervise")
	first := firstIn(t, s.path("original"), "*/*.jpg")
	_, replaced, _ := strings.Cut(first, "/original/")
	added := filepath.Join(filepath.Dir(replaced), "zzz.jpg")
	was, err := os.ReadFile(first)
	testenv.Must(t, err)
	now := append(slices.Clone(was), "more"...)
	for _, name := range []string{replaced, added} {
		testenv.Must(t, os.WriteFile(filepath.Join(s.dataset, name), now, 0o644))
	}
	testmount.Command(t, s.env, "refresh", testmount.Mount(t, s.env, "file://"+s.dataset))
	if got, err := os.ReadFile(first); err != nil || !bytes.Equal(got, was) {
		t.Errorf("before: %d bytes instead of %d, %v", len(got), len(was), err)
	}
	if _, err := os.Stat(s.path("original", added)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before: %v", err)
	}
	s.kill()
	for _, name := range []string{replaced, added} {
		testenv.EventuallyIs(t, name+" is what it is now", func() bool {
			got, err := os.ReadFile(s.path("original", name))
			return err == nil && bytes.Equal(got, now)
		})
	}
}

// TestSupervisedEnds: each way to end a mount ends both processes, and nothing is left.
func TestSupervisedEnds(t *testing.T) {
	t.Parallel()
	testenv.Mounts(t)
	dataset := testmount.Generate(t, "-samples", "2")
	for how, end := range map[string]func(s *supervised, now control.Stats) error{
		"umount":                   func(s *supervised, _ control.Stats) error { return exec.Command("umount", s.mnt).Run() },
		"pipefs umount":            func(s *supervised, _ control.Stats) error { testmount.Command(s.t, s.env, "umount", s.mnt); return nil },
		"SIGTERM":                  func(_ *supervised, now control.Stats) error { return syscall.Kill(now.Supervised.PID, syscall.SIGTERM) },
		"SIGTERM of the daemon":    func(_ *supervised, now control.Stats) error { return syscall.Kill(now.PID, syscall.SIGTERM) },
		"without a supervisor":     func(s *supervised, now control.Stats) error { return orphan(s, now) },
		"SIGTERM with a file open": func(s *supervised, now control.Stats) error { return endBusy(s, now) },
	} {
		t.Run(how, func(t *testing.T) {
			s := &supervised{t: t, env: testmount.Home(t), dataset: dataset, mnt: filepath.Join(t.TempDir(), "mnt")}
			testenv.Must(t, os.Mkdir(s.mnt, 0o755))
			testmount.Command(t, s.env, "mount", "--supervise", dataset, s.mnt)
			now := s.stats()
			testenv.Must(t, end(s, now))
			testenv.EventuallyIs(t, "all is gone", func() bool {
				at, err := mounts.At(s.mnt)
				return err == nil && at == nil && syscall.Kill(now.PID, 0) != nil && syscall.Kill(now.Supervised.PID, 0) != nil
			})
		})
	}
	t.Cleanup(func() { testenv.Proved(t, "ended", 6) })
}

// orphan kills the supervisor: the daemon goes on, and ends as any other.
func orphan(s *supervised, now control.Stats) error {
	if err := syscall.Kill(now.Supervised.PID, syscall.SIGKILL); err != nil {
		return err
	}
	if _, err := os.ReadFile(firstIn(s.t, s.path("bmp"), "*/*.bmp")); err != nil {
		return err
	}
	return exec.Command("umount", s.mnt).Run()
}

func endBusy(s *supervised, now control.Stats) error {
	f, err := os.Open(firstIn(s.t, s.path("bmp"), "*/*.bmp"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Kill(now.Supervised.PID, syscall.SIGTERM); err != nil {
		return err
	}
	testenv.EventuallyIs(s.t, "the mount is taken away", func() bool { at, err := mounts.At(s.mnt); return err == nil && at == nil })
	_, err = io.ReadAll(f)
	return err
}

// TestTakeoverRefused: what cannot be taken over goes on as it was.
func TestTakeoverRefused(t *testing.T) {
	t.Parallel()
	env, dataset := testmount.Home(t), testmount.Generate(t, "-samples", "2")
	mnt := testmount.Mount(t, env, dataset)
	cmd := exec.Command(testmount.Binary(t), "mount", "--takeover", mnt)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "is not supervised") {
		t.Errorf("%v: %s", err, out)
	}
	// A program that does not come up leaves the mount to the one before.
	s := &supervised{t: t, env: env, dataset: dataset, mnt: testmount.Mount(t, env, dataset, "--supervise")}
	client, err := control.Find(s.mnt)
	testenv.Must(t, err)
	if _, err := client.Do(t.Context(), control.Request{Op: control.OpTakeover, Program: "/bin/false"}); err == nil || !strings.Contains(err.Error(), "goes on") {
		t.Error(err)
	}
	_, err = os.ReadFile(firstIn(t, s.path("bmp"), "*/*.bmp"))
	testenv.Must(t, err)
}

// dirReader is a directory that is being listed.
type dirReader struct {
	f     *os.File
	begun []string
}

func openDir(t *testing.T, path string) *dirReader {
	t.Helper()
	f, err := os.Open(path)
	testenv.Must(t, err)
	t.Cleanup(func() { f.Close() })
	begun, err := f.Readdirnames(10)
	testenv.Must(t, err)
	return &dirReader{f, begun}
}

func (d *dirReader) rest(t *testing.T) []string {
	t.Helper()
	names, err := d.f.Readdirnames(-1)
	testenv.Must(t, err)
	return names
}

func prefixed(prefix string, names []string) (all []string) {
	for _, n := range names {
		all = append(all, prefix+n)
	}
	return all
}

func firstIn(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("%s in %s: %v", pattern, dir, err)
	}
	return found[0]
}

// TestSuspects: a request that ends each daemon that answers it becomes an error, and the mount
// goes on.
func TestSuspects(t *testing.T) {
	s := newSupervised(t, "--store-max", "0", "--limit-read", "50MB/s") // so that no machine is done before its daemon is killed
	header := make([]byte, 54)                                          // of a BMP file of zeros: 11000 x 11000 pixels, 24 bits each
	const side, size = 11000, 54 + 3*11000*11000
	copy(header, "BM")
	for at, v := range map[int]uint32{2: size, 10: 54, 14: 40, 18: side, 22: side, 26: 1 | 24<<16, 34: size - 54} {
		binary.LittleEndian.PutUint32(header[at:], v)
	}
	name := filepath.Join(s.dataset, "slow.bmp")
	testenv.Must(t, errors.Join(os.WriteFile(name, header, 0o644), os.Truncate(name, size)))
	testenv.EventuallyIs(t, "the file is seen", func() bool { _, err := os.Stat(s.path("bmp/slow.bmp")); return err == nil })
	result := make(chan error, 1)
	go func() {
		_, err := os.Stat(s.path("png/slow.png"))
		result <- err
	}()
	for range 3 {
		now := s.eventually("the size of the file is computed", func(now control.Stats) bool {
			return slices.ContainsFunc(now.Counters, func(c control.Counter) bool {
				return c.Group == "png" && c.Name == "lookups" && c.Value > 0
			})
		})
		testenv.Must(t, syscall.Kill(now.PID, syscall.SIGABRT))
		s.eventually("the next daemon serves", func(next control.Stats) bool { return next.PID != now.PID })
	}
	select {
	case err := <-result:
		if !errors.Is(err, unix.EIO) {
			t.Errorf("the file that daemons died of: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the request that daemons died of is not answered")
	}
	if _, err := os.Stat(s.path("png/slow.png")); !errors.Is(err, unix.EIO) {
		t.Errorf("again: %v", err)
	}
	if _, err := os.ReadFile(firstIn(t, s.path("png"), "*/*.png")); err != nil {
		t.Error(err)
	}
}

// TestInCacheDirectory mounts where the daemon keeps what it prepares, and has a daemon die there.
func TestInCacheDirectory(t *testing.T) {
	t.Parallel()
	testenv.Mounts(t)
	s := &supervised{t: t, env: testmount.Home(t), dataset: testmount.Generate(t, "-samples", "2")}
	cache := t.TempDir()
	s.env = append(s.env, "XDG_CACHE_HOME="+cache)
	s.mnt = filepath.Join(cache, "pipefs", "mnt")
	testenv.Must(t, os.MkdirAll(s.mnt, 0o755))
	testmount.Command(t, s.env, "mount", "--supervise", s.dataset, s.mnt)
	s.kill()
	if _, err := os.ReadFile(firstIn(t, s.path("bmp"), "*/*.bmp")); err != nil {
		t.Error(err)
	}
	testmount.Command(t, s.env, "umount", s.mnt)
}
