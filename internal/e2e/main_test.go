package e2e

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

func TestMain(m *testing.M) { os.Exit(testmount.Main(m)) }

// packed packs a dataset that genset writes with the given flags.
func packed(t *testing.T, flags ...string) (env []string, dataset, store string) {
	t.Helper()
	dataset = testmount.Generate(t, flags...)
	env, store = testmount.Home(t), filepath.Join(t.TempDir(), "store")
	testmount.Command(t, env, "pack", dataset, store)
	return env, dataset, store
}

// shared is a directory of pictures that are no part of the project.
func shared(t *testing.T, name string) string {
	t.Helper()
	return filepath.Dir(testenv.Shared(t, name+"/*")[0])
}

// write writes a file into a tree, under each of the names.
func write(t *testing.T, tree string, content []byte, names ...string) {
	t.Helper()
	for _, name := range names {
		at := filepath.Join(tree, name)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil {
			err = os.WriteFile(at, content, 0o644)
		}
		testenv.Must(t, err)
	}
}

// link makes a class of an ImageFolder tree out of a directory of pictures.
func link(t *testing.T, tree, class, pictures string) {
	t.Helper()
	testenv.Must(t, os.MkdirAll(tree, 0o755))
	testenv.Must(t, os.Symlink(pictures, filepath.Join(tree, class)))
}

// linkSome makes a class out of one picture in n of a directory.
func linkSome(t *testing.T, tree, class, pictures string, n int) {
	t.Helper()
	testenv.Must(t, os.MkdirAll(filepath.Join(tree, class), 0o755))
	files, err := filepath.Glob(filepath.Join(pictures, "*.*g"))
	if err != nil || len(files) < n {
		t.Fatal(files, err)
	}
	for i := 0; i < len(files); i += n {
		testenv.Must(t, os.Symlink(files[i], filepath.Join(tree, class, filepath.Base(files[i]))))
	}
}

// python runs a script of testdata; what it prints is the judgement.
func python(t *testing.T, script string, args ...string) string {
	t.Helper()
	interpreter := os.Getenv("PYTHON")
	if interpreter == "" {
		interpreter = "/usr/bin/python3"
	}
	cmd := exec.Command(interpreter, append([]string{script}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("%s: %v (the judges are in python3-torchvision)", interpreter, err)
		}
		t.Fatalf("%s %v: %v\n%s", script, args, err, out)
	}
	return string(out)
}

// hashes reads every file under a directory.
func hashes(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	found := map[string][32]byte{}
	err := filepath.WalkDir(dir+"/", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if target, err := os.Stat(name); err != nil || target.IsDir() {
			if err == nil && e.Type()&fs.ModeSymlink != 0 {
				for sub, h := range hashes(t, name) {
					found[filepath.Join(strings.TrimPrefix(name, dir+"/"), sub)] = h
				}
			}
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		found[strings.TrimPrefix(name, dir+"/")] = sha256.Sum256(data)
		return nil
	})
	testenv.Must(t, err)
	return found
}
