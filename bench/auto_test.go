package bench

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/pipefs/pipefs/internal/testmount"
)

// BenchmarkAutoLoader reads auto/ with an unmodified PyTorch loader, after `pipefs tune
// --apply`: standard augmentation, 2 workers. The controls are the same pixels as plain
// PPM files, which is the most that another format can give, and the source files. The
// page cache holds all of it, except for the first epoch of auto/.
func BenchmarkAutoLoader(b *testing.B) {
	const samples = 240
	for name, every := range map[string]string{"png": "1", "jpeg": "0"} {
		dataset := testmount.Generate(b, "-samples", strconv.Itoa(samples), "-width", "500", "-height", "375", "-png-every", every)
		env := testmount.Home(b)
		store, plain := filepath.Join(b.TempDir(), "store"), filepath.Join(b.TempDir(), "plain")
		testmount.Command(b, env, "pack", "--originals", "keep", dataset, store)
		tune := exec.Command(testmount.Binary(b), "tune", "--apply", store)
		tune.Env = env
		if out, err := tune.CombinedOutput(); bytes.Contains(out, []byte("too noisy to tell")) {
			b.Skipf("auto leads nowhere:\n%s", out)
		} else if err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		testmount.Command(b, env, "export", store, "bmp", plain)
		for _, epoch := range []string{"first", "later"} {
			for control, dir := range map[string]string{"bmp": plain, "source": dataset} {
				b.Run(name+"/"+epoch+"/"+control, func(b *testing.B) {
					mnt, unmount := testmount.MountOnce(b, env, store, "--no-background")
					defer func() { unmount() }()
					auto := filepath.Join(mnt, "auto")
					if to, err := os.Readlink(auto); err == nil {
						b.Logf("auto leads to %s", to)
					}
					loaderEpoch(b, dir)
					if epoch == "later" {
						loaderEpoch(b, auto)
					}
					compare(b, "images", samples,
						func() float64 { return loaderEpoch(b, dir) },
						func() float64 {
							if epoch == "first" {
								unmount()
								mnt, unmount = testmount.MountOnce(b, env, store, "--no-background")
								auto = filepath.Join(mnt, "auto")
							}
							return loaderEpoch(b, auto)
						})
				})
			}
		}
	}
}
