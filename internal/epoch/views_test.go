package epoch

import (
	"bytes"
	"context"
	"crypto/sha256"
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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
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
		!slices.Equal(x.Shape, []int{3, 16, 16, 3}) || !slices.Equal(x.Classes, slices.SortedFunc(maps.Keys(label), strings.Compare)) || x.MasksShape != nil ||
		x.List != fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(list, "\n")+"\n"))) {
		t.Errorf("%+v", x)
	}
	testenv.Must(t, json.Unmarshal(f.read(f.view("0/0/8/0/3drop/"+name), IndexName), &x))
	if x.Batches != 0 || x.LastBatch != 0 || x.Dropped != 13 {
		t.Errorf("%+v", x)
	}
}

// TestOtherViews wants lists of files where the files are not all of one size, and labels
// of no class where there are none.
func TestOtherViews(t *testing.T) {
	f := newFixture(t, map[string]int{"train/a": 2, "train/b": 2, "some/a": 2, "some/b": 1, "some/none": 2, "none/none": 1},
		func(o *Options) { o.Unlabelled = "none" })
	f.write("some/zz.jpg", 98)
	f.write("none/zz.jpg", 99)
	for of, want := range map[string]string{"some": "[-1 -1 0 0 1] [a b] 1", "none": "[-1] [] 1", "train": "[0 0 1 1] [a b] 0"} {
		v := f.view("7/0/1/0/9/bmp/" + of)
		if got := fmt.Sprint(slices.Sorted(slices.Values(f.labelsOf(v, 0))), v.epoch.list.classes, v.epoch.list.beside); got != want {
			t.Errorf("%s: labels, classes and samples beside them are %s, want %s", of, got, want)
		}
	}
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
	for _, name := range []string{"000002.npy", "0.npy", "000000", "000000.bmp", "000000.list", "-00001.npy", "000000.npy.npy", "", "000000.jsonl", "000000.made.npy", "000000.masks.npy"} {
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
}

// TestAsked reads batches that somebody chooses, with memory for few of them: none is made twice, and what is no batch
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
	const many = 20
	var reading Piece // of the file before, which was dropped meanwhile
	var read []byte
	random := rand.New(rand.NewPCG(1, 0))
	for k := range uint32(many) {
		pipeline := pipeline.Repeat(k % 2)
		ids, places := make([]uint32, 9), make([]int, 9)
		for i := range ids {
			places[i] = random.IntN(len(samples.ids))
			ids[i] = samples.ids[places[i]]
		}
		file, n, err := f.views.Asked(pipeline, ids)
		testenv.Must(t, err)
		got, err := readAll(file, 100)
		if err != nil || n != 6 || len(got) != 128+6*size {
			t.Fatalf("%d samples, %d bytes, %v", n, len(got), err)
		}
		for i := range n {
			if !bytes.Equal(got[128+i*size:][:size], f.sample(pipeline, samples.path(places[i]))) {
				t.Errorf("sample %d has other bytes", i)
			}
		}
		if reading.Release(); !bytes.Equal(reading.Bytes, read) {
			t.Error("memory was used again that somebody read")
		}
		reading, err = file.Read(t.Context(), 0, len(got))
		testenv.Must(t, err)
		read = got
		file.Drop()
	}
	reading.Release()
	if s := f.views.Stats(); s.Made != many || s.Failed != 0 || s.Bytes > f.views.maker.o.Budget {
		t.Errorf("%+v, want %d batches made", s, many)
	}
	f.views.o.Budget = headerSize + size
	if _, n, err := f.views.Asked(pipeline, samples.ids); n != 1 || err != nil {
		t.Errorf("%d samples, %v", n, err)
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
// does not. What is near is not fetched before.
func TestAhead(t *testing.T) {
	f := newFixture(t, map[string]int{"a": 25, "b": 25}, nil)
	var changed sync.Map
	near := &told{Server: f.server, before: func(path string) error {
		if _, before := changed.LoadOrStore(path, true); !before { // each sample changes once, and is made again
			return source.ErrChanged
		}
		return nil
	}}
	f.views.o.Server = near
	v := f.view("7/0/1/0/2/rrc8-npy")
	f.read(v, "000010.npy")
	f.made(1)
	for k := 11; k < 25; k++ {
		f.read(v, batchName(k)+pixelsSuffix)
		f.read(v, batchName(k)+pixelsSuffix)
		f.made(min(k+1+maxAhead, 25) - 10 + k/17) // and the first one of the next epoch
	}
	if s := f.views.Stats(); s.Early != 14 || s.Used != 13 || s.Wasted != 0 || len(near.fetched) > 0 || len(near.resolved) != 32+len(slices.Compact(slices.Sorted(slices.Values(near.resolved)))) {
		t.Errorf("%+v, %d samples are fetched, and %d made", s, len(near.fetched), len(near.resolved))
	}
	f.read(f.view("7/1/1/0/2/rrc8-npy"), "000000.npy")
	f.made(16 + maxAhead)
	// All that is made ahead takes a quarter of the budget.
	made, one := 16+maxAhead, v.bytes(2)
	for seed, budget := range []int64{4*3*one - 1, 4 * 3 * one, 4*one - 1} {
		f.views.maker.giveBack()
		f.views.maker.o.Budget = budget
		v = f.view(fmt.Sprintf("%d/0/1/0/2/rrc8-npy", 8+seed))
		f.read(v, "000005.npy")
		f.read(v, "000006.npy")
		made += 2 + max(1, int(budget/4/one))
		f.made(made)
	}
}

// TestElsewhere: what a reader asks for is made first, in the order of the list, then what comes soonest, and nothing of what he has left behind.
func TestElsewhere(t *testing.T) {
	f := newFixture(t, map[string]int{"a": 25, "b": 25}, nil)
	blocked, goOn := context.WithCancel(t.Context())
	defer goOn()
	server := &told{Server: f.server, before: func(string) error { <-blocked.Done(); return nil }}
	m := f.views.maker
	f.views.o.Server, m.o.Workers = server, 1
	v := f.view("7/0/1/0/1/rrc8-npy")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	reads := func(file *File, err error) {
		t.Helper()
		testenv.Must(t, err)
		if _, err := file.Read(gone, 0, 1); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	asks := func(k int, queue ...int) {
		t.Helper()
		reads(v.File(batchName(k) + pixelsSuffix))
		testenv.Eventually(t, func() error { // the first samples are begun
			m.mu.Lock()
			defer m.mu.Unlock()
			var got []int
			for _, b := range m.queue {
				got = append(got, b.index)
			}
			if !slices.Equal(got, queue) {
				return fmt.Errorf("%v are queued, want %v", got, queue)
			}
			return nil
		})
	}
	begun, _, err := f.views.Asked(v.pipeline, v.epoch.list.ids[:1])
	reads(begun, err)
	asks(0, 3, 4, 5, 6, 7, 8)
	begun.Drop() // it is forgotten when it is made
	queued, _, err := f.views.Asked(v.pipeline, v.epoch.list.ids[:1])
	reads(queued, err)
	queued.Drop()
	asks(11, 3, 4, 5, 6, 7, 8, 11)
	asks(12, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)
	asks(30, 11, 12, 30)
	asks(31, 11, 12, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39)
	asks(13, 11, 12, 30, 31, 13, 14, 15, 16, 17, 18, 19, 20, 21)
	asks(21, 11, 12, 30, 31, 13, 14, 15, 16, 17, 18, 19, 20, 21)
	goOn()
	f.made(4 + 13)
	var last time.Time
	for _, k := range []int{0, 11, 12, 30, 31, 13, 21, 14, 15, 16, 17, 18, 19, 20} {
		if began := m.batches[batchKey{v, k}].started; began.Before(last) {
			t.Errorf("batch %d is begun too early", k)
		} else {
			last = began
		}
	}
	v = f.view("7/1/1/0/9/rrc8-npy")
	if turns := v.turns(2); len(turns) != 9 || !slices.IsSortedFunc(turns, func(i, j int) int { return v.sample(2, i) - v.sample(2, j) }) {
		t.Errorf("the samples of a batch are made in the order %v", turns)
	}
}

// TestFar reads an epoch of what is far away: each sample is fetched once, and before it is made, as are the first
// ones of the next epoch.
func TestFar(t *testing.T) {
	for samples, next := range map[int]int{1: maxAhead, 2*maxAhead + 3: maxAhead + 2} { // batches: as many as are made, and more
		f := newFixture(t, map[string]int{"a": 25, "b": 25}, nil)
		far := &told{Server: f.server}
		f.views.o.Server, f.views.maker.o.Far = far, samples
		v := f.view("7/0/1/0/2/rrc8-npy")
		f.read(v, "000000.npy")
		far.fetches(t, 2+2*next)
		for epoch := range 2 {
			for k := range 25 {
				f.read(v, batchName(k)+pixelsSuffix)
				if k == 16 {
					far.fetches(t, 50-2-2*next)
				}
			}
			far.fetches(t, 2+2*next) // of the epoch that comes next
			v = f.view(fmt.Sprintf("7/%d/1/0/2/rrc8-npy", 1+epoch))
		}
	}
}

// TestWindowedView wants samples told to the system a window ahead of who reads in quasi-random order, as they lie on the disk, and
// told where he goes. The steps are batches that are read, and how many samples are told then.
func TestWindowedView(t *testing.T) {
	f := newFixture(t, map[string]int{"a": 150, "b": 106}, nil)
	window := &told{Server: f.server}
	f.views.o.Server = window
	for batch, steps := range map[int][][2]int{
		8:  {{0, 40}, {9, 0}, {10, 56}, {4, 0}, {5, 48}, {1, 0}},
		12: {{0, 36}, {1, 12}, {2, 12}, {3, 12}, {4, 12}, {5, 12}, {6, 12}, {7, 12}, {8, 8}, {9, 0}},
		40: {{0, 80}, {1, 40}, {2, 8}, {3, 0}},
	} {
		v := f.view(fmt.Sprintf("8/3/2/0/%d-window64/rrc8-npy", batch))
		for _, s := range steps {
			f.read(v, batchName(s[0])+pixelsSuffix)
			if got := window.fetches(t, s[1]); s[0] == 0 && !slices.IsSorted(got[:max(1, 64/2/batch)*batch]) {
				t.Errorf("the order is %v", got)
			}
		}
	}
}

// TestNextEpoch wants the first batch of the next epoch made ahead of who reads one to its end, and more of
// them ahead of who has read the last batch of two in turn.
func TestNextEpoch(t *testing.T) {
	f := newFixture(t, map[string]int{"a": 25, "b": 25}, nil)
	for epoch := range 4 {
		v := f.view(fmt.Sprintf("7/%d/1/0/2/rrc8-npy", epoch))
		early := 1
		if epoch > 1 {
			early = maxAhead
		}
		for k := range 25 {
			if epoch > 0 || k < 24 {
				f.read(v, batchName(k)+pixelsSuffix)
			}
			f.made(25*epoch + min(k+1+maxAhead, 25) + min(max(k-16, 0), early))
		}
	}
	f.read(f.view("7/4/1/0/2/rrc8-npy"), "000007.npy")
	f.made(4*25 + maxAhead) // none is made twice
}

// TestWaits: a reader waits for a worker while there is memory, and for memory that somebody reads by and by, for a while or until
// nobody does.
func TestWaits(t *testing.T) {
	f := newFixture(t, map[string]int{"a": 7, "b": 5}, nil)
	first := f.view("7/0/1/0/3/rrc8-npy")
	synctest.Test(t, func(t *testing.T) {
		views := New(Options{Registry: f.views.o.Registry, Workers: 1, Server: &told{Server: f.server, before: func(string) error { time.Sleep(time.Second); return nil }}})
		views.Use(f.tree)
		views.maker.o.Budget = 3 * (128 + 3*192)
		files, spent, ended := [6]*File{}, [6]account.Spent{}, [6]atomic.Bool{}
		read := func(i, n int) {
			var err error
			files[i], _, err = views.Asked(first.pipeline, first.epoch.list.ids[i:i+3])
			testenv.Must(t, err)
			go func() {
				p, err := files[i].Read(account.With(t.Context(), &spent[i]), 0, n)
				p.Release()
				ended[i].Store(err == nil)
			}()
			synctest.Wait()
		}
		is := func(want ...bool) {
			synctest.Wait()
			for i, is := range want {
				if ended[i].Load() != is {
					t.Errorf("batch %d is read: %v", i, !is)
				}
			}
		}
		read(0, 100)
		read(1, 100)
		read(2, 100)
		time.Sleep(3 * time.Second) // four of nine samples are made at once
		read(3, 100)
		time.Sleep(stale - 1)
		is(true, true, true, false)
		time.Sleep(2 * time.Second)
		is(true, true, true, true)
		for i, want := range map[int][2]time.Duration{0: {0, 0}, 2: {time.Second, 0}, 3: {0, stale}} {
			if worker, memory := spent[i].Parts[account.Worker], spent[i].Parts[account.Memory]; worker != want[0] || memory != want[1] {
				t.Errorf("batch %d: %v for a worker, %v for memory", i, worker, memory)
			}
		}
		views.maker.o.Budget /= 3
		read(4, 128+3*192)
		is(true, true, true, true, false)
		files[3].Drop()
		time.Sleep(time.Second)
		is(true, true, true, true, true)
		read(5, 100) // the last one was read to its end
		time.Sleep(time.Second)
		is(true, true, true, true, true, true)
		ends(t, views)
		if _, err := files[0].Read(t.Context(), 0, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestBroken wants a batch with a broken sample to fail, for others to be read, and with
// Black zeros in place of the sample, with Replace another one of its class, which the lines tell.
func TestBroken(t *testing.T) {
	for _, on := range []serve.OnError{serve.Fail, serve.Black, serve.Replace} {
		f := newFixture(t, map[string]int{"a": 4, "b": 4}, nil)
		f.views.Close()
		f.on = on
		f.serve(source.Options{}, nil)
		f.views.maker.o.Budget = 128 + 2*192 // each batch is made in the memory of another one
		f.table("named.csv", "path,label", "a/b.jpg,1", "b/c.jpg,1", "a/c.jpg,2", "a/b.jpg,1")
		breaks := func(names ...string) {
			for _, name := range names {
				testenv.Must(t, os.WriteFile(filepath.Join(f.root, name), []byte("\xff\xd8\xff\xe0 broken"), 0o644))
			}
		}
		breaks("a/b.jpg", "b/a.jpg")
		const last = "/18446744073709551615/1/0/2/" // no epoch comes after it
		v := f.view("7" + last + "rrc8-npy")
		if on != serve.Replace {
			testenv.Must(t, os.Remove(filepath.Join(f.root, "b/a.jpg")))
		}
		var settled []string
		for k := range 4 {
			got, err := read(v, batchName(k)+pixelsSuffix, 10_000)
			shown := make([]string, 2)
			if err == nil {
				shown = strings.Fields(string(f.read(v, batchName(k)+pathsSuffix)))
			}
			made := []byte{1, 1}
			for i := range 2 {
				path := v.epoch.list.path(v.sample(k, i))
				bad := path == "a/b.jpg" || path == "b/a.jpg"
				if bad {
					made[i] = 0
				}
				switch {
				case bad && on == serve.Fail:
					if err == nil || !strings.Contains(err.Error(), "sample a/b.jpg") && !strings.Contains(err.Error(), "sample b/a.jpg") || errors.Is(err, iofs.ErrNotExist) || strings.Contains(err.Error(), "panic") {
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
			if got, err := read(v, batchName(k)+madeSuffix, 1000); (err == nil) != (on == serve.Black) || err == nil && !bytes.Equal(got[128:], made) {
				t.Errorf("%v: %v, %x", on, err, got)
			}
			settled = append(settled, shown...)
		}
		s := f.views.Stats()
		if on == serve.Fail && s.Failed == 0 || on == serve.Black && (s.Failed != 0 || s.Black != 2 || !strings.Contains(f.log.String(), "sample=b/a.jpg")) ||
			on == serve.Replace && (s.Failed != 0 || s.Replaced != 2 || len(f.server.Bad()) != 2) {
			t.Errorf("%+v\n%s", s, f.log)
		}
		names := slices.Collect(v.Names)
		if !slices.IsSorted(names) || len(names) != 4*3+1 && on != serve.Black || len(names) != 4*4+1 && on == serve.Black {
			t.Errorf("%v: %v", on, names)
		}
		if on == serve.Replace { // any sample with the same label, of the directory or of the list
			for of, want := range map[string]string{"": "a/b.jpg:a/a a/b.jpg:a/c a/b.jpg:a/d b/a.jpg:b/b b/a.jpg:b/c b/a.jpg:b/d", "/named.csv": "a/b.jpg:b/c"} {
				seen := map[string]bool{}
				for seed := range 30 {
					w := f.view(fmt.Sprint(seed, last, "resize8-npy", of))
					for k := range w.share.batches() {
						for i, line := range strings.Fields(string(f.read(w, batchName(k)+listSuffix))) {
							if path := w.epoch.list.path(w.sample(k, i)); path == "a/b.jpg" || path == "b/a.jpg" {
								seen[path+":"+line[len("resize8-npy/"):len(line)-len(".bmp")]] = true
							}
						}
					}
				}
				if got := strings.Join(slices.Sorted(maps.Keys(seen)), " "); got != want {
					t.Errorf("%s are replaced, want %s", got, want)
				}
			}
		}
		lists, lines := f.view("7"+last+"resize8-npy"), [4][]byte{}
		for k := range lines {
			lines[k] = f.read(lists, batchName(k)+listSuffix)
		}
		breaks("a/a.jpg", "a/c.jpg", "a/d.jpg")
		for k := range 4 { // what they hold is settled
			if got := f.read(lists, batchName(k)+listSuffix); !bytes.Equal(got, lines[k]) {
				t.Errorf("batch %d is another list: %s", k, got)
			}
			if got := string(f.read(v, batchName(k)+pathsSuffix)); on != serve.Fail && got != strings.Join(settled[2*k:][:2], "\n")+"\n" {
				t.Errorf("batch %d has other samples: %s", k, got)
			}
		}
		tooMany, v := map[string]bool{}, f.view("7/5/1/0/2/rrc8-npy")
		for k := range v.share.batches() {
			for _, suffix := range []string{pixelsSuffix, madeSuffix, pathsSuffix} {
				if _, err := read(v, batchName(k)+suffix, 10_000); errors.Is(err, serve.ErrTooManyBad) {
					tooMany[suffix] = true
				}
			}
			if _, err := read(f.view("7/5/1/0/2/resize8-npy"), batchName(k)+listSuffix, 10_000); errors.Is(err, serve.ErrTooManyBad) {
				tooMany[listSuffix] = true
			}
		}
		want := map[serve.OnError]int{serve.Black: 2, serve.Replace: 3}[on]
		if len(tooMany) != want || tooMany[pixelsSuffix] != (want > 0) {
			t.Errorf("%v: more than half of the samples are broken: %v", on, tooMany)
		}
	}
}

// TestNoOther: what is wrong with the sample that would take the place of another one is told, as is what is wrong with this program.
func TestNoOther(t *testing.T) {
	for _, broken := range []error{errors.New("the disk is at fault"), nil} {
		f := newFixture(t, map[string]int{"a": 3, "c": 1}, nil)
		f.views.Close()
		f.on = serve.Replace
		testenv.Must(t, os.WriteFile(filepath.Join(f.root, "a/b.jpg"), nil, 0o644))
		f.serve(source.Options{}, nil)
		f.views.o.Server = &told{Server: f.server, before: func(path string) error {
			if path == "a/b.jpg" {
				return nil
			} else if broken == nil {
				panic("a bug")
			}
			return broken
		}}
		v := f.view("7/18446744073709551615/1/0/3/rrc8-npy")
		p, mask := make([]byte, 192), []byte(nil)
		at := slices.IndexFunc(v.epoch.list.ids, func(id uint32) bool { return f.tree.Path(id) == "a/b.jpg" })
		try := func(j int) error { return v.makeBoth(t.Context(), j, p, mask) }
		if _, err := v.excuse(at, try(at), try); err == nil || broken != nil && !errors.Is(err, broken) || broken == nil && !strings.Contains(err.Error(), "panic: a bug") {
			t.Errorf("%v, want %v", err, broken)
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
	fourth, _ := f.views.following(f.view("7/2/1/0/2/rrc8-npy"))
	seen := f.view("7/3/1/0/2/rrc8-npy")
	if f.write("a/x.jpg", 1002); seen != fourth || f.view("7/3/1/0/2/rrc8-npy") != fourth {
		t.Error("an epoch that was made ahead and looked at is another one")
	}
	first.epoch.used, first.epoch.checked = first.epoch.used.Add(-2*idle), time.Time{}
	f.read(first, "000000.npy")
	if f.view("7/0/1/0/2/rrc8-npy") != first {
		t.Error("an epoch that somebody reads is another one")
	}
	first.epoch.used, first.epoch.checked = first.epoch.used.Add(-2*idle), time.Time{}
	if v := f.view("7/0/1/0/2/rrc8-npy"); v == first || v.share.n != 7 {
		t.Error("an epoch that nobody reads keeps its samples for ever")
	}
	f.view("7/0/1/0/2/rrc8-npy/a")
	for e := range uint64(50) {
		f.view(fmt.Sprintf("8/%d/1/0/2/rrc8-npy", e))
	}
	if len(f.views.epochs) != maxEpochs || len(f.views.lists) != 1 {
		t.Errorf("%d epochs are remembered, and %d lists", len(f.views.epochs), len(f.views.lists))
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
	file, err := v.File("000000.npy")
	testenv.Must(t, err)
	var spent account.Spent
	p, err := file.Read(account.With(t.Context(), &spent), 0, 10_000)
	defer p.Release()
	if err != nil || spent.Parts[account.Source] == 0 || spent.Parts[account.Compute] == 0 {
		t.Errorf("the time of the samples is not that of who waits for them: %v", spent)
	}
	for i := range 6 {
		if !bytes.Equal(p.Bytes[128+192*i:][:192], f.sample(v.pipeline, v.epoch.list.path(v.sample(0, i)))) {
			t.Errorf("sample %d has other bytes", i)
		}
	}
	if disk.most < 2 {
		t.Error("one sample is read after the other")
	}
}
