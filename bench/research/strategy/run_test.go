package strategy

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// digests collects what each epoch made of each sample.
type digests struct {
	mu   sync.Mutex
	seen map[int]map[[32]byte]int
}

func (d *digests) visit(_ context.Context, i int, p transcode.Payload) error {
	h := sha256.New()
	if px := p.Pixels; px != nil {
		fmt.Fprint(h, px.Width, px.Height, px.Mode, px.Type, px.Planar, px.Palette, "\n")
		h.Write(px.Pix)
	} else {
		h.Write(p.Bytes)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen == nil {
		d.seen = map[int]map[[32]byte]int{}
	}
	if d.seen[i] == nil {
		d.seen[i] = map[[32]byte]int{}
	}
	d.seen[i][[32]byte(h.Sum(nil))]++
	return nil
}

// TestSameResults wants the same bits of every sample from all splits, compressions,
// caches and workers.
func TestSameResults(t *testing.T) {
	testenv.Slow(t)
	jpegs, workers := 12, []int{1, 3}
	if testenv.Race { // make test takes all of them without the detector
		jpegs, workers = 4, []int{3}
	}
	root, files := dataset(t, jpegs)
	turn := 0
	for spec, roles := range map[string]transcode.Roles{
		"resize64-center":              {},
		"resize64-center-grey":         {},
		"resize64-grey-center-chw":     {Masks: []string{"mask.png"}},
		"scan5-resize64-float32":       {Images: []string{"deep.png"}},
		"half-npy":                     {},
		"upright-crop40-jpeg90":        {Images: []string{"**/*.png"}},
		"scan5":                        {},
		"resize48-png":                 {Masks: []string{"mask.png"}},
		"baseline":                     {},
		"quarter-jpeg90":               {Masks: []string{"mask.png", "deep.png"}},
		"scan2-resize32-center-npy":    {Masks: []string{"class/a/*.jpg"}},
		"l3":                           {},
		"half-resize32-grey-float32":   {},
		"resize64-center-chw-npy":      {Images: []string{"mask.png"}},
		"resize40-crop32-grey-float32": {},
	} {
		t.Run(spec, func(t *testing.T) {
			work := t.TempDir()
			compressions := []string{None, Compressions[1+turn%3]}
			turn++
			var d digests
			r, err := run(t.Context(), Config{
				Registry: registry, Pipeline: parse(t, spec), Root: root, Files: files, Roles: roles, Work: work,
				Workers: workers, Compressions: compressions, Caches: Caches, Rounds: 1,
			}, d.visit)
			testenv.Must(t, err)
			if len(r.Faulty) != 1 || r.Faulty[0].Path != "broken.jpg" || r.Samples != jpegs+4 {
				t.Errorf("%d samples, faulty %v", r.Samples, r.Faulty)
			}
			epochs := 3 * len(r.Rows)
			if want := len(workers) * (1 + 2*(len(views.Splits(registry, parse(t, spec)))-1)); len(r.Rows) != want {
				t.Errorf("%d rows, want %d", len(r.Rows), want)
			}
			for i := range r.Samples {
				if len(d.seen[i]) != 1 {
					t.Errorf("sample %d has %d results", i, len(d.seen[i]))
				}
				for _, n := range d.seen[i] {
					if n != epochs {
						t.Errorf("sample %d: %d results in %d epochs", i, n, epochs)
					}
				}
			}
			wantViews(t, spec, roles, root, files, &d)
			wantEmpty(t, work)
		})
	}
}

// wantViews wants what the view of the same pipeline gives: the steps that are run
// here one by one are those that a mount runs.
func wantViews(t *testing.T, spec string, roles transcode.Roles, root string, files []string, d *digests) {
	t.Helper()
	p := parse(t, spec)
	i := 0
	for _, name := range files {
		if name == "broken.jpg" || !registry.IsSample(name) {
			continue
		}
		src, err := os.ReadFile(filepath.Join(root, name))
		testenv.Must(t, err)
		info, err := registry.ProbeBytes(src)
		testenv.Must(t, err)
		plan := registry.Plan(p, info, roles.Of(name))
		want, err := plan.Run(t.Context(), src)
		testenv.Must(t, err)
		s := &sample{name: name, info: info, role: roles.Of(name), steps: plan.Steps()}
		// All steps, also a last npy: the file that the view has.
		out, err := s.run(t.Context(), registry.Limits(), s.source(src), 0, p.Len())
		testenv.Must(t, err)
		if string(out.Bytes) != string(want) {
			t.Errorf("%s: not what the view gives", name)
		}
		// And without it what the epochs saw.
		out, err = s.run(t.Context(), registry.Limits(), s.source(src), 0, len(views.Work(p)))
		testenv.Must(t, err)
		var one digests
		testenv.Must(t, one.visit(t.Context(), i, out))
		for sum := range one.seen[i] {
			if d.seen[i][sum] == 0 {
				t.Errorf("%s: the epochs gave something else", name)
			}
		}
		i++
	}
}

// TestReport wants figures in every row that can be true.
func TestReport(t *testing.T) {
	root, files := dataset(t, 20)
	var heard []string
	r, err := Run(t.Context(), Config{
		Registry: registry, Pipeline: parse(t, "resize64-center"), Root: root, Files: files, Work: t.TempDir(), Rounds: 4,
		Workers: []int{2}, Compressions: []string{None, Zstd}, Caches: Caches, Dataset: 2300,
		Progress: func(s string) { heard = append(heard, s) },
	})
	testenv.Must(t, err)
	if r.Pipeline != "resize64-center-npy" || r.Rounds != 4 || r.Interrupted || len(heard) == 0 || r.Winner < 0 || r.Base < 0 {
		t.Errorf("%+v", r)
	}
	// deep.png and mask.png may be masks: only decoded.
	if r.Samples != 24 || r.Partly != 2 || r.Unchanged != 0 || r.Dataset != 2300 || r.Whole(24) != 2300 {
		t.Errorf("%d samples, %d partly, %d unchanged", r.Samples, r.Partly, r.Unchanged)
	}
	stored := map[string]int64{}
	for i := range r.Rows {
		row := &r.Rows[i]
		stored[row.Split.Name+" "+row.Compression] = row.Stored
		for _, cache := range Caches {
			e := row.Caches[cache]
			if e == nil || len(e.Rates) != 4 || e.Rate() <= 0 || e.Error != "" {
				t.Errorf("%s, cache %s: %+v", row.Split.Name, cache, e)
			}
		}
		if (row.Offline > 0) != row.Split.Stored || !row.Fits || row.Bandwidth(r.Samples) <= 0 {
			t.Errorf("%+v", row)
		}
	}
	most := int64(2*4*overhead + 24*overhead)
	if n := stored["packed none"] - r.Bytes; stored["unprocessed none"] != r.Bytes || n <= 0 || n > most {
		t.Errorf("stored %v of %d bytes", stored, r.Bytes)
	}
	if n := stored["center none"] - r.Results; n <= 0 || n > most {
		t.Errorf("center takes %d bytes for %d of results", stored["center none"], r.Results)
	}
	if stored["center zstd"] >= stored["center none"]/2 {
		t.Errorf("stored %v", stored)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

// TestApplicationDoesNotFit wants a reason in place of figures.
func TestApplicationDoesNotFit(t *testing.T) {
	root, files := dataset(t, 3)
	c := Config{Registry: registry, Pipeline: parse(t, "resize64-center"), Root: root, Files: files, Caches: []string{Application}}
	testenv.Must(t, c.complete())
	task, err := survey(t.Context(), &c)
	testenv.Must(t, err)
	task.samples[0].bodies[2] = 1 << 50
	row := &Row{Workers: 1, Caches: map[string]*Epochs{}, stored: &stored{task: task, split: 2, compression: None}}
	r := &runner{Config: c, task: task}
	testenv.Must(t, r.application(t.Context(), row))
	if e := row.Caches[Application]; len(e.Rates) != 0 || !strings.Contains(e.Error, "does not fit in memory") {
		t.Errorf("%+v", e)
	}
	if row.Lasting() != nil {
		t.Error("there is a rate")
	}
}

// TestCancel wants what there is, the error, and nothing left, wherever it is
// stopped.
func TestCancel(t *testing.T) {
	root, files := dataset(t, 6)
	for _, at := range []string{"looking", "storing", "round 1", "round 2"} {
		work := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		r, err := Run(ctx, Config{
			Registry: registry, Pipeline: parse(t, "resize64-center"), Root: root, Files: files, Work: work, Rounds: 3, Workers: []int{2},
			Progress: func(what string) {
				if strings.Contains(what, at) {
					// Not the first: something is there already.
					if n++; n == 3 || at == "looking" {
						cancel()
					}
				}
			},
		})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", at, err)
		}
		wantEmpty(t, work)
		switch at {
		case "looking":
			if r != nil {
				t.Errorf("%s: %+v", at, r)
			}
		case "storing":
			if len(r.Rows) != 0 || r.Winner != -1 || !r.Interrupted {
				t.Errorf("%s: %+v", at, r)
			}
		case "round 1":
			if len(r.Rows) != 2 || r.Rounds != 0 || !r.Interrupted || r.Winner < 0 {
				t.Errorf("%s: %d rows, %+v", at, len(r.Rows), r)
			}
		case "round 2":
			if len(r.Rows) != 5 || r.Rounds != 1 || !r.Interrupted {
				t.Errorf("%s: %d rows, %+v", at, len(r.Rows), r)
			}
		}
	}
}

// TestRefused wants errors that say what to do, and nothing left.
func TestRefused(t *testing.T) {
	root, files := dataset(t, 2)
	good := Config{Registry: registry, Pipeline: parse(t, "resize64-center"), Root: root, Files: files}
	for want, change := range map[string]func(*Config){
		"there is nothing to split":           func(c *Config) { c.Pipeline = transcode.Pipeline{} },
		`unknown compression "lz4"`:           func(c *Config) { c.Compressions = []string{"lz4"} },
		`unknown cache "disk"`:                func(c *Config) { c.Caches = []string{"disk"} },
		"number of workers 2 stands twice":    func(c *Config) { c.Workers = []int{2, 2} },
		"0 workers":                           func(c *Config) { c.Workers = []int{0} },
		"weights are numbers":                 func(c *Config) { c.Weights.Time = -1 },
		"none of the 1 samples":               func(c *Config) { c.Files = []string{"broken.jpg"} },
		"none of the 1 files in":              func(c *Config) { c.Files = []string{"labels.json"} },
		"no such file":                        func(c *Config) { c.Files = append(slices.Clone(files), "gone.jpg") },
		"a directory to work in":              func(c *Config) { c.Work = filepath.Join(c.Work, "nowhere") },
		"class":                               func(c *Config) { c.Files = []string{"class.jpg"} },
		`glob pattern "[" is malformed`:       func(c *Config) { c.Roles.Masks = []string{"["} },
		"none of the 0 files in " + root + "": func(c *Config) { c.Files = nil },
	} {
		c := good
		c.Work = t.TempDir()
		if strings.HasPrefix(want, "class") {
			c.Root = t.TempDir()
			testenv.Must(t, os.Mkdir(filepath.Join(c.Root, "class.jpg"), 0o755))
			want = "is a directory"
		}
		work := c.Work
		change(&c)
		if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		wantEmpty(t, work)
	}
	if err := checkRoom(root, 1<<60); err == nil || !strings.Contains(err.Error(), "take fewer samples") {
		t.Errorf("%v", err)
	}
	var room *RoomError
	if err := checkRoom(root, 1<<60); !errors.As(err, &room) || room.Need != 1<<60 {
		t.Errorf("%v", err)
	}
}

// TestChanged wants a dataset that changes meanwhile to be told.
func TestChanged(t *testing.T) {
	root, files := dataset(t, 4)
	_, err := Run(t.Context(), Config{
		Registry: registry, Pipeline: parse(t, "resize64-center"), Root: root, Files: files, Work: t.TempDir(), Rounds: 1,
		Progress: func(what string) {
			if strings.HasPrefix(what, "reading unprocessed") {
				if err := os.WriteFile(filepath.Join(root, files[1]), []byte("shorter"), 0o644); err != nil {
					t.Error(err)
				}
			}
		},
	})
	if err == nil || !strings.Contains(err.Error(), files[1]+" has changed") {
		t.Error(err)
	}
}

// registry is the usual one.
var registry = codecs.Default(transcode.Limits{})

// dataset writes JPEG files, RGB PNG files, one with alpha, a grey one of 16 bits, a
// mask, a broken file and a label file, and returns their paths below root.
func dataset(t testing.TB, jpegs int) (root string, files []string) {
	t.Helper()
	root = t.TempDir()
	add := func(name string, err error) {
		t.Helper()
		testenv.Must(t, err)
		files = append(files, name)
	}
	draw := func(name string, img image.Image) {
		t.Helper()
		add(name, pictures.Write(filepath.Join(root, name), img))
	}
	for i := range jpegs {
		draw(fmt.Sprintf("class/%c/p%02d.jpg", 'a'+i%3, i), pictures.Photo(90+7*i%60, 70+3*i%40, uint64(i)))
	}
	photo := pictures.Photo(101, 67, 77)
	draw("rgb.png", photo)
	alpha := image.NewNRGBA(photo.Rect)
	copy(alpha.Pix, photo.Pix)
	for i := 3; i < len(alpha.Pix); i += 4 {
		alpha.Pix[i] = byte(i)
	}
	draw("alpha.png", alpha)
	deep := image.NewGray16(image.Rect(0, 0, 50, 40))
	for i := range 50 * 40 {
		deep.SetGray16(i%50, i/50, color.Gray16{Y: uint16(i * 31)})
	}
	draw("deep.png", deep)
	draw("mask.png", pictures.Mask(80, 60, 5, 3))
	add("broken.jpg", os.WriteFile(filepath.Join(root, "broken.jpg"), []byte("no picture"), 0o644))
	add("labels.json", os.WriteFile(filepath.Join(root, "labels.json"), []byte("{}"), 0o644))
	return root, files
}

func parse(t testing.TB, spec string) transcode.Pipeline {
	t.Helper()
	p, err := views.ParsePipeline(registry, spec)
	testenv.Must(t, err)
	return p
}

// wantEmpty wants nothing to be left in a directory.
func wantEmpty(t testing.TB, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err == nil && name != dir {
			t.Errorf("%s was left", name)
		}
		return err
	})
	testenv.Must(t, err)
}

// TestWithGrey wants the step on both sides of the last one, where that is possible.
func TestWithGrey(t *testing.T) {
	for spec, want := range map[string][]string{
		"resize256-center": {"resize256-grey-center-npy", "resize256-center-grey-npy"},
		"resize64-jpeg90":  {"resize64-grey-jpeg90"},
		"npy":              nil,
		"grey-center":      nil,
	} {
		var got []string
		pipelines, err := WithGrey(registry, parse(t, spec))
		for _, p := range pipelines {
			got = append(got, p.String())
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", spec, d)
		}
		if (err == nil) != (len(want) == 2) {
			t.Errorf("%s: error %v", spec, err)
		}
	}
}
