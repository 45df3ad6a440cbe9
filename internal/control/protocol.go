package control

import "time"

// Version of the protocol.
const Version = 1

// The operations.
const (
	OpStats    = "stats"    // what the daemon has counted so far
	OpFidelity = "fidelity" // tell, or with Scans move, where `current` points
	OpView     = "view"     // judge whether View is one of this mount
	OpHold     = "hold"     // keep a shared mount as long as the connection is open
)

// Request is what a client sends.
type Request struct {
	V  int    `json:"v"`
	Op string `json:"op"`
	// Scans is the number of scans that `current` shall have, 1 to 10; 0 asks.
	Scans int `json:"scans,omitempty"`
	// View is the view or the link that is asked about.
	View string `json:"view,omitempty"`
	// Key of the mount that is to be held, as its daemon was given it; empty takes any.
	Key string `json:"key,omitempty"`
	// Linger is how many seconds, at most [MaxLinger], the mount stays after this holder
	// for one who comes next; without it, the mount ends when its last holder is gone.
	Linger int `json:"linger,omitempty"`
}

// MaxLinger is the most that [Request.Linger] may be.
const MaxLinger = 600

// Reply is what the daemon answers. Error is empty where it did as it was told.
type Reply struct {
	V       int    `json:"v"`
	Error   string `json:"error,omitempty"`
	Denied  bool   `json:"denied,omitempty"`  // the error is one of permissions
	Refused bool   `json:"refused,omitempty"` // the error is one of the request
	Ending  bool   `json:"ending,omitempty"`  // the mount has begun to end: once it is gone, mount again
	Current string `json:"current,omitempty"`
	View    string `json:"view,omitempty"` // the name of the view in the mount
	Mount   string `json:"mount,omitempty"`
	PID     int    `json:"pid,omitempty"` // of the daemon
	Stats   *Stats `json:"stats,omitempty"`
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
	// Changes says how those in the dataset are noticed.
	Changes string `json:"changes,omitempty"`
	// Counters, in the order in which they are shown.
	Counters []Counter `json:"counters"`
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
