// Package views measures the views of a dataset side by side, and says which one a
// loader should be pointed at.
//
// # Nouns
//
// A subject is what is measured: a view of a mount, or a control, which is the same files
// on the plain disk. All subjects are read by the same [loader.Loader], in rounds. In
// each round every subject has its turn, in random order, mounted by a daemon of its own.
// A turn is up to three epochs. The first epoch finds nothing prepared and nothing
// cached. The cold epoch finds what the mount has kept on its disk, and nothing in the
// page cache: every epoch of a dataset larger than memory is like this. The cached epoch
// finds all that a page cache keeps.
//
// A [Row] is what was measured of a subject. A [Report] is all rows and the advice. The
// lasting rate of a view is what a long training sees: that of cached epochs where all
// files of the view fit in memory, that of cold ones otherwise.
//
// A [Mount] is a mount with its daemon, a process of its own: so what the daemon uses can be
// told from what the loader uses. Log, control socket and cache of the daemon are in a
// temporary directory, which is removed with the mount, when the measurement ends, however it
// ends. [Usage] is what the daemon used of the machine. Its statistics are its own counters.
//
// Fetch, prep and ingest are the rates of DS-Analyzer (CoorDL, VLDB 2021): from the
// disk alone, from memory with all preparation, and of the accelerator alone.
package views

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/transcode"
)

// Config says what to measure, and how.
type Config struct {
	// Program is the path of pipefs, for mounts.
	Program string
	// Source is the dataset or store. Mount, if set, is an existing mount of it, which is
	// measured as it is.
	Source, Mount string
	// Plain is the directory that holds the source's files as they are, for the
	// control; empty if there is none.
	Plain string
	// Archives are the archives, or the directory, that hold the source's files under other names.
	Archives []string
	// Options of mounts, beside those that measuring needs.
	Options []string
	// Views by their names below the mount, in the order of the report.
	Views []string
	// Pipeline is split, instead of comparing Views: Source is a dataset then, and Plain
	// the same. The zero value is none.
	Pipeline transcode.Pipeline
	// Roles are options of pipefs materialize, which say what samples are.
	Roles []string
	// Loader reads. Blind: it reads whatever it finds, not a list.
	Loader  loader.Loader
	Blind   bool
	Workers int // of raw reads
	Compute loader.Compute
	// Files are all samples of the source, by name. Prepared: the source is a store,
	// which already has what its views need.
	Files    []string
	Prepared bool
	// Samples of an epoch; 0 is as many as Budget has room for.
	Samples int
	// Rounds; 0 is as many as Budget has room for, six at least.
	Rounds int
	// Budget is about how long measuring may take; 0 is 90 seconds.
	Budget time.Duration
	// Memory bounds what the page cache can hold, in bytes; 0 means what the system
	// tells.
	Memory int64
	// Work is a directory on the disk that is measured, for what mounts keep. It
	// is left empty.
	Work string
	// Cannot says why the loader of the training cannot read a view, or is empty. Such a
	// view is not measured.
	Cannot func(transcode.Pipeline) string
	// Turned: samples have an EXIF orientation, by which the loader turns them.
	Turned bool
	// Registry knows the views of the source.
	Registry *transcode.Registry
	// Progress hears what is being done, how much of the whole is done, 0 to 1, and
	// how long the rest will take.
	Progress func(what string, done float64, left time.Duration)
}

// The bounds of what is chosen by itself.
const (
	fewest       = 36 // samples of an epoch: in the least rounds enough for advice
	most         = 1024
	leastRounds  = 6  // of which the lowest and the highest hold the median 97 times of 100
	mostRounds   = 12 // or more, if it takes more for advice
	epochsOfTurn = 3  // first or cold, cached, and what goes with mounting
	pilot        = 48
)

// errNothing: nothing can be measured.
var errNothing = errors.New("no sample was found, so there is nothing to measure")

// runner is a run of Run.
type runner struct {
	Config
	files    []string // of an epoch
	subjects []*subject
	random   *rand.Rand
	began    time.Time
	turns    int // that were finished
	rounds   int // that are planned
	report   *Report
}

// Run measures. When ctx ends, or measuring cannot go on, it returns the report of what
// was measured, and the error. A failure of one row stands in the row, and is not
// returned.
func Run(ctx context.Context, c Config) (*Report, error) {
	if len(c.Files) == 0 {
		return nil, errNothing
	}
	if c.Budget <= 0 {
		c.Budget = 90 * time.Second
	}
	r := &runner{Config: c, random: rand.New(rand.NewPCG(3, 5)), began: time.Now()}
	r.report = &Report{Time: r.began.UTC().Truncate(time.Second), Source: c.Source, Samples: len(c.Files), Loader: c.Loader.Name(), Advice: Advice{Same: -1, Lossy: -1, Base: -1}}
	var err error
	if r.report.Memory, err = loader.Memory(); err != nil {
		return nil, err
	}
	if c.Memory > 0 {
		r.report.Memory = min(r.report.Memory, c.Memory)
	}
	if r.report.Machine, err = ThisMachine(c.held()[0]); err != nil {
		return nil, err
	}
	r.report.Prepared = c.Prepared
	if err := os.MkdirAll(r.kept(), 0o700); err != nil {
		return nil, err
	}
	if err := r.setUp(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(r.kept()))
	}
	err = r.measure(ctx)
	for _, s := range r.subjects {
		s.summarize(r)
		r.report.Rows = append(r.report.Rows, s.Row)
	}
	r.report.Rounds, r.report.Read = r.fullRounds(), len(r.files)
	r.report.Interrupted = err != nil
	r.report.advise(r.Mount, r.again())
	return r.report, errors.Join(err, os.RemoveAll(r.kept()), os.RemoveAll(r.stores()))
}

// held are the files or directories that the source's files are in.
func (c *Config) held() []string {
	if len(c.Archives) > 0 && !c.Prepared {
		return c.Archives
	}
	return append([]string{c.Source}, c.Archives...)
}

// setUp lists what takes turns.
func (r *runner) setUp() error {
	var w *works
	if !r.Blind { // a loader of the user does what it does
		var err error
		if w, err = worksOf(r.Registry, r.Views); err != nil {
			return err
		}
	}
	switch {
	case r.pipeline():
		r.splits(r.Pipeline)
		r.report.Pipeline = r.Pipeline.String()
	case r.Plain == "":
	case w != nil:
		r.subjects = w.plain(r.Plain)
	default:
		r.subjects = append(r.subjects, &subject{Row: Row{View: plainName, Control: true, Same: true}, plain: r.Plain})
	}
	for _, v := range r.Views {
		s := &subject{Row: Row{View: v, Path: v}, source: r.Source}
		p, err := r.Registry.ParseRandom(v)
		if s.Random = err == nil && p.Random(); w != nil {
			w.set(s, p)
		}
		r.subjects = append(r.subjects, s)
	}
	if w != nil {
		r.report.Compared = w.describe(r.subjects)
		if _, transforms := r.Loader.(*loader.Torch); !transforms {
			r.report.Compared = []string{"The built-in loader transforms nothing: plain files are only decoded, which is less than a training does with them. PyTorch's does it all (--loader torch)."}
		}
	}
	r.report.Compared = append(r.report.Compared, ofEpochs(r.subjects)...)
	return nil
}

// pipeline: splits are compared.
func (r *runner) pipeline() bool { return len(r.Pipeline.Steps()) > 0 }

// plainName is the control's.
const plainName = "plain files"

// mostWait bounds the time for which a run waits for a quiet machine.
const mostWait = 15 * time.Second

// measure runs rounds until the budget is used up.
func (r *runner) measure(ctx context.Context) error {
	wait := min(mostWait, r.Budget/5)
	if r.Rounds > 0 {
		wait = 0 // who says how often is measured is not kept waiting
	}
	r.report.Others = Quiet(ctx, wait, r.tell)
	if err := r.choose(ctx); err != nil {
		return err
	}
	prepare := r.inspect
	if r.pipeline() {
		prepare = r.store
	}
	if err := prepare(ctx); err != nil {
		return err
	}
	r.rounds = r.Rounds
	if r.rounds == 0 {
		r.rounds = leastRounds // until the first has told how long one takes
	}
	began, nothing := time.Now(), false
	rounds := func(done int) int {
		if r.Rounds == 0 && done == 1 {
			affordable := 1 + int((r.Budget-time.Since(r.began))/max(time.Since(began), time.Millisecond))
			r.rounds = max(leastRounds, min(affordable, max(mostRounds, r.enough())))
		}
		if nothing = !slices.ContainsFunc(r.subjects, func(s *subject) bool { return s.Error == "" }); nothing {
			return 0
		}
		return r.rounds
	}
	err := Compare(ctx, r.random, len(r.subjects), rounds, func(round, i int) error {
		s := r.subjects[i]
		r.tell(fmt.Sprintf("round %d of %d: %s", round+1, r.rounds, s.View))
		err := s.turn(ctx, r, round)
		r.turns++
		return err
	})
	if err == nil && nothing {
		err = errors.New("nothing could be measured; the report says why")
	}
	return err
}

// enough is how many rounds advice needs, going by the shortest epoch so far.
func (r *runner) enough() int {
	rounds := 0
	for _, s := range r.subjects {
		for _, t := range slices.Concat(s.cold, s.cached) {
			rounds = max(rounds, Enough(len(r.files), t.Seconds))
		}
	}
	return rounds
}

// again says with which options the next run tells more.
func (r *runner) again() string {
	var without []string
	if r.Rounds > 0 {
		without = append(without, "--rounds")
	}
	if r.Samples > 0 {
		without = append(without, "--samples")
	}
	longer := fmt.Sprintf("with --time %dm", max(5, int((4*r.Budget).Minutes())))
	if len(without) > 0 {
		longer += " and without " + strings.Join(without, " and ")
	}
	return longer
}

// tell reports the progress.
func (r *runner) tell(what string) {
	if r.Progress == nil {
		return
	}
	done := float64(r.turns) / float64(max(1, r.rounds*len(r.subjects)))
	var left time.Duration
	if r.turns > 0 {
		left = time.Duration(float64(time.Since(r.began)) * (1 - done) / done)
	}
	r.Progress(what, done, left)
}

// choose takes the samples of an epoch, evenly spread: as many as the budget allows,
// going by how fast the first readable subject is.
func (r *runner) choose(ctx context.Context) error {
	if r.Blind {
		r.files = r.Files
		return nil
	}
	n := r.Samples
	if n == 0 {
		r.tell("finding out how long an epoch takes")
		files, err := r.sound(ctx, loader.Evenly(r.Files, pilot))
		if err != nil {
			return err
		}
		rate, err := r.pilot(ctx, files)
		if err != nil {
			return err
		}
		rounds := r.Rounds
		if rounds == 0 {
			rounds = leastRounds + 1
		}
		seconds := r.Budget.Seconds() / float64(len(r.subjects)*epochsOfTurn*rounds)
		n = min(most, max(fewest, int(rate*seconds)))
	}
	var err error
	if r.files, err = r.sound(ctx, loader.Evenly(r.Files, n)); err != nil {
		return err
	}
	r.began = time.Now() // loaders take their time to start
	return nil
}

// kept is where mounts keep what they prepare.
func (r *runner) kept() string { return filepath.Join(r.Work, "kept") }

// fullRounds is how many rounds all rows without an error have finished.
func (r *runner) fullRounds() int {
	least := -1
	for _, s := range r.subjects {
		if n := len(s.Lasting()); s.Error == "" && (least < 0 || n < least) {
			least = n
		}
	}
	return max(0, least)
}
