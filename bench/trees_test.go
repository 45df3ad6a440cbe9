package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// manyFiles makes a dataset of classes that have so many files each.
func manyFiles(b *testing.B, classes, perClass int, data []byte) string {
	b.Helper()
	dataset := filepath.Join(b.TempDir(), "dataset")
	for c := range classes {
		dir := filepath.Join(dataset, fmt.Sprintf("class%03d", c))
		testenv.Must(b, os.MkdirAll(dir, 0o755))
		for i := range perClass {
			testenv.Must(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("n%08d_%d.JPEG", c, i)), data, 0o644))
		}
	}
	return dataset
}

// BenchmarkMountAndList mounts an unprepared dataset of 100,000 files, lists all of
// original/, and measures the memory of the daemon for each file. The control is listing
// the tree itself.
func BenchmarkMountAndList(b *testing.B) {
	const classes, perClass = 100, 1000
	dataset := manyFiles(b, classes, perClass, nil)
	env := testmount.Home(b)
	empty, unmount := testmount.MountOnce(b, env, dataset, "--no-background")
	floor := residentBytes(b, attach(b, empty).PID)
	unmount()
	var memory []float64
	compare(b, "files", classes*perClass,
		func() float64 { return seconds(func() { files(b, dataset) }) },
		func() float64 {
			var mnt string
			var unmount func()
			took := seconds(func() {
				mnt, unmount = testmount.MountOnce(b, env, dataset, "--no-background")
				if n := len(files(b, filepath.Join(mnt, "original"))); n != classes*perClass {
					b.Fatalf("listed %d files", n)
				}
			})
			memory = append(memory, residentBytes(b, attach(b, mnt).PID)-floor)
			unmount()
			b.ReportMetric(took, "s-to-mount-and-list")
			return took
		})
	b.ReportMetric(views.Median(memory)/(classes*perClass), "daemon-bytes/file")
}

// BenchmarkStatEvery asks for the size of each of 128,000 small pictures in original/,
// with find, in a new mount of the dataset and of a store. The control is the same find
// in the tree itself.
func BenchmarkStatEvery(b *testing.B) {
	const classes, perClass = 100, 1280
	var picture bytes.Buffer
	testenv.Must(b, jpeg.Encode(&picture, image.NewRGBA(image.Rect(0, 0, 8, 8)), nil))
	dataset := manyFiles(b, classes, perClass, picture.Bytes())
	env := testmount.Home(b)
	store := filepath.Join(b.TempDir(), "store")
	testmount.Command(b, env, "pack", dataset, store)
	find := func(dir string) float64 {
		return seconds(func() {
			out, err := exec.Command("find", dir, "-type", "f", "-size", "+0").Output()
			if n := bytes.Count(out, []byte("\n")); err != nil || n != classes*perClass {
				b.Fatalf("found %d files, %v", n, err)
			}
		})
	}
	for name, source := range map[string]string{"tree": dataset, "store": store} {
		b.Run(name, func(b *testing.B) {
			compare(b, "files", classes*perClass, func() float64 { return find(dataset) }, func() float64 {
				mnt, unmount := testmount.MountOnce(b, env, source, "--no-background")
				defer unmount()
				return find(filepath.Join(mnt, "original"))
			})
		})
	}
}

// BenchmarkPackJPEG packs JPEG files on all cores. The control is jpegtran, one process
// for each file, on the same cores.
func BenchmarkPackJPEG(b *testing.B) {
	dataset := testmount.Generate(b, "-samples", "300", "-png-every", "0")
	names := files(b, filepath.Join(dataset))
	env := testmount.Home(b)
	list := filepath.Join(b.TempDir(), "list")
	var jpegs []string
	for _, name := range names {
		if strings.HasSuffix(name, ".jpg") {
			jpegs = append(jpegs, name)
		}
	}
	testenv.Must(b, os.WriteFile(list, []byte(strings.Join(jpegs, "\n")), 0o644))
	// -outfile /dev/null: the control does not even write
	script := fmt.Sprintf(`xargs -a %s -P "$(nproc)" -n 1 jpegtran -copy all -progressive -outfile /dev/null`, list)
	run := 0
	compare(b, "files", float64(len(jpegs)),
		func() float64 {
			return seconds(func() {
				if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
			})
		},
		func() float64 {
			run++
			store := filepath.Join(b.TempDir(), fmt.Sprint(run))
			return seconds(func() { testmount.Command(b, env, "pack", dataset, store) })
		})
}

// loaderEpoch reads a directory once with PyTorch, and returns the seconds.
func loaderEpoch(b *testing.B, dir string) float64 {
	b.Helper()
	out, err := exec.Command("/usr/bin/python3", "loader/imagefolder.py", dir).Output()
	testenv.Must(b, err)
	var row struct{ Seconds float64 }
	testenv.Must(b, json.Unmarshal(out, &row))
	return row.Seconds
}

// BenchmarkFirstEpoch reads the first epoch of original/ with PyTorch, 2 workers. The
// control is an epoch of the tree itself. It is measured alone, while the background
// prepares scan5/, and the latter with the pictures on the disk and not in the page
// cache, for both, as in a true first epoch.
func BenchmarkFirstEpoch(b *testing.B) {
	const images = 2000
	dataset := testmount.Generate(b, "-samples", "100", "-copies", "20", "-png-every", "0")
	loaderEpoch(b, dataset)
	plain := files(b, dataset)
	for _, c := range []struct {
		name string
		args []string
		cold bool
	}{{"alone", []string{"--no-background"}, false}, {"background", nil, false}, {"cold", nil, true}} {
		prepare := func() {
			if c.cold {
				evict(b, plain)
			}
		}
		b.Run(c.name, func(b *testing.B) {
			compare(b, "images", images,
				func() float64 { prepare(); return loaderEpoch(b, dataset) },
				func() float64 {
					// directories of its own: nothing is prepared yet
					mnt, unmount := testmount.MountOnce(b, testmount.Home(b), dataset, c.args...)
					defer unmount()
					if _, err := os.ReadDir(filepath.Join(mnt, "scan5")); err != nil {
						b.Fatal(err)
					}
					prepare()
					return loaderEpoch(b, filepath.Join(mnt, "original"))
				})
		})
	}
}

// BenchmarkLaterEpoch measures what noticing changes costs: later epochs of original/ by
// PyTorch, 2 workers, against the same mount with --immutable. A dataset on the disk is
// watched. A dataset in another mount is checked at each open.
func BenchmarkLaterEpoch(b *testing.B) {
	const images = 1000
	dataset := testmount.Generate(b, "-samples", "100", "-copies", "10", "-png-every", "0")
	env := testmount.Home(b)
	far := filepath.Join(testmount.Mount(b, env, dataset, "--no-background", "--immutable"), "original")
	for _, c := range []struct{ name, dataset string }{{"watched", dataset}, {"checked", far}} {
		b.Run(c.name, func(b *testing.B) {
			epoch := func(args ...string) pass {
				dir := filepath.Join(testmount.Mount(b, env, c.dataset, append(args, "--no-background")...), "original")
				loaderEpoch(b, dir)
				return func() float64 { return loaderEpoch(b, dir) }
			}
			compare(b, "images", images, epoch("--immutable"), epoch())
		})
	}
}

// BenchmarkNotice measures how long a file that was replaced in a watched dataset still
// shows its old content to a reader that opens it: one file, which is read again and
// again meanwhile, and each of a thousand files that are replaced at once.
func BenchmarkNotice(b *testing.B) {
	const files = 1000
	dataset := b.TempDir()
	content := func(version int) []byte { return fmt.Append(nil, "version ", version) }
	replace := func(i, version int) {
		name := filepath.Join(dataset, fmt.Sprintf("%d.jpg", i))
		testenv.Must(b, os.WriteFile(name+".tmp", content(version), 0o644))
		testenv.Must(b, os.Rename(name+".tmp", name))
	}
	for i := range files {
		replace(i, 0)
	}
	original := filepath.Join(testmount.Mount(b, testmount.Home(b), dataset, "--no-background"), "original")
	until := func(i, version int) {
		for {
			// ESTALE: opened before the kernel was told, and read after
			got, _ := os.ReadFile(filepath.Join(original, fmt.Sprintf("%d.jpg", i)))
			if bytes.Equal(got, content(version)) {
				return
			}
		}
	}
	version := 0
	for _, n := range []int{1, files} {
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			for i := range n {
				replace(i, version)
			}
			for i := range n {
				until(i, version)
			}
			var took []float64
			for b.Loop() {
				version++
				for i := range n {
					replace(i, version)
				}
				start := time.Now()
				for i := range n {
					until(i, version)
				}
				took = append(took, time.Since(start).Seconds())
			}
			b.ReportMetric(1000*views.Median(took), "ms-median")
			b.ReportMetric(0, "ns/op")
		})
	}
}
