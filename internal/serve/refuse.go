package serve

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/lru"
	"github.com/pipefs/pipefs/transcode"
)

// Masks are mostly told from pictures by their mode. Those of 8-bit RGB are not, such as
// COCO's panoptic PNG files, whose colours are ids: a view that blends their pixels would
// make ids that nobody gave. So a view that would do that looks at a few such files of
// each directory first, once, and refuses a directory of which one looks like a mask.

// ErrRefused is the cause of a [Refusal].
var ErrRefused = errors.New("refused")

// Refusal is the error of all files that a view refuses in one directory.
type Refusal struct {
	Dir  string `json:"dir"` // path in the tree; "" is its top
	View string `json:"view"`
	// Example is the path of a file that looks like a mask; with Random that of a sample for
	// which a random view would draw.
	Example string `json:"example"`
	// Random: the view draws. Beside is a file that belongs to Example and says where things
	// are in it; without one, Example is a mask itself.
	Random bool   `json:"random,omitempty"`
	Beside string `json:"beside,omitempty"`
	// Unfit is why Example alone is refused; empty where the directory is.
	Unfit string `json:"unfit,omitempty"`
	// Step that draws and does not take Example.
	Step    string `json:"step,omitempty"`
	instead string // the view that would take it
	told    atomic.Bool
	tells   *atomic.Int64 // of such samples that were told
}

// Error is one line that says what to do.
func (e *Refusal) Error() string {
	switch {
	case e.Unfit != "" && e.Step != "":
		return fmt.Sprintf("%s is %s, which %s does not take: %s refuses it. Read %s, which makes RGB of all pictures", e.Example, e.Unfit, e.Step, e.View, e.instead)
	case e.Unfit != "":
		return fmt.Sprintf("%s is %s: %s would not show it as it shows the others, and refuses it. Say --images %s if these files are pictures, --masks %[4]s if they are masks, or read %[5]s, which takes all samples for pictures",
			e.Example, e.Unfit, e.View, e.Pattern(), e.instead)
	case e.Beside != "":
		return fmt.Sprintf("%s says where things are in %s, and %s shows another part of the picture in each epoch: boxes and masks would be wrong, so it refuses the samples of that directory. Mount with --pair 'PICTURES=MASKS' if it is a mask: masks then follow their pictures. Mount with --force-random if the training does not read such files, or moves boxes and masks to what was drawn, by pipefs.draw or the .draw file beside each sample",
			e.Beside, e.Example, e.View)
	case e.Random:
		return fmt.Sprintf("%s is a mask, and %s would draw for it what it does not draw for its picture: it refuses the samples of that directory. Mount with --pair 'PICTURES=MASKS', and masks follow their pictures; or with --force-random to have them all the same",
			e.Example, e.View)
	}
	return fmt.Sprintf("%s has few colours and hard edges, as masks have, and %s would blend them: it refuses the samples of that directory. Say --masks %s if these files are masks, or --images %[3]s if they are pictures",
		e.Example, e.View, e.Pattern())
}

// Remedy is the option that helps.
func (e *Refusal) Remedy() string {
	if e.Step != "" {
		return "read a view without " + e.Step
	}
	if e.Random {
		return "mount with --pair if masks are to follow their pictures, or with --force-random if the training does not read boxes and masks, or moves them itself"
	}
	return fmt.Sprintf("say --masks %s or --images %[1]s", e.Pattern())
}

// Pattern is the glob of the files that it is about, quoted for a shell.
func (e *Refusal) Pattern() string {
	return human.Quote(escaped(e.Dir) + "/*" + escaped(path.Ext(e.Example)))
}

// First reports whether it is called for the first time.
// Of samples that are refused by themselves, a few are told.
func (e *Refusal) First() bool {
	return e.told.CompareAndSwap(false, true) && (e.tells == nil || e.tells.Add(1) <= MostTold)
}

// Is makes the refusal of a directory an [ErrRefused].
func (e *Refusal) Is(target error) bool { return target == ErrRefused && e.Unfit == "" }

// IsUnfit reports whether a sample is refused by itself.
func IsUnfit(err error) bool {
	e := (*Refusal)(nil)
	return errors.As(err, &e) && e.Unfit != ""
}

// escaped is the glob pattern that matches only the text.
func escaped(text string) string {
	var b strings.Builder
	for _, c := range text {
		if strings.ContainsRune(`\*?[]{}`, c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// refusals are what is known of directories.
type refusals struct {
	pixels transcode.Pipeline // npy: the samples as they are

	mu        sync.Mutex
	dirs      *lru.Map[string, *dirLook]
	beside    *lru.Map[string, *beside]
	surrounds *lru.Map[string, *surround]
	targets   *lru.Map[string, *targets]
	all       map[[2]string]*Refusal // by directory and view
	unfit     map[[2]string]*Refusal // by sample and view
	tells     atomic.Int64           // of unfit
}

// dirLook is what a look at a directory found. It is complete when done is closed.
type dirLook struct {
	done    chan struct{}
	empty   bool   // there was nothing to look at
	example string // that looks like a mask; empty if none does
	info    transcode.Info
}

const (
	// maxLooks bounds the directories that are remembered. One that was forgotten is
	// looked at again.
	maxLooks = 1 << 16
	// MostTold is how many refusals are named; the others are counted.
	MostTold = 10
	// maxRefusals bounds the refusals that are remembered, to be told once each.
	maxRefusals = 1 << 12
	// leastLooked to mostLooked samples of a directory are looked at, a quarter of them
	// all if that lies between; and mostBlank if those are all blank.
	leastLooked, mostLooked, mostBlank = 8, 16, 64
	// Files of so many bytes of pixels that take more than a quarter of that, compressed,
	// hold no large regions of one colour, and need not be decoded.
	largePixels = 1 << 20
)

func (r *refusals) open(registry *transcode.Registry) (err error) {
	r.dirs, r.all, r.unfit = lru.New[string, *dirLook](0, maxLooks), map[[2]string]*Refusal{}, map[[2]string]*Refusal{}
	r.beside, r.surrounds, r.targets = lru.New[string, *beside](0, maxLooks), lru.New[string, *surround](0, maxSurrounds), lru.New[string, *targets](0, maxLooks)
	r.pixels, err = registry.Parse("npy")
	return err
}

// list returns the refusals there were, by directory and view.
func (r *refusals) list() []*Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.Collect(maps.Values(r.all))
	slices.SortFunc(list, func(a, b *Refusal) int { return strings.Compare(a.Dir+"\x00"+a.View, b.Dir+"\x00"+b.View) })
	return list
}

// remembered is what is known of a directory, made if that is nothing yet.
func remembered[T any](r *refusals, known *lru.Map[string, *T], dir string) *T {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := known.Get(dir)
	if !ok {
		v = new(T)
		known.Put(strings.Clone(dir), v, 0)
	}
	return v
}

// guard refuses a sample whose directory holds what the view must not blend, or what must
// not be drawn of.
func (s *Server) guard(f File, v transcode.Pipeline, plan transcode.Plan, role transcode.Role) error {
	if err := s.guardRandom(f, v, role); err != nil {
		return err
	}
	if role != transcode.Auto || !plan.Blends() {
		return nil
	}
	return s.refusal(dirOf(f.Path), v, plan.Info().MayBeLabels())
}

// Refuses returns a [Refusal] if a view refuses the samples of a directory of which
// nobody said what they are. It looks at a few of them if nobody did yet.
func (s *Server) Refuses(dir string, v transcode.Pipeline) error {
	if v.Random() && !s.o.ForceRandom {
		if err := s.refusalRandom(dir, v); err != nil {
			return err
		}
	}
	if !v.Blends() || v.Role(transcode.Auto) != transcode.Auto {
		return nil
	}
	return s.refusal(dir, v, false)
}

func (s *Server) refusal(dir string, v transcode.Pipeline, suspect bool) error {
	look := s.lookAt(dir, suspect)
	if look.example == "" || !suspect && !s.o.Registry.Plan(v, look.info, transcode.Auto).Blends() {
		return nil
	}
	return s.refusals.known(&Refusal{Dir: dir, View: v.String(), Example: look.example})
}

// known is the refusal of the same directory, or sample, and view that there was first.
func (r *refusals) known(e *Refusal) *Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	key, all, most := [2]string{e.Dir, e.View}, r.all, maxRefusals
	if e.Unfit != "" {
		key[0], all, most = e.Example, r.unfit, maxLooks
		e.tells = &r.tells
	}
	if first := all[key]; first != nil {
		return first
	}
	if len(all) < most {
		all[key] = e
	} else {
		e.told.Store(true)
	}
	return e
}

// lookAt returns what is known of a directory, after looking at it if that is nothing.
// suspect: there is something to look at by now.
func (s *Server) lookAt(dir string, suspect bool) *dirLook {
	r := &s.refusals
	r.mu.Lock()
	look, ok := r.dirs.Get(dir)
	if ok && suspect {
		select {
		case <-look.done:
			ok = !look.empty
		default:
		}
	}
	if !ok {
		look = &dirLook{done: make(chan struct{})}
		r.dirs.Put(strings.Clone(dir), look, 0)
		// Not on a thread of low priority: readers wait for it.
		go s.look(dir, look)
	}
	r.mu.Unlock()
	<-look.done
	return look
}

// look looks at some of the samples of a directory, until one looks like a mask.
func (s *Server) look(dir string, look *dirLook) {
	defer close(look.done)
	entries, _ := s.List(dir) // one that cannot be listed is empty
	var names []string
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		if f := s.o.Registry.FormatOf(name); !e.Dir && f != transcode.Unknown && f != transcode.JPEG && s.o.Roles.Of(name) == transcode.Auto {
			names = append(names, name)
		}
	}
	look.empty = len(names) == 0
	for _, n := range []int{min(max(leastLooked, len(names)/4), mostLooked), mostBlank} {
		n = min(n, len(names))
		photos, blank := 0, ""
		for _, name := range scattered(names, n) {
			info, found := s.lookOf(name)
			switch found {
			case transcode.LookLabels:
				look.example, look.info = name, info
				return
			case transcode.LookPhoto, transcode.LookPicture:
				photos++
			case transcode.LookBlank:
				if info.MayBeLabels() {
					blank, look.info = name, info
				}
			}
		}
		if photos > 0 || blank == "" {
			return
		}
		// Most masks of a data set of defects are empty. Unless all were seen, some may
		// not be.
		if n == mostBlank && n < len(names) {
			look.example = blank
		}
	}
}

// scattered chooses n names at random, one of each of n equal parts: files that belong
// together lie side by side, so that every second one may be a mask. The same names
// give the same choice.
func scattered(names []string, n int) []string {
	if n == len(names) {
		return names
	}
	seed := fnv.New64a()
	seed.Write([]byte(names[0]))
	random := rand.New(rand.NewPCG(seed.Sum64(), uint64(n)))
	some := make([]string, n)
	for i := range some {
		from, to := i*len(names)/n, (i+1)*len(names)/n
		some[i] = names[from+random.IntN(to-from)]
	}
	return some
}

// lookOf tells what a sample looks like. Blank also are those that cannot be read, or
// that no view blends.
func (s *Server) lookOf(name string) (info transcode.Info, _ transcode.Look) {
	defer func() {
		if r := recover(); r != nil {
			s.stats.panics.Add(1)
			s.log.Error("looking at a sample: panic", "sample", name, "cause", r)
		}
	}()
	a, err := s.Stat(name, false)
	if err != nil {
		return info, transcode.LookBlank
	}
	h, err := s.resolve(context.Background(), 0, File{Path: name, Identity: a.Identity}, s.refusals.pixels, Planned)
	if err != nil || h.Unchanged() || !h.plan.Info().MayBeLabels() {
		return info, transcode.LookBlank
	}
	info = h.plan.Info()
	pixels := int64(info.Width) * int64(info.Height) * int64(info.Mode.Channels())
	// What takes nearly as much as its pixels may not be compressed at all.
	if pixels >= largePixels && a.Size > pixels/4 && a.Size < pixels/10*9 {
		return info, transcode.LookPhoto
	}
	// Not through the caches: nobody is going to ask for it.
	made, err := h.Make(context.Background())
	if err != nil {
		return info, transcode.LookBlank
	}
	defer made.Release()
	return info, transcode.LookOfArray(info, info.Mode, made.Split.Data)
}

// Refusals tells which directories of the samples views refuse, until somebody says what
// is in them. It looks at a few samples of each, if a view blends pixels or draws.
func (s *Server) Refusals(ctx context.Context, samples []string, views []transcode.Pipeline) (refused []*Refusal, err error) {
	if !slices.ContainsFunc(views, func(v transcode.Pipeline) bool { return v.Blends() || v.Random() }) {
		return nil, nil
	}
	dirs := map[string]bool{}
	for _, sample := range samples {
		dir := strings.TrimSuffix(sample[:strings.LastIndexByte(sample, '/')+1], "/")
		if dirs[dir] {
			continue
		}
		dirs[dir] = true
		for _, v := range views {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if e := (*Refusal)(nil); errors.As(s.Refuses(dir, v), &e) {
				refused = append(refused, e)
			}
		}
	}
	return refused, nil
}
