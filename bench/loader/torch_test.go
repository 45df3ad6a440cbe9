package loader

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

func torch(t *testing.T, workers, batch int) *Torch {
	t.Helper()
	python, err := FindTorch(t.Context(), "")
	if err != nil {
		t.Fatalf("%v (Debian, Ubuntu: python3-torchvision)", err)
	}
	l, err := NewTorch(t.Context(), python, workers, batch)
	testenv.Must(t, err)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestTorch(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()
	dir, names := tree(t, 24)
	root := "at the root \xff.jpg" // and not UTF-8
	testenv.Must(t, os.Link(filepath.Join(dir, names[0]), filepath.Join(dir, root)))
	l := torch(t, 2, 4)
	if name := l.Name(); !strings.HasPrefix(name, "torch ") || !strings.Contains(name, "torchvision ") || !strings.Contains(name, "Pillow ") {
		t.Errorf("its name is %q", name)
	}
	pid := l.running.cmd.Process.Pid

	e, err := l.Epoch(t.Context(), Job{Dir: dir, Files: append(names, root), Seed: 1 << 63, Warm: 4})
	testenv.Must(t, err)
	check(t, e, 25, bytesOf(t, dir, append(names, root)))

	// An error names the file, and ends nothing.
	write(t, filepath.Join(dir, "class0/cut.jpg"), []byte("\xff\xd8\xff\xe0 no more"))
	for _, name := range []string{"class0/cut.jpg", "class0/missing.jpg"} {
		began := time.Now()
		_, err = l.Epoch(t.Context(), Job{Dir: dir, Files: append(names, name)})
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v", err)
		}
		if time.Since(began) > 4*time.Second {
			t.Errorf("the workers of a failed epoch took %v to end", time.Since(began))
		}
	}
	if _, err := l.Epoch(t.Context(), Job{Dir: filepath.Join(dir, "nowhere")}); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("%v", err)
	}
	if _, err := l.Epoch(t.Context(), Job{Dir: dir, Files: []string{}}); err == nil {
		t.Error("no files, no error")
	}

	// Whatever ImageFolder finds.
	testenv.Must(t, os.Remove(filepath.Join(dir, "class0/cut.jpg")))
	if e, err = l.Epoch(t.Context(), Job{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	check(t, e, 24, bytesOf(t, dir, names))

	e, err = l.Epoch(t.Context(), Job{Dir: dir, Files: names, Warm: 8, Compute: Compute{Time: 400 * time.Millisecond, Batch: 4}})
	testenv.Must(t, err)
	check(t, e, 24, bytesOf(t, dir, names))
	if e.Utilisation < 0.5 || e.Utilisation > 1 || e.Wait99 <= 0 || e.Rate > 10 {
		t.Errorf("an accelerator that takes longer: %+v", e)
	}
	if now := l.running.cmd.Process.Pid; now != pid {
		t.Errorf("process %d where there was %d", now, pid)
	}
}

// TestTorchArrays reads views of arrays: by their own names, by those of the dataset,
// and beside pictures that are no arrays.
func TestTorchArrays(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()
	dir, names := tree(t, 8)
	registry := codecs.Default(transcode.Limits{})
	l := torch(t, 0, 3)
	for _, spec := range []string{
		"npy", "resize256-npy", "grey-npy", "resize256-crop224-float32-npy", "resize256-crop224-float32-chw-npy", "chw-npy",
	} {
		pipeline, err := registry.Parse(spec)
		testenv.Must(t, err)
		view := t.TempDir()
		var arrays []string
		for _, name := range names {
			data, err := os.ReadFile(filepath.Join(dir, name))
			testenv.Must(t, err)
			info, err := registry.ProbeBytes(data)
			testenv.Must(t, err)
			array, err := registry.Plan(pipeline, info, transcode.Image).Run(t.Context(), data)
			testenv.Must(t, err)
			own := strings.TrimSuffix(name, filepath.Ext(name)) + ".npy"
			write(t, filepath.Join(view, own), array)
			arrays = append(arrays, own)
		}
		if e, err := l.Epoch(t.Context(), Job{Dir: view}); err != nil {
			t.Errorf("%s: %v", spec, err)
		} else {
			check(t, e, 8, bytesOf(t, view, arrays))
		}
		// A mount resolves the dataset's names as well.
		for i, own := range arrays {
			testenv.Must(t, os.Link(filepath.Join(view, own), filepath.Join(view, names[i])))
		}
		testenv.Must(t, os.Link(filepath.Join(dir, names[0]), filepath.Join(view, "class1/unchanged.jpg")))
		listed := append(names, "class1/unchanged.jpg")
		if e, err := l.Epoch(t.Context(), Job{Dir: view, Files: listed}); err != nil {
			t.Errorf("%s, by the names of the dataset: %v", spec, err)
		} else {
			check(t, e, 9, bytesOf(t, view, listed))
		}
	}
}

// TestTorchIsGone wants the error to say what the process said last, and the next
// epoch to be read all the same.
func TestTorchIsGone(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()
	dir, names := tree(t, 4)
	l := torch(t, 1, 2)
	if _, err := l.running.messages.Write([]byte("its last words\n")); err != nil {
		t.Fatal(err)
	}
	p := l.running.cmd.Process
	go func() {
		for len(members(p.Pid)) < 2 && t.Context().Err() == nil { // its worker is there
			time.Sleep(5 * time.Millisecond)
		}
		_ = p.Kill()
	}()
	_, err := l.Epoch(t.Context(), Job{Dir: dir, Files: names, Compute: Compute{Time: time.Hour, Batch: 2}})
	if err == nil || !strings.Contains(err.Error(), "killed") || !strings.Contains(err.Error(), "its last words") {
		t.Errorf("%v", err)
	}
	if len(members(p.Pid)) > 0 {
		t.Error("its workers are still there")
	}
	if _, err := l.Epoch(t.Context(), Job{Dir: dir, Files: names}); err != nil {
		t.Errorf("the next: %v", err)
	}
}

// TestTorchDiesWithUs wants nothing to be left when the program that reads is killed,
// which cannot tidy up. The program is this test.
func TestTorchDiesWithUs(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()
	const dirEnv = "PIPEFS_TEST_TORCH_DIR"
	if dir := os.Getenv(dirEnv); dir != "" {
		l := torch(t, 2, 1)
		write(t, filepath.Join(dir, "group"), fmt.Append(nil, l.running.cmd.Process.Pid, "\n"))
		_, err := l.Epoch(t.Context(), Job{Dir: dir, Compute: Compute{Time: time.Hour, Batch: 2}})
		t.Fatalf("it should have been killed: %v", err)
	}
	dir := t.TempDir()
	// Who opens these waits for a writer: here both workers do.
	pictures := []string{filepath.Join(dir, "class/1.jpg"), filepath.Join(dir, "class/2.jpg")}
	testenv.Must(t, os.Mkdir(filepath.Dir(pictures[0]), 0o755))
	for _, name := range pictures {
		testenv.Must(t, unix.Mkfifo(name, 0o600))
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestTorchDiesWithUs$")
	cmd.Env = append(os.Environ(), dirEnv+"="+dir)
	var messages tail
	messages.most = 1 << 12
	cmd.Stdout, cmd.Stderr = &messages, &messages
	testenv.Must(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	var group int
	until(t, func() bool {
		b, _ := os.ReadFile(filepath.Join(dir, "group"))
		_, err := fmt.Sscanln(string(b), &group)
		return err == nil && len(members(group)) == 3
	}, func() string {
		return fmt.Sprintf("%d processes where an interpreter and two workers should be\n%s", len(members(group)), messages.lines(20))
	})
	for _, name := range pictures {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		testenv.Must(t, err)
		defer f.Close()
	}
	testenv.Must(t, cmd.Process.Signal(unix.SIGKILL))
	until(t, func() bool { return len(members(group)) == 0 }, func() string {
		_ = unix.Kill(-group, unix.SIGKILL)
		return "processes are left"
	})
}

// until waits for a condition.
func until(t *testing.T, met func() bool, otherwise func() string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !met(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(otherwise())
		}
	}
}

func TestFindTorch(t *testing.T) {
	t.Parallel()
	_, err := FindTorch(t.Context(), "/bin/no-such-python")
	if err == nil || !strings.Contains(err.Error(), "/bin/no-such-python: not there") {
		t.Errorf("%v", err)
	}
	// Any python3 will do, without its packages.
	bare := filepath.Join(t.TempDir(), "python")
	write(t, bare, []byte("#!/bin/sh\nexec /usr/bin/python3 -I -S \"$@\"\n"))
	testenv.Must(t, os.Chmod(bare, 0o755))
	_, err = FindTorch(t.Context(), bare)
	if err == nil || !strings.Contains(err.Error(), bare+": no torchvision, torch") {
		t.Errorf("%v", err)
	}
	// Chosen all the same, it says what is wrong with it.
	_, err = NewTorch(t.Context(), bare, 1, 1)
	if err == nil || !strings.Contains(err.Error(), "No module named") {
		t.Errorf("%v", err)
	}
}
