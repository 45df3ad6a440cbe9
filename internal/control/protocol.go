package control

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/pipefs/pipefs/internal/account"
)

// Version of the protocol.
const Version = 1

// The operations.
const (
	OpStats    = "stats"    // what the daemon has counted so far
	OpFidelity = "fidelity" // tell, or with Scans move, where `current` points
	OpView     = "view"     // judge whether View is one of this mount
	OpWhy      = "why"      // tell why the last request for Path failed
	OpExplain  = "explain"  // tell how the file at Path is made
	OpHold     = "hold"     // keep a shared mount as long as the connection is open
	OpTakeover = "takeover" // have Program serve a supervised mount from now on
	OpPprof    = "pprof"    // take a profile of the daemon
	OpTrace    = "trace"    // tell which requests came after Since
	OpConfig   = "config"   // tell with which settings it serves
	OpRefresh  = "refresh"  // look for what is newer, or with Refresh tell how far that is
)

// Request is what a client sends.
type Request struct {
	V  int    `json:"v"`
	Op string `json:"op"`
	// Scans is the number of scans that `current` shall have, 1 to 10; 0 asks.
	Scans int `json:"scans,omitempty"`
	// View is the view or the link that is asked about.
	View string `json:"view,omitempty"`
	// Path below the mount that is asked about.
	Path string `json:"path,omitempty"`
	// Key of the mount that is to be held, as its daemon was given it; empty takes any.
	Key string `json:"key,omitempty"`
	// Linger is how many seconds, at most [MaxLinger], the mount stays after this holder
	// for one who comes next; without it, the mount ends when its last holder is gone.
	Linger int `json:"linger,omitempty"`
	// Refresh is the number of one that was begun; 0 begins one.
	Refresh int `json:"refresh,omitempty"`
	// History asks for that of the stats.
	History bool `json:"history,omitempty"`
	// Since is the number of the first request to be told; -1 is the next one.
	Since int64 `json:"since,omitempty"`
	// Profile is the name of a profile of runtime/pprof, or "cpu", which takes Seconds.
	Profile string `json:"profile,omitempty"`
	// Seconds is how long the daemon shall look, at most [MaxProfile].
	Seconds int `json:"seconds,omitempty"`
	// Program is the path of the program that takes the mount over.
	Program string `json:"program,omitempty"`
}

const (
	// MaxLinger is the most that [Request.Linger] may be.
	MaxLinger = 600
	// MaxProfile is the most that [Request.Seconds] may be.
	MaxProfile = 120
)

// Reply is what the daemon answers. Error is empty where it did as it was told.
type Reply struct {
	V       int      `json:"v"`
	Error   string   `json:"error,omitempty"`
	Denied  bool     `json:"denied,omitempty"`  // the error is one of permissions
	Refused bool     `json:"refused,omitempty"` // the error is one of the request
	Ending  bool     `json:"ending,omitempty"`  // the mount has begun to end: once it is gone, mount again
	Current string   `json:"current,omitempty"`
	View    string   `json:"view,omitempty"`  // the name of the view in the mount
	Note    string   `json:"note,omitempty"`  // which of its samples may be masks, and what to do
	Cause   string   `json:"cause,omitempty"` // of a failure; empty if it is not known
	Mount   string   `json:"mount,omitempty"`
	PID     int      `json:"pid,omitempty"` // of the daemon
	Stats   *Stats   `json:"stats,omitempty"`
	Refresh *Refresh `json:"refresh,omitempty"`
	// Explained is how a file is made.
	Explained *Explanation   `json:"explained,omitempty"`
	Profile   []byte         `json:"profile,omitempty"`
	Trace     *account.Taken `json:"trace,omitempty"`
	// Config is what the daemon was told, as JSON.
	Config json.RawMessage `json:"config,omitempty"`
	// Paused is how long nothing was served while the mount was taken over, in seconds.
	Paused float64 `json:"paused,omitempty"`
}

// Explanation says how one file of a mount is made.
type Explanation struct {
	View string `json:"view"`
	// Sample is the path of the file in the dataset, and Is its format and size.
	Sample string `json:"sample,omitempty"`
	Is     string `json:"is,omitempty"`
	// Unchanged is why the view shows the file as it is; empty if it does not.
	Unchanged string          `json:"unchanged,omitempty"`
	Steps     []ExplainedStep `json:"steps,omitempty"`
	Draw      *Draw           `json:"draw,omitempty"` // of a random view
	// From is where a read begins, and Computed how many steps follow.
	From     string `json:"from,omitempty"`
	Computed int    `json:"computed,omitempty"`
	// Bytes is the size of the file in the view, if that is known without making it.
	Bytes *int64 `json:"bytes,omitempty"`
	// Failed is why a reader could not read the sample since the mount was made.
	Failed string `json:"failed,omitempty"`
	Note   string `json:"note,omitempty"`
}

// ExplainedStep is one step of a view, as it applies to the file.
type ExplainedStep struct {
	Step string `json:"step"`
	// LeftOut is why the step does not apply; empty if it does.
	LeftOut string `json:"left_out,omitempty"`
	// Makes is what the step makes: the size of the picture, and what was drawn.
	Makes string `json:"makes,omitempty"`
}

// Draw says which draw of a random view a file shows.
type Draw struct {
	Seed   uint64 `json:"seed"`
	Epoch  uint64 `json:"epoch"`
	Repeat uint32 `json:"repeat,omitempty"`
}

// Refresh is how far a look for what is newer is.
type Refresh struct {
	Number int  `json:"number"` // from 1
	Done   bool `json:"done"`
	// Listed is how many objects of a bucket have been listed so far.
	Listed int64 `json:"listed,omitempty"`
	// Before and Now are how many objects the list of a bucket has; both are 0 for a directory.
	Before int64 `json:"before,omitempty"`
	Now    int64 `json:"now,omitempty"`
	// LeftOut is how many objects are left out, because their names are no paths.
	LeftOut int64 `json:"left_out,omitempty"`
	// Store is what became of the store; nil where there is none, or where that failed.
	Store *StoreRefresh `json:"store,omitempty"`
	// Error is why it failed; the mount then shows what it showed before.
	Error string `json:"error,omitempty"`
}

// StoreRefresh says which generation a store shows.
type StoreRefresh struct {
	Before uint64 `json:"before"` // number of the generation
	Now    uint64 `json:"now"`
	Newer  bool   `json:"newer"` // another one was taken up
	// Files that came, that are other ones by now, and that went.
	Came    int64 `json:"came"`
	Changed int64 `json:"changed"`
	Went    int64 `json:"went"`
}

// Stats is the state of a mount.
type Stats struct {
	Mount   string    `json:"mount"`
	Source  string    `json:"source"` // the dataset or store
	PID     int       `json:"pid"`
	Version string    `json:"version"` // of the daemon's program
	Started time.Time `json:"started"`
	Log     string    `json:"log,omitempty"` // where it logs to, if to a file
	Current string    `json:"current"`       // the view that `current` points to
	// Cache says where samples are cached: page, or daemon with the policy and the budget.
	Cache string `json:"cache,omitempty"`
	// Holders of a shared mount; nil of a mount that is not shared.
	Holders *int `json:"holders,omitempty"`
	// Supervised is what the parent of the daemon says; nil of a mount that has none.
	Supervised *Supervised `json:"supervised,omitempty"`
	// Lost says what of the source is not there any more; empty if nothing is.
	Lost string `json:"lost,omitempty"`
	// Changes says how those in the dataset are noticed.
	Changes string `json:"changes,omitempty"`
	// OnError is what readers of bad samples get: fail, black or replace.
	OnError string `json:"on_error,omitempty"`
	// Pairs say which masks follow which pictures.
	Pairs []string `json:"pairs,omitempty"`
	// Counters, in the order in which they are shown.
	Counters []Counter `json:"counters"`
	// Account says where the time of reads went.
	Account *account.Snapshot `json:"account,omitempty"`
	// Verdict says what has held readers back in the last half minute.
	Verdict *account.Verdict `json:"verdict,omitempty"`
	// History are the last minutes, for whoever asks for it.
	History []account.Second `json:"history,omitempty"`
}

// Supervised is a mount that goes on if its daemon dies.
type Supervised struct {
	PID       int `json:"pid"`       // of the parent, which ends the mount at SIGTERM
	Restarts  int `json:"restarts"`  // after a daemon died
	Takeovers int `json:"takeovers"` // on purpose
	// Longest is how long nothing was served at most, in seconds.
	Longest float64 `json:"longest_pause"`
	// Journal is the version of what daemons leave to those after them.
	Journal int `json:"journal"`
	// Config of the daemon.
	Config json.RawMessage `json:"config"`
}

// Unit of a counter's value.
type Unit string

// The units.
const (
	Count   Unit = ""
	Bytes   Unit = "bytes"
	Nanosec Unit = "ns"
	YesNo   Unit = "bool" // 0 or 1
	Percent Unit = "%"
	Text    Unit = "text" // no number
)

// Counter is one number, or what is said in its place.
type Counter struct {
	Group string `json:"group"` // the part of the daemon: fs, serve, store
	Name  string `json:"name"`
	Value int64  `json:"value"`
	Unit  Unit   `json:"unit,omitempty"`
	Text  string `json:"text,omitempty"`
}

// rowNames are the rows of pipefs stats for counters whose names, the keys of --json, are too
// short to stand alone: by group and name.
var rowNames = map[[2]string]string{
	{"tree", "entries listed"}:                          "files and directories listed",
	{"tree", "directories and links that could not be"}: "directories and links not watched",
	{"tree", "passthrough"}:                             "kernel reads cached files itself",
	{"tree", "views that were forgotten"}:               "unused views closed",

	{"serve", "of these, originals"}:                        "originals rebuilt from a store",
	{"serve", "made and kept"}:                              "samples kept on disk",
	{"serve", "made, and not kept: the disk is slow"}:       "samples not kept: the disk is slow",
	{"serve", "could not be made"}:                          "samples that failed",
	{"serve", "contents opened"}:                            "files opened",
	{"serve", "reads of open contents"}:                     "reads of files already open",
	{"serve", "memory"}:                                     "memory in use",
	{"serve", "fetched"}:                                    "bytes read from disk or bucket",
	{"mix", "opened from what is materialized"}:             "files opened as stored",
	{"mix", "made from something shorter"}:                  "files computed from an earlier step",
	{"mix", "copies that had to be made again"}:             "damaged copies made again",
	{"mix", "share aimed at"}:                               "target share of files opened as stored",
	{"background", "kept on disk"}:                          "prepared data on disk",
	{"background", "full"}:                                  "limit reached",
	{"bugs", "panics"}:                                      "internal errors",
	{"epochs", "batches that could not be made"}:            "batches that failed",
	{"refused", "more directories"}:                         "more directories refused",
	{"gpu", "given up"}:                                     "GPU disabled",
	{"gpu", "left to the processor"}:                        "pictures decoded by the processor instead",
	{"store", "newer ones were last looked for"}:            "last check for a newer generation",
	{"store", "what was wrong then"}:                        "error of that check",
	{"hints", "of these, read"}:                             "loaded ahead, then read",
	{"hints", "here already, or read before it was loaded"}: "not needed: loaded or read already",
	{"hints", "loaded for nothing: nobody has read it"}:     "loaded ahead, never read",
	{"hints", "dropped: the reader went on without it"}:     "dropped: the reader was faster",
	{"hints", "not there, or could not be loaded"}:          "missing, or failed to load",
	{"hints", "senders that read other files"}:              "programs that read other files than announced",
	{"hints", "memory"}:                                     "memory in use",

	{"hints", "of these, by a reader that came while it was loaded"}:      "loaded ahead, read while loading",
	{"epochs", "samples that are black: they could not be made"}:          "failed samples shown as black",
	{"epochs", "samples in the place of others: these could not be made"}: "failed samples replaced by others",
	{"background", "given back of samples that changed or went"}:          "freed: samples changed or were removed",
	{"bucket", "objects replaced since they were listed, and found so"}:   "objects replaced since they were listed",
	{"refused", "samples by themselves: the log names some"}:              "single samples refused (see the log)",

	{"disk cache", "blocks read from it"}:                         "blocks found in the cache",
	{"disk cache", "blocks that a reader waited for"}:             "blocks fetched while a reader waited",
	{"disk cache", "fetched"}:                                     "bytes fetched from the bucket",
	{"disk cache", "read from it"}:                                "bytes read from the cache",
	{"disk cache", "kept of this bucket"}:                         "bytes of this bucket in the cache",
	{"disk cache", "fetched, and not kept: it is full"}:           "bytes not cached: the cache is full",
	{"disk cache", "removed at the limit"}:                        "bytes evicted",
	{"disk cache", "blocks that were damaged, and fetched again"}: "damaged blocks fetched again",

	{"cache", "kept"}:                "bytes kept",
	{"cache", "kept for this epoch"}: "bytes kept for this epoch",
	{"cache", "kept for the next"}:   "bytes kept for the next epoch",
	{"cache", "samples of an epoch"}: "samples in one epoch",
	{"cache", "read in this one"}:    "samples read in this epoch",
}

// RowName is what pipefs stats calls a counter.
func RowName(c Counter) string {
	name := rowNames[[2]string{c.Group, c.Name}]
	if name == "" && c.Name == "read" {
		name = "bytes read" // of a view
	}
	return cmp.Or(name, c.Name)
}
