package epoch

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// TestEpochs reads whole epochs as ranks do, and compares every byte with the samples made
// alone, and how often each comes with what DistributedSampler gives.
func TestEpochs(t *testing.T) {
	f := newFixture(t, map[string]int{"cat": 5, "dog/big": 3, "dog": 2, "dog-house": 1, "empty": 0, "zebra": 2}, nil)
	f.write("beside.jpg", 99)
	testenv.Must(t, os.WriteFile(filepath.Join(f.root, "cat/notes.txt"), nil, 0o644))
	list := []string{"cat/a.jpg", "cat/b.jpg", "cat/c.jpg", "cat/d.jpg", "cat/e.jpg", "dog/a.jpg", "dog/b.jpg", "dog/big/a.jpg", "dog/big/b.jpg", "dog/big/c.jpg", "dog-house/a.jpg", "zebra/a.jpg", "zebra/b.jpg"}
	// ImageFolder sorts the classes by name: dog before dog-house
	label := map[string]int64{"cat": 0, "dog": 1, "dog-house": 2, "empty": 3, "zebra": 4}
	const name = "rrc16-hflip-npy"
	const size = 16 * 16 * 3
	for seed := range uint64(3) {
		for epoch := range uint64(3) {
			order := order(seed, epoch, len(list), 0)
			for _, world := range []int{1, 2, 8} {
				times := map[string]int{}
				for rank := range world {
					v := f.view(fmt.Sprintf("%d/%d/%d/%d/3/%s", seed, epoch, world, rank, name))
					p := v.pipeline
					indices := make([]int, len(order))
					for i, n := range order {
						indices[i] = int(n)
					}
					k := 0
					for batch := range slices.Chunk(sampler(indices, world, rank, false), 3) {
						pixels, labels := f.read(v, fmt.Sprintf("%06d.npy", k)), f.read(v, fmt.Sprintf("%06d.labels.npy", k))
						var paths []string
						for i, n := range batch {
							path := list[n]
							paths = append(paths, path)
							times[path]++
							if !bytes.Equal(pixels[128+i*size:][:size], f.sample(p, path)) {
								t.Fatalf("%s batch %d: %s has other bytes", v.path, k, path)
							}
							class, _, _ := strings.Cut(path, "/")
							if got := int64(binary.LittleEndian.Uint64(labels[128+8*i:])); got != label[class] {
								t.Errorf("%s has label %d", path, got)
							}
						}
						head := fmt.Sprintf("{'descr': '|u1', 'fortran_order': False, 'shape': (%d, 16, 16, 3), }", len(batch))
						if !strings.HasPrefix(string(pixels[10:]), head) || len(pixels) != 128+len(batch)*size || len(labels) != 128+8*len(batch) {
							t.Errorf("%d bytes of pixels, %d of labels, %s", len(pixels), len(labels), pixels[:128])
						}
						if got := string(f.read(v, fmt.Sprintf("%06d.paths.txt", k))); got != strings.Join(paths, "\n")+"\n" {
							t.Errorf("paths %s", got)
						}
						k++
					}
					if v.share.batches() != k {
						t.Errorf("%d batches, want %d", v.share.batches(), k)
					}
				}
				total := 0
				for _, path := range list {
					total += times[path]
					if n := times[path]; n < 1 || n > 2 {
						t.Errorf("world %d: %s comes %d times", world, path, n)
					}
				}
				if want := (len(list) + world - 1) / world * world; total != want || len(times) != len(list) {
					t.Errorf("%d samples of %d, want %d", total, len(times), want)
				}
			}
		}
	}
	var x index
	testenv.Must(t, json.Unmarshal(f.read(f.view("0/0/8/0/3/"+name), IndexName), &x))
	if x.Samples != 13 || x.SamplesOfRank != 2 || x.Batches != 1 || x.LastBatch != 2 || x.Padded != 3 || x.Dropped != 0 || x.Beside != 1 || *x.DType != "uint8" ||
		!slices.Equal(x.Shape, []int{3, 16, 16, 3}) || !slices.Equal(x.Classes, slices.SortedFunc(maps.Keys(label), strings.Compare)) || len(x.List) != 64 {
		t.Errorf("%+v", x)
	}
	testenv.Must(t, json.Unmarshal(f.read(f.view("0/0/8/0/3drop/"+name), IndexName), &x))
	if x.Batches != 0 || x.Dropped != 13 {
		t.Errorf("%+v", x)
	}
}

// TestOtherViews wants lists of files where the files are not all of one size, and labels
// of no class where there are none.
func TestOtherViews(t *testing.T) {
	f := newFixture(t, map[string]int{"train/a": 2, "train/b": 2}, nil)
	v := f.view("7/0/1/0/3/bmp/train")
	var want strings.Builder
	for _, i := range v.epoch.order[:3] {
		want.WriteString("bmp/" + strings.TrimSuffix(v.epoch.list.path(int(i)), "jpg") + "bmp\n")
	}
	if got := string(f.read(v, "000000.list")); got != want.String() || !strings.Contains(got, "bmp/train/a/") {
		t.Errorf("%s, want %s", got, want.String())
	}
	for view, first := range map[string]string{"7/3/1/0/3/rrc8-ppm": ".draw/7/3/rrc8-ppm/", "7/3/1/0/3/original": "original/", "7/3/1/0/3/resize8-npy": "resize8-npy/"} {
		if got := string(f.read(f.view(view), "000000.list")); !strings.HasPrefix(got, first) {
			t.Errorf("%s: %s", view, got)
		}
	}
	names := slices.Collect(v.Names)
	if fmt.Sprint(names) != "[000000.labels.npy 000000.list 000000.paths.txt 000001.labels.npy 000001.list 000001.paths.txt index.json]" {
		t.Error(names)
	}
	flat := f.view("7/0/1/0/3/resize8-crop8-npy/train/a")
	if got := f.read(flat, "000000.labels.npy")[128:]; !bytes.Equal(got, bytes.Repeat([]byte{255}, 16)) {
		t.Errorf("labels % x", got)
	}
	if got := f.read(flat, "000000.npy"); !bytes.Equal(got[128:][:192], f.sample(flat.pipeline, flat.epoch.list.path(int(flat.epoch.order[0])))) {
		t.Error("a view that draws nothing has other bytes")
	}
	for _, name := range []string{"000002.npy", "0.npy", "000000", "000000.bmp", "000000.list", "-00001.npy", "000000.npy.npy", ""} {
		if _, err := flat.File(name); !errors.Is(err, iofs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p, _ := ParsePath(split("7/0/1/0/1000000/rrc224-npy"))
	pipeline, err := f.views.o.Registry.ParseRandom(p.View)
	testenv.Must(t, err)
	if _, err := f.views.Find(p, pipeline.In(7, 0)); err == nil || !strings.Contains(err.Error(), "--cache-bytes") {
		t.Errorf("a batch that is too large: %v", err)
	}
	p.Of = "nowhere"
	p.Batch = 1
	if _, err := f.views.Find(p, pipeline.In(7, 0)); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("of a directory that is not there: %v", err)
	}
}

// TestAsked reads batches that many readers choose, with memory for few of them: none is made twice, and what is no batch
// is refused.
func TestAsked(t *testing.T) {
	f := newFixture(t, map[string]int{"a": 20, "b": 20}, nil)
	samples := f.view("7/0/1/0/4/rrc8-npy").epoch.list
	pipeline, err := f.views.o.Registry.ParseRandom("rrc8-npy")
	testenv.Must(t, err)
	pipeline = pipeline.In(7, 3)
	const size = 8 * 8 * 3
	f.views.o.Budget = 4 * (128 + 6*size) // a file has 6 samples
	f.views.maker.o.Budget = 3 * (128 + 6*size)
	var readers sync.WaitGroup
	const many, rounds = 8, 10
	for reader := range many {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(reader), 0))
			var last *File
			for range rounds {
				ids, places := make([]uint32, 9), make([]int, 9)
				for i := range ids {
					places[i] = random.IntN(len(samples.ids))
					ids[i] = samples.ids[places[i]]
				}
				file, n, err := f.views.Asked(pipeline, ids)
				if err != nil || n != 6 || file.Size() != 128+6*size {
					t.Errorf("%d samples, %v", n, err)
					return
				}
				if last != nil {
					last.Drop()
				}
				last = file
				var got []byte
				for int64(len(got)) < file.Size() {
					p, err := file.Read(context.Background(), int64(len(got)), 100)
					if err != nil {
						t.Error(err)
						return
					}
					got = append(got, p.Bytes...)
					p.Release()
				}
				for i := range n {
					if !bytes.Equal(got[128+i*size:][:size], f.sample(pipeline, samples.path(places[i]))) {
						t.Errorf("reader %d: sample %d has other bytes", reader, i)
					}
				}
			}
		})
	}
	readers.Wait()
	if s := f.views.Stats(); s.Made != many*rounds || s.Failed != 0 || s.Bytes > f.views.maker.o.Budget {
		t.Errorf("%+v, want %d batches made", s, many*rounds)
	}
	f.views.o.Budget = size
	for _, view := range []string{"npy", "resize8-crop8-npy"} {
		p, err := f.views.o.Registry.ParseRandom(view)
		testenv.Must(t, err)
		if _, _, err := f.views.Asked(p, samples.ids); !errors.Is(err, ErrNoBatch) {
			t.Errorf("%s: %v", view, err)
		}
	}
}

// TestAhead wants batches made ahead of who reads in order, once for all, and none for who
// does not.
func TestAhead(t *testing.T) {
	f := newFixture(t, map[string]int{"a": 25, "b": 25}, nil)
	made := func(n int64) func() error {
		return func() error {
			m := f.views.maker
			m.mu.Lock()
			defer m.mu.Unlock()
			if got := m.stats.made.Load(); got != n || m.working != 0 {
				return fmt.Errorf("%d batches were made, want %d", got, n)
			}
			return nil
		}
	}
	v := f.view("7/0/1/0/2/rrc8-npy")
	f.read(v, "000010.npy")
	testenv.Eventually(t, made(1))
	f.read(v, "000011.npy")
	testenv.Eventually(t, made(2+maxAhead))
	for k := 11; k < 25; k++ {
		f.read(v, fmt.Sprintf("%06d.npy", k))
		f.read(v, fmt.Sprintf("%06d.npy", k))
	}
	testenv.Eventually(t, made(15+1)) // and the first one of the next epoch
	f.read(f.view("7/1/1/0/2/rrc8-npy"), "000000.npy")
	testenv.Eventually(t, made(16+maxAhead))
}

// fetches notes which samples the system was told to read.
type fetches struct {
	Server
	mu    sync.Mutex
	paths []string
}

func (s *fetches) Fetch(ctx context.Context, key serve.Key, f serve.File, v transcode.Pipeline) {
	s.Server.Fetch(ctx, key, f, v)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths = append(s.paths, f.Path)
}

// TestFar reads an epoch of what is far away: each sample is fetched once, and before it is made, as are the first
// ones of the next epoch.
func TestFar(t *testing.T) {
	f := newFixture(t, map[string]int{"a": 25, "b": 25}, nil)
	told := &fetches{Server: f.server}
	const far = 2 * (maxAhead + 3) // more than is made
	f.views.o.Server, f.views.maker.o.Far = told, far
	fetched := func(n int) {
		t.Helper()
		testenv.Eventually(t, func() error {
			told.mu.Lock()
			defer told.mu.Unlock()
			if all := slices.Compact(slices.Sorted(slices.Values(told.paths))); len(all) != min(n, 50) || len(told.paths) != n {
				return fmt.Errorf("%d samples were fetched, %d of them different, want %d", len(told.paths), len(all), n)
			}
			return nil
		})
	}
	v := f.view("7/0/1/0/2/rrc8-npy")
	f.read(v, "000000.npy")
	fetched(2 + far)
	for k := 1; k < 25; k++ {
		f.read(v, fmt.Sprintf("%06d.npy", k))
	}
	fetched(50 + 2 + far) // and of the epoch that comes next
	v = f.view("7/1/1/0/2/rrc8-npy")
	for k := range 25 {
		f.read(v, fmt.Sprintf("%06d.npy", k))
	}
	fetched(50 + 50 + 2 + far)
}

// TestWindowedView reads an epoch in windows by two ranks: every sample once, with the bytes that it has
// alone, and told to the system a window ahead, in the order in which they lie on the disk.
func TestWindowedView(t *testing.T) {
	f := newFixture(t, map[string]int{"a": 150, "b": 106}, nil)
	told := &fetches{Server: f.server}
	f.views.o.Server = told
	seen := map[string]bool{}
	for rank := range 2 {
		v := f.view(fmt.Sprintf("7/3/2/%d/8-window64/rrc8-npy", rank))
		for k := range v.share.batches() {
			if k == 1 { // each window is four batches: a quarter of the next one is told
				testenv.Eventually(t, func() error {
					told.mu.Lock()
					defer told.mu.Unlock()
					if len(told.paths) != 40 || !slices.IsSorted(told.paths[:32]) {
						return fmt.Errorf("%d samples were told: %v", len(told.paths), told.paths)
					}
					return nil
				})
			}
			got := f.read(v, batchName(k)+pixelsSuffix)[headerSize:]
			for i, path := range strings.Fields(string(f.read(v, batchName(k)+pathsSuffix))) {
				seen[path] = true
				if !bytes.Equal(got[192*i:][:192], f.sample(v.pipeline, path)) {
					t.Fatalf("%s has other bytes", path)
				}
			}
		}
		testenv.Eventually(t, func() error {
			told.mu.Lock()
			defer told.mu.Unlock()
			if len(told.paths) != 128 {
				return fmt.Errorf("%d samples were told of", len(told.paths))
			}
			return nil
		})
		told.paths = nil
	}
	if len(seen) != 256 {
		t.Errorf("%d samples of 256", len(seen))
	}
}

// TestNextEpoch wants the first batch of the next epoch made ahead of who reads one to its end, and more of
// them ahead of who has read two in turn.
func TestNextEpoch(t *testing.T) {
	f := newFixture(t, map[string]int{"a": 25, "b": 25}, nil)
	m := f.views.maker
	for epoch := range 3 {
		v := f.view(fmt.Sprintf("7/%d/1/0/2/rrc8-npy", epoch))
		for k := range 25 {
			f.read(v, batchName(k)+pixelsSuffix)
		}
		ahead := 1
		if epoch > 0 {
			ahead = maxAhead
		}
		testenv.Eventually(t, func() error {
			m.mu.Lock()
			defer m.mu.Unlock()
			if got := m.stats.made.Load(); got != int64(25*(epoch+1)+ahead) || m.working != 0 {
				return fmt.Errorf("%d batches were made after epoch %d", got, epoch)
			}
			return nil
		})
	}
	f.read(f.view("7/3/1/0/2/rrc8-npy"), "000007.npy")
	if got := m.stats.made.Load(); got != 3*25+maxAhead {
		t.Errorf("%d batches were made: they are made twice", got)
	}
}

// TestBroken wants a batch with a broken sample to fail, for others to be read, and with
// Black zeros in place of the sample, with Replace another one of its class, which the lines tell.
func TestBroken(t *testing.T) {
	for _, on := range []serve.OnError{serve.Fail, serve.Black, serve.Replace} {
		f := newFixture(t, map[string]int{"a": 4, "b": 4}, nil)
		f.on = on
		f.serve(source.Options{}, nil)
		testenv.Must(t, os.WriteFile(filepath.Join(f.root, "a/b.jpg"), []byte("\xff\xd8\xff\xe0 broken"), 0o644))
		v := f.view("7/0/1/0/2/rrc8-npy")
		if on == serve.Replace {
			testenv.Must(t, os.WriteFile(filepath.Join(f.root, "b/a.jpg"), []byte("no picture"), 0o644))
		} else {
			testenv.Must(t, os.Remove(filepath.Join(f.root, "b/a.jpg")))
		}
		for k := range 4 {
			got, err := read(v, fmt.Sprintf("%06d.npy", k), 10_000)
			shown := make([]string, 2)
			if err == nil {
				shown = strings.Fields(string(f.read(v, fmt.Sprintf("%06d.paths.txt", k))))
			}
			for i := range 2 {
				path := v.epoch.list.path(v.sample(k, i))
				bad := path == "a/b.jpg" || path == "b/a.jpg"
				switch {
				case bad && on == serve.Fail:
					if err == nil || !strings.Contains(err.Error(), "sample a/b.jpg") && !strings.Contains(err.Error(), "sample b/a.jpg") || errors.Is(err, iofs.ErrNotExist) {
						t.Errorf("batch %d: %v", k, err)
					}
				case err != nil && on != serve.Fail:
					t.Error(err)
				case bad && on == serve.Black && !bytes.Equal(got[128+192*i:][:192], make([]byte, 192)):
					t.Errorf("%s is not black", path)
				case bad && on == serve.Replace && (shown[i] == path || shown[i][0] != path[0]):
					t.Errorf("%s is in the place of %s", shown[i], path)
				case err == nil && !(bad && on == serve.Black) && !bytes.Equal(got[128+192*i:][:192], f.sample(v.pipeline, shown[i])):
					t.Errorf("%s has other bytes", path)
				case !bad && err == nil && shown[i] != path:
					t.Errorf("%s is told to be %s", path, shown[i])
				}
			}
			if made, err := read(v, fmt.Sprintf("%06d.made.npy", k), 1000); (err == nil) != (on == serve.Black) || err == nil && bytes.Count(made[128:], []byte{0}) != bytes.Count([]byte(strings.Join(shown, "")), []byte("a/b.jpg"))+bytes.Count([]byte(strings.Join(shown, "")), []byte("b/a.jpg")) {
				t.Errorf("%v: %v, %x", on, err, made)
			}
		}
		s := f.views.Stats()
		if on == serve.Fail && s.Failed == 0 || on == serve.Black && (s.Failed != 0 || s.Black < 2 || s.Black > 4 || // those of the next epoch's first batch counted
			!strings.Contains(f.log.String(), "sample=b/a.jpg")) || on == serve.Replace && (s.Failed != 0 || s.Replaced < 2 || len(f.server.Bad()) != 2) {
			t.Errorf("%+v\n%s", s, f.log)
		}
		for _, name := range []string{"a/a.jpg", "a/c.jpg", "a/d.jpg"} {
			testenv.Must(t, os.WriteFile(filepath.Join(f.root, name), []byte("\xff\xd8\xff\xe0 broken"), 0o644))
		}
		tooMany, v := false, f.view("7/5/1/0/2/rrc8-npy")
		for k := range v.share.batches() {
			_, err := read(v, batchName(k)+pixelsSuffix, 10_000)
			tooMany = tooMany || errors.Is(err, serve.ErrTooManyBad)
		}
		if tooMany != (on != serve.Fail) {
			t.Errorf("%v: more than half of the samples are broken: %v", on, tooMany)
		}
	}
}

// TestChanges wants an epoch that is read to keep its samples, and the next one to have
// those that are there.
func TestChanges(t *testing.T) {
	f := newFixture(t, map[string]int{"a": 4}, nil)
	first := f.view("7/0/1/0/2/rrc8-npy")
	f.write("a/z.jpg", 1000)
	first.epoch.checked = time.Time{}
	if v := f.view("7/0/1/0/2/rrc8-npy"); v != first {
		t.Error("an epoch that is read is another one")
	}
	if n := strings.Count(f.log.String(), "the dataset has changed"); n != 1 {
		t.Errorf("told %d times", n)
	}
	var x index
	testenv.Must(t, json.Unmarshal(f.read(first, IndexName), &x))
	if !x.Changed || x.Samples != 4 {
		t.Errorf("%+v", x)
	}
	if v := f.view("7/0/2/1/2/rrc8-npy"); v.share.n != 4 {
		t.Error("another rank of it has other samples")
	}
	second := f.view("7/1/1/0/2/rrc8-npy")
	if second.share.n != 5 {
		t.Error("the next epoch has the old samples")
	}
	third, _ := f.views.following(second)
	if f.write("a/y.jpg", 1001); third.share.n != 5 || f.view("7/2/1/0/2/rrc8-npy").share.n != 6 {
		t.Error("an epoch that was made ahead keeps samples that nobody has seen")
	}
	first.epoch.used, first.epoch.checked = first.epoch.used.Add(-2*idle), time.Time{}
	if v := f.view("7/0/1/0/2/rrc8-npy"); v == first || v.share.n != 6 {
		t.Error("an epoch that nobody reads keeps its samples for ever")
	}
	for e := range uint64(50) {
		f.view(fmt.Sprintf("8/%d/1/0/2/rrc8-npy", e))
	}
	if n := len(f.views.epochs); n > maxEpochs {
		t.Errorf("%d epochs are remembered", n)
	}
}

// slow is a disk that answers the read of a whole file only when another one is asked for.
type slow struct {
	mu            sync.Mutex
	reading, most int
}

func (s *slow) Begin() time.Time { return time.Time{} }

func (s *slow) Done(_ time.Time, n int) {
	if n < 10_000 {
		return // a header
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading++
	s.most = max(s.most, s.reading)
	for end := time.Now().Add(5 * time.Second); s.most < 2 && time.Now().Before(end); {
		s.mu.Unlock()
		time.Sleep(time.Millisecond)
		s.mu.Lock()
	}
	s.reading--
}

// TestReadingGoesOn wants samples to be read while others are, and while they are computed:
// a single worker has several on the way.
func TestReadingGoesOn(t *testing.T) {
	f := newFixture(t, nil, nil)
	for i := range uint64(6) {
		testenv.Must(t, pictures.Write(filepath.Join(f.root, "a", fmt.Sprint(i, ".jpg")), pictures.Photo(600, 400, i)))
	}
	disk := &slow{}
	f.serve(source.Options{Limit: disk}, func(o *Options) { o.Workers = 1 })
	v := f.view("7/0/1/0/6/rrc8-npy")
	got := f.read(v, "000000.npy")
	for i := range 6 {
		if !bytes.Equal(got[128+192*i:][:192], f.sample(v.pipeline, v.epoch.list.path(v.sample(0, i)))) {
			t.Errorf("sample %d has other bytes", i)
		}
	}
	if disk.most < 2 {
		t.Error("one sample is read after the other")
	}
}
