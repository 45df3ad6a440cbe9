package views

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/internal/mounts"
)

// Report is all that was measured. It is what --json writes.
type Report struct {
	Version string    `json:"version"` // of pipefs
	Time    time.Time `json:"time"`
	Machine Machine   `json:"machine"`
	Source  string    `json:"source"` // dataset, store or mount
	// Prepared: the source is a store, which has what its views take already.
	Prepared bool `json:"prepared,omitempty"`
	Samples  int  `json:"samples"` // of the source
	Read     int  `json:"read"`    // samples of an epoch that was measured
	// LeftOut counts samples that cannot be decoded. Broken names one of them, and says
	// why.
	LeftOut int    `json:"left_out,omitempty"`
	Broken  string `json:"broken,omitempty"`
	Loader  string `json:"loader"`
	// Assumed says for which loaders the views were chosen; empty where the user named
	// them.
	Assumed string `json:"assumed,omitempty"`
	// Rebuilt says that the originals of a store are rebuilt when they are first read, and
	// what that costs; empty where they are not.
	Rebuilt string `json:"rebuilt,omitempty"`
	Compute string `json:"compute,omitempty"` // as --compute has it
	// Pipeline whose splits are compared; empty where views are.
	Pipeline string `json:"pipeline,omitempty"`
	// Compared says what the loader does with which files, where that differs; each is a
	// sentence.
	Compared []string `json:"compared,omitempty"`
	// Limits says how the disk was slowed down, and how memory was bounded; each is a
	// sentence.
	Limits []string `json:"limits,omitempty"`
	// Others is the share of the processors that other processes used before it began, if
	// it was too large.
	Others float64 `json:"others_before,omitempty"`
	Rounds int     `json:"rounds"` // that were finished by all rows
	// Interrupted: the run was stopped, and the report has what was measured before.
	Interrupted bool   `json:"interrupted,omitempty"`
	Memory      int64  `json:"memory"` // bytes that the page cache can hold, about
	Rows        []Row  `json:"rows"`
	Advice      Advice `json:"advice"`
}

// Measured reports whether any row has figures.
func (r *Report) Measured() bool {
	return slices.ContainsFunc(r.Rows, func(row Row) bool { return len(row.Lasting()) > 0 })
}

// Failures are the errors, with the rows that they belong to, in the order of the rows.
func (r *Report) Failures() []string { return r.Reasons(func(row *Row) string { return row.Error }) }

// Reasons are what rows say, if they do, each once and behind their names.
func (r *Report) Reasons(of func(*Row) string) (all []string) {
	views := map[string][]string{}
	var reasons []string
	for i := range r.Rows {
		if why := of(&r.Rows[i]); why != "" {
			if views[why] == nil {
				reasons = append(reasons, why)
			}
			views[why] = append(views[why], r.Rows[i].View)
		}
	}
	for _, why := range reasons {
		all = append(all, strings.Join(views[why], ", ")+": "+why)
	}
	return all
}

// Machine is where it was measured.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory int64  `json:"memory"` // bytes
	Kernel string `json:"kernel"`
	Disk   string `json:"disk"` // file system and device of the source
}

// Row is what was measured of a subject. Rates are in samples/s, one a round.
type Row struct {
	View string `json:"view"` // or what the control is
	// Control: the same files without pipefs.
	Control bool `json:"control,omitempty"`
	// Path that a loader is to be pointed at, below the mount; empty for controls.
	Path string `json:"path,omitempty"`
	// Same: the pixels are those of the source. MSSSIM is how much other pixels look like
	// them, 0 to 1; 0 where that cannot be measured, as for another size.
	Same   bool    `json:"same_pixels"`
	MSSSIM float64 `json:"ms_ssim,omitempty"`
	// Work is the steps that the pictures get after the file is decoded, by the loader or by
	// the view, where that is not the same for all rows. Ready: by the view; the loader does
	// nothing but read. Random: it draws, another epoch in each pass.
	Work   string `json:"work,omitempty"`
	Ready  bool   `json:"ready,omitempty"`
	Random bool   `json:"random,omitempty"`
	// Split of a pipeline: View is its name, and Path the view that is read. Offline is the
	// seconds that storing it takes, of the whole dataset.
	Split   *Split  `json:"split,omitempty"`
	Offline float64 `json:"offline_seconds,omitempty"`
	// Error is why there are no figures, or only those of earlier rounds.
	Error string `json:"error,omitempty"`

	First  []float64 `json:"first,omitempty"`  // nothing prepared, nothing cached
	Cold   []float64 `json:"cold,omitempty"`   // prepared, nothing cached
	Cached []float64 `json:"cached,omitempty"` // prepared and cached
	// Fits: all files of the view fit in memory.
	Fits bool `json:"fits"`

	// Mean bytes of a sample: of its file in this view, of what a cold epoch reads from
	// the disk, and of what the view keeps on disk beside the source.
	FileBytes   int64 `json:"file_bytes"`
	DiskBytes   int64 `json:"disk_bytes"`
	StoredBytes int64 `json:"stored_bytes"`
	// CPU seconds of a sample, median of the rounds: of the loader and of the daemon.
	ClientCold   float64 `json:"client_cold_seconds"`
	DaemonFirst  float64 `json:"daemon_first_seconds"`
	DaemonCold   float64 `json:"daemon_cold_seconds"`
	ClientCached float64 `json:"client_cached_seconds"`
	DaemonCached float64 `json:"daemon_cached_seconds"`
	// Of the lasting epochs: wall seconds, one a round; the share of the processors that
	// was in use, 0 to 1; and the share that other processes used. 0 where the system
	// does not tell.
	Seconds   []float64 `json:"seconds,omitempty"`
	Busy      float64   `json:"busy"`
	Others    float64   `json:"others"`
	uncounted float64   // the share that a user's loader used in processes not counted as its own
	// Doubt is why the lasting rate does not show whether this is faster than the base of
	// the advice; empty where it does.
	Doubt string `json:"doubt,omitempty"`
	// P50 and P99 are the seconds from open to the end of a file, cold, without decoding
	// by the reader. Raw is the rate of that.
	P50 float64   `json:"p50_seconds"`
	P99 float64   `json:"p99_seconds"`
	Raw []float64 `json:"raw,omitempty"`
	// Resident is the peak of the memory of the daemon, in bytes; 0 where the system does
	// not tell.
	Resident int64 `json:"resident_bytes"`

	// Of the lasting epochs, with an emulated accelerator: the share of time in which it
	// computed, and how long it waited for one batch in a hundred, in seconds.
	Utilisation float64 `json:"utilisation,omitempty"`
	Wait99      float64 `json:"wait99_seconds,omitempty"`

	Analysis Analysis `json:"analysis"`
	// Bottleneck of the lasting epochs, in words: "the loader's processor time",
	// "the daemon's processor time", "the disk", "the accelerator", "latency".
	Bottleneck string `json:"bottleneck"`
}

// Analysis is DS-Analyzer's: rates in samples/s, 0 where undefined, and stalls as
// shares of a cold epoch.
type Analysis struct {
	Ingest float64 `json:"ingest,omitempty"` // G, of the accelerator
	Prep   float64 `json:"prep,omitempty"`   // P, from memory
	Fetch  float64 `json:"fetch,omitempty"`  // F, from the disk
	// Computing, PrepStall and FetchStall make up a cold epoch.
	Computing  float64 `json:"computing"`
	PrepStall  float64 `json:"prep_stall"`
	FetchStall float64 `json:"fetch_stall"`
}

// Advice is which view to use. Indices are into Rows; -1 where there is none, or where it
// is not certain.
type Advice struct {
	Same  int `json:"same"`  // the best with the same pixels
	Lossy int `json:"lossy"` // the best of the others whose likeness is known
	// Base is the row that gains are relative to: the tree as it is.
	Base int `json:"base"`
	// Lines are for the user, one or two.
	Lines []string `json:"lines"`
}

// Lasting are the rates of the epochs that a training consists of.
func (r *Row) Lasting() []float64 {
	switch {
	case r.cachedLast():
		return r.Cached
	case len(r.Cold) > 0:
		return r.Cold
	}
	return r.First
}

// cachedLast: later epochs read from memory, and were measured.
func (r *Row) cachedLast() bool { return r.Fits && len(r.Cached) > 0 }

// CPU is the CPU seconds that a sample takes in lasting epochs, of the loader and of
// the daemon.
func (r *Row) CPU() (client, daemon float64) {
	if r.cachedLast() {
		return r.ClientCached, r.DaemonCached
	}
	return r.ClientCold, r.DaemonCold
}

// Rate is the lasting rate with its interval.
func (r *Row) Rate() Interval { return Bootstrap(r.Lasting()) }

// Term is a word of the report, and what it means. Terminal and page use the same words; the
// terminal explains those that it cannot do without.
type Term struct {
	Word, Meaning string
	Explained     bool
}

// The words for what is measured of a view. Those of epochs are also called first, cold,
// cached and lasting in JSON.
var (
	FirstEpoch = Term{"first epoch", "Nothing is prepared, nothing is cached. Every sample is made when it is read.", false}
	FromDisk   = Term{"from the disk", "The mount has kept what it made on its disk, and nothing is in the page cache. Every epoch of a dataset larger than memory is like this.", true}
	FromMemory = Term{"from memory", "Everything that a page cache keeps is in it. Epochs from the second on are like this if all files of the view fit in memory.", true}
	Lasting    = Term{"lasting", "The rate of the epochs that a training consists of: from memory where all files of the view fit, from the disk otherwise.", false}
	Gain       = Term{"gain", "The lasting rate over that of the plain files, or of original/ without them.", false}
	Pixels     = Term{"pixels", "With same pixels the loader gets exactly the pixels of the source. For other pixels, MS-SSIM tells how much they look like the source, from 0 to 1. It cannot be computed where sizes differ. Those of a random view are drawn in each epoch.", false}
	File       = Term{"file", "Mean bytes of a sample's file in the view.", false}
	Read       = Term{"read", "Mean bytes that an epoch from the disk reads of it for a sample.", true}
	Kept       = Term{"kept", "Mean bytes of a sample that the mount keeps on its disk beside the source. The first epoch makes them.", true}
	LoaderCPU  = Term{"loader CPU", "Processor time of the loader for a sample.", false}
	DaemonCPU  = Term{"daemon CPU", "Processor time of the daemon for a sample.", false}
	OpenToEnd  = Term{"open to end", "Time from opening a file to its end in an epoch from the disk, without decoding: p50 is the median, and one file in a hundred takes longer than p99.", true}
	Bottleneck = Term{"bottleneck", "What the lasting epochs wait for.", false}
	Busy       = Term{"accelerator busy", "The share of lasting epochs in which the emulated accelerator computes. p99 wait is how long it waits for a batch at most, but for one batch in a hundred.", false}
	Stalls     = Term{"stalls", "After DS-Analyzer: an epoch with the emulated accelerator alone, one from memory, and one from the disk. What the second takes longer than the first is the prep stall, what the third takes longer than the second the fetch stall.", false}
)

// Likeness says how the pixels of a view relate to the source's; empty where that is not
// known.
func (r *Row) Likeness() string {
	switch {
	case r.Same && len(r.Lasting()) > 0:
		return "same"
	case r.Random && len(r.Lasting()) > 0:
		return "drawn"
	case r.MSSSIM > 0:
		return fmt.Sprintf("MS-SSIM %.3f", r.MSSSIM)
	case len(r.Lasting()) == 0:
		return ""
	}
	return "other"
}

// Intervals says what the intervals beside rates are.
func (r *Report) Intervals() string {
	const sure = 6 // rounds
	if r.Rounds < sure {
		return fmt.Sprintf("intervals are about the lowest and the highest: 95 %% intervals take %d rounds", sure)
	}
	return "intervals are 95 % intervals, by the bootstrap"
}

// ThisMachine describes where source is measured.
func ThisMachine(source string) (Machine, error) {
	m := Machine{Cores: runtime.NumCPU()}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return m, fmt.Errorf("uname: %w", err)
	}
	m.Kernel = "Linux " + unix.ByteSliceToString(name.Release[:])
	m.CPU = valueOf("/proc/cpuinfo", "model name")
	if m.CPU == "" {
		m.CPU = runtime.GOARCH
	}
	kilobytes, _ := cgroup.Field("/proc/meminfo", "MemTotal:")
	m.Memory = kilobytes << 10
	if strings.Contains(source, "://") {
		m.Disk = "object storage"
		return m, nil
	}
	real, err := filepath.EvalSymlinks(source)
	if err != nil {
		return m, err
	}
	at, err := mounts.Holding(real)
	if at != nil {
		m.Disk = at.FSType + " on " + at.Source
	}
	return m, err
}

// valueOf reads "key : value" from a file of /proc; empty if it is not there.
func valueOf(file, key string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if k, v, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
