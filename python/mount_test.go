package python_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// TestMount has one Python use pipefs.mount. The judgements are in tests/smoke.py, which
// make test-wheel runs with each Python and the wheel.
func TestMount(t *testing.T) {
	t.Parallel()
	testenv.Slow(t)
	run(t, "tests/smoke.py", testmount.Generate(t, "-samples", "6", "-width", "64", "-height", "48", "-png-every", "0"))
}

// TestRandomView compares what RandomView and draw give with what torchvision makes.
func TestRandomView(t *testing.T) {
	t.Parallel()
	testenv.Slow(t)
	run(t, "testdata/check_random.py", testmount.Generate(t, "-samples", "24", "-classes", "3", "-png-every", "6"))
}

// TestRecipes compares the steps that draw operations on values with torchvision's, for generated
// pictures and for photographs.
func TestRecipes(t *testing.T) {
	t.Parallel()
	testenv.Slow(t)
	run(t, "testdata/check_recipes.py", testmount.Generate(t, "-samples", "12", "-classes", "3", "-png-every", "6"))
	t.Run("photographs", func(t *testing.T) {
		dir := t.TempDir()
		for i, path := range testenv.Shared(t, "imagenet/*.JPEG")[:8] {
			b, err := os.ReadFile(path)
			testenv.Must(t, err)
			class := filepath.Join(dir, string(rune('a'+i%2)))
			testenv.Must(t, os.MkdirAll(class, 0o755))
			testenv.Must(t, os.WriteFile(filepath.Join(class, filepath.Base(path)), b, 0o644))
		}
		run(t, "testdata/check_recipes.py", dir)
	})
}

// TestMasks compares masks that follow their pictures with what torchvision makes of them.
func TestMasks(t *testing.T) {
	t.Parallel()
	testenv.Slow(t)
	run(t, "testdata/check_masks.py")
}

// TestSkip reads a dataset of which two samples are broken.
func TestSkip(t *testing.T) {
	t.Parallel()
	testenv.Slow(t)
	run(t, "testdata/check_skip.py", testmount.Generate(t, "-samples", "24", "-classes", "3", "-png-every", "0"))
}

// TestRandomViewOfURL wants of a store in a bucket, and of a dataset at a URL, what the dataset gives.
func TestRandomViewOfURL(t *testing.T) {
	s := testenv.S3(t)
	for _, line := range s.Env() {
		name, value, _ := strings.Cut(line, "=")
		t.Setenv(name, value)
	}
	dataset := testmount.Generate(t, "-samples", "12", "-classes", "3", "-png-every", "6")
	url := "s3://" + s.Bucket + "/in.store"
	testmount.Command(t, testmount.Home(t), "pack", dataset, url)
	run(t, "testdata/check_url.py", dataset, url)
}

// TestEpochView compares what EpochView gives with random views, ImageFolder and
// DistributedSampler.
func TestEpochView(t *testing.T) {
	t.Parallel()
	testenv.Slow(t)
	run(t, "testdata/check_epoch.py", testmount.Generate(t, "-samples", "24", "-classes", "3"))
}

// TestTraining reads epoch views and random views by ranks and by workers of all kinds, resumes, and
// does what is often done wrong.
func TestTraining(t *testing.T) {
	t.Parallel()
	testenv.Slow(t)
	t.Log(run(t, "testdata/check_training.py", testmount.Generate(t, "-samples", "37", "-classes", "3", "-width", "96", "-height", "72")))
}

// TestResumableSampler stops epochs of RandomView and other datasets, and goes on with other ranks and batches.
func TestResumableSampler(t *testing.T) {
	t.Parallel()
	testenv.Slow(t)
	run(t, "testdata/check_resume.py", testmount.Generate(t, "-samples", "37", "-classes", "3", "-width", "96", "-height", "72"))
}

// TestBatches compares the batches that a DataLoader gets of a RandomView with its items, for loaders and datasets of all kinds.
func TestBatches(t *testing.T) {
	t.Parallel()
	testenv.Slow(t)
	run(t, "testdata/check_batches.py", testmount.Generate(t, "-samples", "24", "-classes", "3", "-width", "96", "-height", "72"))
}

// TestTimed has trainings tell how long they wait, which decides whatever their readers do.
func TestTimed(t *testing.T) {
	testenv.Slow(t)
	dataset := testmount.Generate(t, "-samples", "6", "-width", "64", "-height", "48", "-png-every", "0")
	for _, c := range []struct{ wait, work, want string }{{"20", "300", "training"}, {"300", "50", "loader"}} {
		env := testmount.Home(t)
		mnt := testmount.Mount(t, env, dataset, "--no-background")
		run(t, "testdata/check_timed.py", mnt, c.wait, c.work)
		var stats struct {
			Account struct{ Timed struct{ Steps int } }
			Verdict struct {
				Culprits []string
				Text     string
			}
		}
		testenv.Must(t, json.Unmarshal([]byte(testmount.Command(t, env, "stats", "--json", mnt)), &stats))
		if v := stats.Verdict; stats.Account.Timed.Steps != 12 || v.Culprits[0] != c.want || !strings.Contains(v.Text, "by its own measurement") {
			t.Errorf("waits %s ms and works %s ms: %+v", c.wait, c.work, stats)
		}
	}
}
