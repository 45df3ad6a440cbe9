package account

import "time"

// Version of the format of a [Snapshot] in JSON. It is raised when a field changes its meaning or goes.
const Version = 1

// Snapshot is what a ledger has counted up to a time. All times are in ns and all counts begin with the
// mount, so that the difference of two snapshots describes the time between them.
type Snapshot struct {
	V  int       `json:"v"`
	At time.Time `json:"at"`

	Machine Machine `json:"machine"`
	Made    Ahead   `json:"made_ahead"`
	Cache   Cache   `json:"cache"`
	// Reading is the sum of all processes, those that have ended included.
	Reading Reading `json:"reading"`
	Looks   Looks   `json:"looks"`
	// Timed is what trainings have told of themselves.
	Timed Timed  `json:"timed"`
	Views []Seen `json:"views"`
	// Readers are processes that have read and have not ended, at most [MaxReaders].
	Readers []Reader `json:"readers,omitempty"`
}

// Second is what happened in about a second.
type Second struct {
	At int64 `json:"at"` // ms since 1970
	// Files and Bytes a second.
	Files float64 `json:"files"`
	Bytes float64 `json:"bytes"`
	// Disk, Processor and Training are shares of the time of readers: 0 to 1, and 1 together unless nobody reads.
	Disk      float64 `json:"disk"`
	Processor float64 `json:"processor"`
	Training  float64 `json:"training"`
}

// Second describes the time since another snapshot.
func (s *Snapshot) Second(before *Snapshot) Second {
	d, passed := s.Since(before), max(s.At.Sub(before.At).Seconds(), 0.001)
	t, r := d.Total(), &d.Reading
	out := Second{At: s.At.UnixMilli(), Files: float64(t.Begun) / passed, Bytes: float64(t.Bytes) / passed}
	all, parts := float64(r.Waited+r.Computed+r.Queued+r.Slept), float64(max(1, t.Source+t.Worker+t.Compute+t.Memory+t.Copy))
	if all > 0 {
		out.Disk = float64(r.Waited) * float64(t.Source) / parts / all
		out.Training = float64(r.Computed+r.Slept) / all
		out.Processor = 1 - out.Disk - out.Training
	}
	return out
}

// Machine is what the mount has to work with, and has used.
type Machine struct {
	Cores   int `json:"cores"`
	Workers int `json:"workers"` // samples computed at once
	// Idle is the time that cores of the machine had nothing to do, all of them together; -1: not known.
	Idle int64 `json:"idle_ns"`
	CPU  int64 `json:"daemon_cpu_ns"`
	// Disk is how many bytes the daemon read that were not in the page cache, as the kernel counts them.
	Disk int64 `json:"disk_bytes"`
	// Fetched is how many bytes the daemon read from the dataset, the store and what it keeps.
	Fetched int64 `json:"fetched_bytes"`
	// Network is how many bytes came from a bucket. Remote: the dataset or the store lies in one.
	Network int64 `json:"network_bytes"`
	Remote  bool  `json:"remote"`
	// Unkept is how many bytes from a bucket the disk cache did not keep, or removed for others.
	Unkept int64 `json:"unkept_bytes"`
}

// Looks are moments at which the mount looked whether a reader was waiting for it, twenty a second while it is read.
type Looks struct {
	All     int64 `json:"all"`
	Waiting int64 `json:"waiting"`
}

// Cache counts opens of samples that were in the memory of the daemon, and of those that were not, with
// --cache daemon, liquid and minio.
type Cache struct {
	Hits   int64 `json:"hits"`
	Misses int64 `json:"misses"`
	Full   bool  `json:"full"`
	// Epoch counts from 1; 0 is that epochs are not told apart.
	Epoch int `json:"epoch"`
}

// Ahead counts what was made before a reader came for it: files that were announced, and batches.
type Ahead struct {
	Made   int64 `json:"made"`
	Used   int64 `json:"used"`
	Wasted int64 `json:"wasted"`
}

// Parts are what requests waited for, in ns.
type Parts struct {
	Source  int64 `json:"source_ns"`
	Worker  int64 `json:"worker_ns"`
	Compute int64 `json:"compute_ns"`
	Memory  int64 `json:"memory_ns"`
	// Copy is the remainder: names, and copying to the kernel.
	Copy int64 `json:"copy_ns"`
}

// Seen is what was asked of one view.
type Seen struct {
	View    string `json:"view"`
	Lookups int64  `json:"lookups"`
	Opens   int64  `json:"opens"`
	Reads   int64  `json:"reads"`
	Begun   int64  `json:"begun"` // files read from their first byte on
	Bytes   int64  `json:"bytes"`
	Errors  int64  `json:"errors"`
	// Waited is the time of all requests together. Requests of one reader may overlap.
	Waited int64 `json:"waited_ns"`
	Parts
	// Making is what samples of the view cost, whoever waited for them.
	Making Making `json:"making"`
	// Latency of opens and reads, and Took their sum.
	Took    int64    `json:"took_ns"`
	Latency []Bucket `json:"latency,omitempty"`
}

// Making is the cost of samples that were made.
type Making struct {
	Samples int64 `json:"samples"`
	Fetched int64 `json:"fetched_bytes"`
	Source  int64 `json:"source_ns"`
	Compute int64 `json:"compute_ns"`
	Memory  int64 `json:"memory_ns"`
}

// Bucket counts opens and reads that took as long as UpTo, in ns, and longer than those of the bucket before.
type Bucket struct {
	UpTo  int64 `json:"up_to_ns"`
	Count int64 `json:"count"`
}

// Reading is how readers spent their time, all threads together.
type Reading struct {
	Waited int64 `json:"waited_ns"`
	// Computed, Queued and Slept are the time between requests. Queued is waiting for a core. ComputedAlone
	// is that part of Computed in processes that are not spawned: they may load or train.
	Computed      int64 `json:"computed_ns"`
	Queued        int64 `json:"queued_ns"`
	ComputedAlone int64 `json:"computed_alone_ns"`
	Slept         int64 `json:"slept_ns"`
	Unknown       int64 `json:"unknown_ns"` // between requests of processes that cannot be seen
	CPU           int64 `json:"cpu_ns"`     // processor time, that of requests included
	// Cached is how many bytes processes read without asking the mount, of whatever files; Quiet is how
	// many processes did so in the last second and sent no request.
	Cached int64 `json:"read_elsewhere_bytes"`
	Quiet  int   `json:"quiet"`
}

// Reader is one process that reads.
type Reader struct {
	PID     int      `json:"pid"`
	Command string   `json:"command"`
	Spawned bool     `json:"spawned"` // by a program of the same name, as the workers of a loader are
	Threads int      `json:"threads"`
	Views   []string `json:"views"`
	// Requests are opens and reads that were answered.
	Requests int64 `json:"requests"`
	Bytes    int64 `json:"bytes"`
	Errors   int64 `json:"errors"`
	Reading
	Parts
}

// Timed is what pipefs.timed has measured in trainings.
type Timed struct {
	Waited int64 `json:"waited_ns"` // for the loader
	Worked int64 `json:"worked_ns"` // between two batches
	Steps  int64 `json:"steps"`
}

// Total is the sum of all views, without their latencies.
func (s *Snapshot) Total() (total Seen) {
	for i := range s.Views {
		total.add(&s.Views[i], 1)
	}
	return total
}

// Since is what came after an earlier snapshot. Readers are those of s that were there, or are new.
func (s *Snapshot) Since(before *Snapshot) *Snapshot {
	d := *s
	m, b := &d.Machine, &before.Machine
	if m.Idle >= 0 && b.Idle >= 0 {
		m.Idle -= b.Idle
	} else {
		m.Idle = -1
	}
	m.CPU, m.Disk, m.Fetched, m.Network = m.CPU-b.CPU, m.Disk-b.Disk, m.Fetched-b.Fetched, m.Network-b.Network
	m.Unkept -= b.Unkept
	d.Looks = Looks{s.Looks.All - before.Looks.All, s.Looks.Waiting - before.Looks.Waiting}
	d.Cache.Hits, d.Cache.Misses = s.Cache.Hits-before.Cache.Hits, s.Cache.Misses-before.Cache.Misses
	d.Made = Ahead{s.Made.Made - before.Made.Made, s.Made.Used - before.Made.Used, s.Made.Wasted - before.Made.Wasted}
	d.Timed = Timed{s.Timed.Waited - before.Timed.Waited, s.Timed.Worked - before.Timed.Worked, s.Timed.Steps - before.Timed.Steps}
	d.Reading.add(&before.Reading, -1)
	views := map[string]*Seen{}
	for i := range before.Views {
		views[before.Views[i].View] = &before.Views[i]
	}
	d.Views = nil
	for _, v := range s.Views {
		if was := views[v.View]; was != nil {
			v.add(was, -1)
		}
		d.Views = append(d.Views, v)
	}
	readers := map[int]*Reader{}
	for i := range before.Readers {
		readers[before.Readers[i].PID] = &before.Readers[i]
	}
	d.Readers = nil
	for _, r := range s.Readers {
		if was := readers[r.PID]; was != nil && was.Requests <= r.Requests {
			r.add(was, -1)
		}
		d.Readers = append(d.Readers, r)
	}
	return &d
}

func (p *Parts) add(o *Parts, sign int64) {
	p.Source += sign * o.Source
	p.Worker += sign * o.Worker
	p.Compute += sign * o.Compute
	p.Memory += sign * o.Memory
	p.Copy += sign * o.Copy
}

func (v *Seen) add(o *Seen, sign int64) {
	v.Lookups += sign * o.Lookups
	v.Opens += sign * o.Opens
	v.Reads += sign * o.Reads
	v.Begun += sign * o.Begun
	v.Bytes += sign * o.Bytes
	v.Errors += sign * o.Errors
	v.Waited += sign * o.Waited
	v.Took += sign * o.Took
	v.Parts.add(&o.Parts, sign)
	v.Making.Samples += sign * o.Making.Samples
	v.Making.Fetched += sign * o.Making.Fetched
	v.Making.Source += sign * o.Making.Source
	v.Making.Compute += sign * o.Making.Compute
	v.Making.Memory += sign * o.Making.Memory
	counts := map[int64]int64{}
	for _, b := range o.Latency {
		counts[b.UpTo] = b.Count
	}
	var latency []Bucket
	for _, b := range v.Latency {
		if b.Count += sign * counts[b.UpTo]; b.Count > 0 {
			latency = append(latency, b)
		}
	}
	v.Latency = latency
}

func (r *Reading) add(o *Reading, sign int64) {
	r.Waited += sign * o.Waited
	r.Computed += sign * o.Computed
	r.Queued += sign * o.Queued
	r.ComputedAlone += sign * o.ComputedAlone
	r.Slept += sign * o.Slept
	r.Unknown += sign * o.Unknown
	r.CPU += sign * o.CPU
	r.Cached += sign * o.Cached
}

func (r *Reader) add(o *Reader, sign int64) {
	r.Requests += sign * o.Requests
	r.Bytes += sign * o.Bytes
	r.Errors += sign * o.Errors
	r.Reading.add(&o.Reading, sign)
	r.Parts.add(&o.Parts, sign)
}

// Quantile is how long the share q of reads took at most, in ns.
func (v *Seen) Quantile(q float64) int64 {
	all := int64(0)
	for _, b := range v.Latency {
		all += b.Count
	}
	passed := int64(0)
	for _, b := range v.Latency {
		if passed += b.Count; float64(passed) >= q*float64(all) {
			return b.UpTo
		}
	}
	return 0
}

// At the time of a snapshot.
func (v *View) seen() Seen {
	s := Seen{
		View: v.name, Lookups: v.Lookups.Load(), Opens: v.Opens.Load(), Reads: v.Reads.Load(), Begun: v.Begun.Load(),
		Bytes: v.Bytes.Load(), Errors: v.Errors.Load(), Waited: v.total.Load(), Took: v.took.Load(), Parts: partsOf(&v.parts),
		Making: Making{v.made.Load(), v.fetched.Load(), v.making[Source].Load(), v.making[Compute].Load(), v.making[Memory].Load()},
	}
	s.Copy = max(0, s.Waited-s.Source-s.Worker-s.Compute-s.Memory)
	for i := range v.latency {
		if n := v.latency[i].Load(); n > 0 {
			s.Latency = append(s.Latency, Bucket{upTo(i), n})
		}
	}
	return s
}
