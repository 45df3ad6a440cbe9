package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// damages are ways in which files of a dataset are broken, first of JPEG and then of PNG.
var damages = [2][]func([]byte) []byte{{
	func(b []byte) []byte { return b[:len(b)/2] },
	func(b []byte) []byte { return b[:20] },
	func([]byte) []byte { return nil },
	func(b []byte) []byte { return make([]byte, len(b)) },
	func([]byte) []byte { return []byte("<html>404 not found</html>") },
	func(b []byte) []byte { return append([]byte("\x89PNG\r\n\x1a\n"), b...) },
	func(b []byte) []byte { i := frame(b); b[i+4] ^= 0x55; b[i+9] ^= 0x7f; return b },
	func(b []byte) []byte { i := frame(b); copy(b[i+5:], "\xff\xff\xff\xff"); return b },
}, {
	func(b []byte) []byte { clear(b[len(b)/2:]); return b },
	func(b []byte) []byte { return b[:len(b)/2] },
	func(b []byte) []byte { b[24] ^= 0x3b; return b },
	func(b []byte) []byte {
		binary.BigEndian.PutUint32(b[16:], 60000)
		binary.BigEndian.PutUint32(b[20:], 60000)
		binary.BigEndian.PutUint32(b[29:], crc32.ChecksumIEEE(b[12:29]))
		return b
	},
}}

// frame is where the header of the picture is in a JPEG file.
func frame(b []byte) int {
	i := 2
	for b[i+1] != 0xc0 && b[i+1] != 0xc2 {
		i += 2 + int(binary.BigEndian.Uint16(b[i+2:]))
	}
	return i
}

// damagedTree is a dataset of 240 samples of six classes, two damaged in each of twelve ways.
func damagedTree(t *testing.T) (dataset string, bad []string) {
	t.Helper()
	dataset = testmount.Generate(t, "-samples", "240", "-classes", "6", "-width", "120", "-height", "90", "-png-every", "4")
	for kind, ext := range []string{".jpg", ".png"} {
		files, err := filepath.Glob(filepath.Join(dataset, "*/*"+ext))
		testenv.Must(t, err)
		ways := damages[kind]
		for i := range 2 * len(ways) {
			file := files[i*len(files)/(2*len(ways))]
			data, err := os.ReadFile(file)
			testenv.Must(t, err)
			testenv.Must(t, os.WriteFile(file, ways[i%len(ways)](data), 0o644))
			bad = append(bad, strings.TrimPrefix(file, dataset+"/"))
		}
	}
	return dataset, bad
}

// TestExplainFailed wants explain to name the cause with which a read failed, also if the file was
// damaged after the mount.
func TestExplainFailed(t *testing.T) {
	t.Parallel()
	env := testmount.Home(t)
	dataset := testmount.Generate(t, "-samples", "4", "-classes", "1", "-width", "120", "-height", "90")
	files, err := filepath.Glob(filepath.Join(dataset, "*/*.jpg"))
	testenv.Must(t, err)
	mnt := testmount.Mount(t, env, dataset)
	name := strings.TrimPrefix(files[0], dataset+"/")
	file := filepath.Join(mnt, "bmp-own", name)
	if _, err := os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	if out := testmount.Command(t, env, "explain", file); strings.Contains(out, "failed") {
		t.Errorf("explain of a file that was read:\n%s", out)
	}
	info, err := os.Stat(files[0])
	testenv.Must(t, err)
	testenv.Must(t, os.Truncate(files[0], info.Size()/2))
	for { // until the mount has noticed
		if _, err := os.ReadFile(file); errors.Is(err, unix.EIO) {
			break
		} else if err != nil && !errors.Is(err, unix.ESTALE) {
			t.Fatal(err)
		}
	}
	if out := testmount.Command(t, env, "explain", file); !strings.Contains(out, "failed    truncated: jpeg, ") {
		t.Errorf("explain of a file that cannot be read:\n%s", out)
	}
	if out := testmount.Command(t, env, "explain", filepath.Join(mnt, "original", name)); strings.Contains(out, "failed") {
		t.Errorf("explain of a file that is shown as it is:\n%s", out)
	}
}

// TestBadSamples wants other samples of the same class in the place of 24 of 240, in views that
// ImageFolder reads and in epochs of two ranks, from a dataset and from a store, and an error beyond
// the limit.
func TestBadSamples(t *testing.T) {
	t.Parallel()
	env := testmount.Home(t)
	dataset, bad := damagedTree(t)
	store := filepath.Join(t.TempDir(), "store")
	testmount.Command(t, env, "pack", dataset, store)
	list := filepath.Join(t.TempDir(), "bad.csv")
	fails(t, env, "check", dataset, "--list", list)
	listed, err := os.ReadFile(list)
	testenv.Must(t, err)
	if n := bytes.Count(listed, []byte("\n")); n != 25 {
		t.Errorf("check names %d samples\n%s", n-1, listed)
	}
	var shown [][]byte
	for _, source := range []string{dataset, store} {
		log := filepath.Join(t.TempDir(), "log")
		mnt, unmount := testmount.MountOnce(t, env, source, "--on-error", "replace", "--on-error-limit", "10%", "--log-file", log)
		var roots []string
		for _, view := range []string{"bmp", "png", "scan5", "resize64-bmp-own", ".draw/7/0/rrc64-hflip-ppm"} {
			roots = append(roots, filepath.Join(mnt, view))
		}
		python(t, "testdata/check_bad.py", roots...)
		for _, name := range bad {
			a, err := os.ReadFile(filepath.Join(mnt, "bmp-own", name))
			testenv.Must(t, err)
			if info, err := os.Stat(filepath.Join(mnt, "bmp-own", name)); err != nil || info.Size() != int64(len(a)) {
				t.Errorf("%s has %d bytes: %v, %v", name, len(a), info, err)
			}
		}
		// Each line names a sample of the class that can be made, and its pixels are there.
		wrong := 0
		for rank := range 2 {
			dir := filepath.Join(mnt, fmt.Sprintf(".epoch/7/0/2/%d/40/rgb-rrc64-hflip-npy", rank))
			for k := range 3 {
				stem := filepath.Join(dir, fmt.Sprintf("%06d", k))
				pixels, err := os.ReadFile(stem + ".npy")
				testenv.Must(t, err)
				labels, err := os.ReadFile(stem + ".labels.npy")
				testenv.Must(t, err)
				lines, err := os.ReadFile(stem + ".paths.txt")
				testenv.Must(t, err)
				shown = append(shown, lines, pixels)
				for i, name := range strings.Fields(string(lines)) {
					alone, err := os.ReadFile(filepath.Join(mnt, ".draw/7/0/rgb-rrc64-hflip-npy", strings.TrimSuffix(name, filepath.Ext(name))+".npy"))
					testenv.Must(t, err)
					if !bytes.Equal(alone[128:], pixels[128+64*64*3*i:][:64*64*3]) || name[:7] != fmt.Sprintf("class%02d", labels[128+8*i]) {
						wrong++
					}
					if slices.Contains(bad, name) {
						t.Errorf("%s is there", name)
					}
				}
			}
		}
		if wrong > 0 {
			t.Errorf("%d samples are not what their lines and labels say", wrong)
		}
		stats := testmount.Command(t, env, "stats", mnt)
		unmount()
		told, err := os.ReadFile(log)
		testenv.Must(t, err)
		for _, name := range bad {
			if !strings.Contains(stats, name) || !strings.Contains(string(told), `msg="bad sample"`) || strings.Count(string(told), "sample="+name+" ") != 2 {
				t.Errorf("%s is not told twice in the log, and in stats", name)
			}
		}
	}
	if half := len(shown) / 2; !slices.EqualFunc(shown[:half], shown[half:], bytes.Equal) {
		t.Error("the mounts of a dataset and of its store show other samples in the place of bad ones")
	}

	// Beyond the limit, which counts up
	mnt := testmount.Mount(t, env, dataset, "--on-error", "replace")
	failed := 0
	for _, name := range bad {
		if _, err := os.ReadFile(filepath.Join(mnt, "bmp-own", name)); errors.Is(err, unix.EUCLEAN) {
			failed++
		} else {
			testenv.Must(t, err)
		}
	}
	if failed != 24-5 {
		t.Errorf("%d of 24 bad samples failed", failed)
	}
}

// TestBadTargets wants no replacement where samples have targets of their own, and to be told why.
// Of a mount that is not watched it wants a sample that is repaired to be shown.
func TestBadTargets(t *testing.T) {
	t.Parallel()
	env := testmount.Home(t)
	dataset := testmount.Generate(t, "-samples", "12", "-classes", "3", "-png-every", "0")
	broken := firstOf(t, filepath.Join(dataset, "class01"))
	whole, err := os.ReadFile(broken)
	testenv.Must(t, err)
	testenv.Must(t, os.WriteFile(broken, whole[:len(whole)/2], 0o644))
	caption := strings.TrimSuffix(firstOf(t, filepath.Join(dataset, "class02")), ".jpg") + ".txt"
	testenv.Must(t, os.WriteFile(caption, []byte("a cat"), 0o644))
	last := strings.TrimSuffix(caption, ".txt") + ".jpg"
	testenv.Must(t, os.WriteFile(last, nil, 0o644))
	log := filepath.Join(t.TempDir(), "log")
	mnt := testmount.Mount(t, env, dataset, "--on-error", "replace", "--on-error-limit", "50%", "--log-file", log)
	name := filepath.Join(mnt, "bmp-own/class01", filepath.Base(broken))
	before, err := os.ReadFile(name)
	testenv.Must(t, err)
	if _, err := os.ReadFile(filepath.Join(mnt, "bmp-own/class02", filepath.Base(last))); !errors.Is(err, unix.EIO) {
		t.Errorf("a sample with a caption: %v", err)
	}
	told, err := os.ReadFile(log)
	testenv.Must(t, err)
	if !strings.Contains(string(told), "no other sample takes its place: "+strings.TrimPrefix(caption, dataset+"/")+" is the target of") {
		t.Errorf("%s", told)
	}
	testenv.Must(t, os.WriteFile(broken, whole, 0o644))
	testenv.Eventually(t, func() error {
		if now, err := os.ReadFile(name); err != nil || bytes.Equal(now, before) {
			return fmt.Errorf("the repaired sample is not shown: %w", err)
		}
		return nil
	})
}
