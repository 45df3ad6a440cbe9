package account

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pipefs/pipefs/internal/human"
)

// Culprit is what holds a training back.
type Culprit string

// The culprits.
const (
	Disk      Culprit = "disk"
	Network   Culprit = "network"
	Decode    Culprit = "decode"  // computing the steps of views
	Workers   Culprit = "workers" // too few of them
	MemoryOf  Culprit = "memory"
	CopyOf    Culprit = "copy"   // requests themselves: what they ask for is at hand
	Tail      Culprit = "tail"   // few reads that take far longer than the others
	Loader    Culprit = "loader" // the processes that read compute
	Cores     Culprit = "cores"  // other processes keep them busy
	Training  Culprit = "training"
	PageCache Culprit = "pagecache" // the kernel answers
	Nothing   Culprit = "nothing"   // nobody reads
	Unclear   Culprit = "cannot tell"
)

// Verdict says what holds a training back.
type Verdict struct {
	// Culprits are one, or two that weigh about the same, the heavier one first.
	Culprits []Culprit `json:"culprits"`
	Text     string    `json:"text"`
	// Advice are commands, and what else helps.
	Advice []string `json:"advice,omitempty"`
	// Promise is how many times as many files a second the first command of Advice that stores a view gives; 0: not known.
	Promise float64 `json:"promise,omitempty"`
	// Seconds is the length of the time that was looked at.
	Seconds float64 `json:"seconds"`
	// Shares of the time of readers. Slept: something else was the bottleneck.
	Waited   float64 `json:"waited"`
	Computed float64 `json:"computed"`
	Queued   float64 `json:"queued"`
	Slept    float64 `json:"slept"`
}

// Place is what advice names. Random reports whether a view draws at random: nothing of it can be stored.
type Place struct {
	Mount, Source, Store string
	Random               func(view string) bool
}

// A verdict needs this much to go on.
const (
	leastRequests = 50
	leastTime     = 3 * time.Second
	leastSteps    = 5

	mostly   = 0.6  // of the time of readers
	leading  = 0.4  // the share of the first culprit
	together = 0.3  // the share of a second one
	busy     = 0.85 // the share of the time of all cores from which on they are busy
	hungry   = 0.15 // the share of the time that a training waits for its loader, from which on that is too much
	// A tail are so few reads, which take so many times the median each, and leading of all the time.
	tailReads, tailTimes = 0.05, 8
	// requestCPU is the share of the processor time of the mount that goes into computing at most. The remainder answers requests.
	requestCPU = 0.9
	// memoryRate is how fast bytes come out of memory, in bytes a ns; requestTime is what a request takes that finds all there, in ns.
	memoryRate, requestTime = 4, 50e3
	// memory is how many bytes a second are read from the page cache at least.
	memory = 300e6
)

// Judge says what held readers back between two snapshots, of which d is the difference.
func Judge(d *Snapshot, passed time.Duration, at Place) Verdict {
	j := &judgement{d: d, passed: passed, at: at, total: d.Total()}
	j.Seconds = passed.Seconds()
	j.judge()
	return j.Verdict
}

type judgement struct {
	Verdict
	d      *Snapshot
	passed time.Duration
	at     Place
	total  Seen
}

func (j *judgement) say(c Culprit, format string, args ...any) {
	j.Culprits, j.Text = []Culprit{c}, fmt.Sprintf(format, args...)
}

func (j *judgement) judge() {
	d, r := j.d, &j.d.Reading
	requests := j.total.Opens + j.total.Reads
	if all := float64(r.Waited + r.Computed + r.Queued + r.Slept); all > 0 {
		j.Waited, j.Computed, j.Queued, j.Slept = float64(r.Waited)/all, float64(r.Computed)/all, float64(r.Queued)/all, float64(r.Slept)/all
	}
	timed := d.Timed.Steps >= leastSteps && d.Timed.Waited+d.Timed.Worked >= int64(leastTime)
	starved := 0.0
	if timed {
		starved = float64(d.Timed.Waited) / float64(d.Timed.Waited+d.Timed.Worked)
	}
	// A reader waits, and nobody gets an answer.
	stalled := requests+j.total.Lookups < leastRequests && d.Looks.All >= leastRequests && float64(d.Looks.Waiting) > mostly*float64(d.Looks.All)
	switch {
	case timed && starved < hungry:
		j.say(Training, "the training takes %s of the time itself, by its own measurement: input is not the bottleneck", human.Percent(1-starved))
	case stalled && float64(d.Machine.CPU) < (1-mostly)*float64(j.passed):
		source := j.source()
		j.say(source, "readers wait for the %s, which has answered %s in %.0f seconds", source, human.Plural(requests+j.total.Lookups, "request", "requests"), j.Seconds)
		j.Advice = append(j.Advice, "see whether "+human.Word(j.at.Source)+" can be read at all")
	case requests < leastRequests && r.Quiet > 0:
		j.say(PageCache, "%s, and the mount is asked for nothing: what they read is in the page cache of the kernel, or elsewhere", human.Plural(r.Quiet, "process that has read here reads on", "processes that have read here read on"))
	case requests < leastRequests && timed:
		j.say(Loader, "the training waits %s of the time for its loader, by its own measurement, and the mount is hardly asked for anything", human.Percent(starved))
	case requests == 0 && !stalled:
		j.say(Nothing, "nobody reads")
	case requests < leastRequests:
		j.say(Unclear, "cannot tell: there were only %s", human.Plural(requests, "request", "requests"))
	case j.passed < leastTime:
		j.say(Unclear, "cannot tell yet: ask again in %.0f seconds", (leastTime-j.passed).Seconds()+0.5)
	case j.tail():
	case !timed && r.Unknown > r.Waited+r.Computed+r.Queued+r.Slept:
		j.say(Unclear, "cannot tell: the processes that read are in another container; measure the training with pipefs.timed(loader)")
	case !timed && (j.Slept >= mostly || j.Slept > together && j.waited() < 1-mostly && j.Computed+j.Queued < 1-mostly):
		j.say(Training, "readers sleep %s of the time, because nobody wants more of them: input is not the bottleneck, but the training", human.Percent(j.Slept))
	case !timed && j.Slept > together:
		j.say(Unclear, "cannot tell: readers sleep %s of the time, wait for the mount %s and compute or wait for a core %s; measure the training with pipefs.timed(loader)",
			human.Percent(j.Slept), human.Percent(j.Waited), human.Percent(j.Computed+j.Queued))
	default:
		j.weigh(timed, starved)
	}
}

// waited is the share of the moments at which a reader waited for the mount. If it is small, the training holds all
// back. If it is large, some readers may sleep until the slowest one has what the training wants, or take turns.
func (j *judgement) waited() float64 {
	if l := &j.d.Looks; l.All >= leastRequests {
		return float64(l.Waiting) / float64(l.All)
	}
	return 1 // not known
}

// tail finds few reads that take the time of all.
func (j *judgement) tail() bool {
	v := &j.total
	for _, s := range j.d.Views {
		if s.Waited > v.Waited/2 {
			v = &s
		}
	}
	median := v.Quantile(0.5)
	slow, slowest, all, reads := 0.0, int64(0), 0.0, int64(0)
	for _, b := range v.Latency {
		t := float64(b.Count) * float64(b.UpTo) * 0.9 // its middle
		if all += t; b.UpTo > tailTimes*median {
			slow, slowest, reads = slow+t, b.UpTo, reads+b.Count
		}
	}
	if v.Begun < 4*leastRequests || slow < leading*all || float64(reads) > tailReads*float64(v.Begun) || slow < together*float64(j.passed) {
		return false
	}
	j.say(Tail, "%s of %s in %s take %s of the time that readers wait: up to %v each, and half of them at most %v",
		human.Plural(reads, "read", "reads"), human.Count(v.Begun), v.View, human.Percent(slow/all), round(slowest), round(median))
	j.Advice = append(j.Advice, "pipefs profile "+human.Word(j.at.Mount))
	return true
}

// cause is what part of the time of readers went where.
type cause struct {
	Culprit
	share float64
}

// weigh finds what readers waited for, where they neither sleep nor wait for few.
func (j *judgement) weigh(timed bool, starved float64) {
	r, t := &j.d.Reading, &j.total
	waited, computed, queued := float64(r.Waited), float64(r.Computed), float64(r.Queued)
	all := waited + computed + queued
	if all == 0 {
		j.say(Unclear, "cannot tell: the time of readers is not known")
		return
	}
	alone := r.ComputedAlone > r.Computed/2
	// Whoever keeps the cores busy is why readers queue for them.
	others, daemon := 1.0, 0.0
	if own := j.own(); own > 0 && (j.d.Machine.Idle < 0 || own > (j.cores()-float64(j.d.Machine.Idle))/2) {
		others, daemon = 0, float64(j.d.Machine.CPU)/own
	}
	causes := []cause{{Loader, (computed + queued*(1-others)*(1-daemon)) / all}, {Decode, queued * daemon / all}, {Cores, queued * others / all}}
	copying := CopyOf
	switch { // the daemon queues for cores, too, before they are busy all the time
	case j.saturated() && others > 0:
		copying = Cores
	case j.used(1-together) && t.Compute > t.Copy/2:
		copying = Decode
	}
	parts := float64(max(1, t.Source+t.Worker+t.Compute+t.Memory+t.Copy))
	for _, p := range []struct {
		Culprit
		ns int64
	}{{j.source(), t.Source}, {j.worker(), t.Worker}, {Decode, t.Compute}, {MemoryOf, t.Memory}, {copying, t.Copy}} {
		causes = append(causes, cause{p.Culprit, waited / all * float64(p.ns) / parts})
	}
	slices.SortStableFunc(causes, func(a, b cause) int { return cmp.Compare(a.Culprit, b.Culprit) })
	for i := 0; i+1 < len(causes); i++ { // several parts may have one cause
		for i+1 < len(causes) && causes[i].Culprit == causes[i+1].Culprit {
			causes[i].share += causes[i+1].share
			causes = slices.Delete(causes, i+1, i+2)
		}
	}
	slices.SortStableFunc(causes, func(a, b cause) int { return cmp.Compare(b.share, a.share) })
	first, second := causes[0], causes[1]
	wait := ""
	if timed {
		wait = fmt.Sprintf("the training waits %s of the time for its loader, by its own measurement; ", human.Percent(starved))
	}
	switch {
	case first.Culprit == Loader && first.share >= leading && alone && !timed:
		j.say(Unclear, "cannot tell: the process that reads computes %s of the time, either transforms or the training itself; measure it with pipefs.timed(loader)", human.Percent(first.share))
		return
	case first.share < leading:
		j.say(Unclear, "%scannot tell: readers spend %s of their time %s, and %s %s", wait, human.Percent(first.share), j.name(first.Culprit), human.Percent(second.share), j.name(second.Culprit))
		return
	}
	j.say(first.Culprit, "%sreaders spend %s of their time %s", wait, human.Percent(first.share), j.name(first.Culprit))
	if second.share >= together {
		j.Culprits = append(j.Culprits, second.Culprit)
		j.Text += fmt.Sprintf(", and %s %s", human.Percent(second.share), j.name(second.Culprit))
	}
	if asked := j.total.Bytes; first.Culprit == Loader && r.Cached > 3*asked {
		j.Culprits = append(j.Culprits[:1], PageCache)
		j.Text += fmt.Sprintf("; they find %s of their bytes in the page cache of the kernel", human.Percent(float64(r.Cached)/float64(r.Cached+asked)))
	}
	for _, c := range j.Culprits {
		j.advise(c)
	}
}

// source is what reading the source waits for: bytes that come from the page cache are no reason to blame a disk.
func (j *judgement) source() Culprit {
	m := &j.d.Machine
	fetched := float64(m.Fetched)
	if m.Remote && float64(m.Network) >= fetched/10 {
		return Network
	}
	if float64(m.Disk) < fetched/20 && fetched > memory*time.Duration(j.total.Source).Seconds() {
		return CopyOf
	}
	return Disk
}

// worker is why there was no place among those that compute.
func (j *judgement) worker() Culprit {
	m := &j.d.Machine
	made := &j.total.Making
	switch { // those who have the places
	case made.Memory > max(made.Source, made.Compute):
		return MemoryOf
	case made.Source > made.Compute:
		return j.source()
	case m.Workers >= m.Cores || j.own() > busy*j.cores():
		return Decode
	case j.saturated():
		return Cores
	}
	return Workers
}

// cores is the time that all cores have, in ns.
func (j *judgement) cores() float64 { return float64(j.d.Machine.Cores) * float64(j.passed) }

// own is the processor time of the mount and its readers.
func (j *judgement) own() float64 { return float64(j.d.Machine.CPU + j.d.Reading.CPU) }

// saturated reports whether the cores are busy.
func (j *judgement) saturated() bool { return j.used(busy) }

// used reports whether more than a share of the time of the cores was used.
func (j *judgement) used(share float64) bool {
	idle := float64(j.d.Machine.Idle)
	return j.own() > share*j.cores() || idle >= 0 && idle < (1-share)*j.cores()
}

// name says what a culprit is, with figures.
func (j *judgement) name(c Culprit) string {
	m, t := &j.d.Machine, &j.total
	rate := human.Size(int64(float64(m.Fetched)/max(j.Seconds, 0.001))) + "/s"
	switch c {
	case Disk:
		return "waiting for the disk (" + rate + ")"
	case Network:
		return "waiting for the network (" + rate + ")"
	case Decode:
		return fmt.Sprintf("waiting for decoding (%.1f of %d cores busy with it)", float64(t.Making.Compute)/float64(j.passed), m.Cores)
	case Workers:
		return fmt.Sprintf("waiting for one of %s (%d cores)", human.Plural(m.Workers, "worker", "workers"), m.Cores)
	case MemoryOf:
		return "waiting for memory to decode in"
	case Cores:
		return fmt.Sprintf("waiting for one of %d cores, which other processes keep busy", m.Cores)
	case CopyOf:
		return "asking for what is in memory (" + human.Count(int64(float64(t.Lookups+t.Opens+t.Reads)/max(j.Seconds, 0.001))) + "/s)"
	default:
		return "computing in the processes of the loader"
	}
}

// advise says what to change.
func (j *judgement) advise(c Culprit) {
	view := j.heaviest()
	source, store := human.Word(j.at.Source), cmp.Or(j.at.Store, "STORE")
	switch c {
	case Disk, Network:
		if m := &j.d.Machine; c == Network && m.Unkept > m.Network/2 && m.Network > 0 {
			j.Advice = append(j.Advice, "the disk cache is full, and what is fetched is not kept: mount with a larger --disk-cache-size")
		}
		j.Advice = append(j.Advice, "read fewer bytes (scan5, half) or keep them nearer: pipefs bench "+source)
	case Decode:
		if k := &j.d.Cache; k.Full && k.Misses > k.Hits {
			j.Advice = append(j.Advice, "the cache is full, and most samples are not in it: mount with larger --cache-bytes")
		}
		switch {
		case view == nil:
			return
		case j.at.Random != nil && j.at.Random(view.View):
			j.Advice = append(j.Advice, "decode less: pipefs bench "+source+" compares views")
			return
		}
		pack := ""
		if j.at.Store == "" {
			pack = fmt.Sprintf("pipefs pack %s %s && ", source, store)
		}
		gain := ""
		if j.Promise = j.promise(view); j.Promise > 0 {
			gain = fmt.Sprintf("  # about %.1f times as many files a second, by what this mount has measured", j.Promise)
		}
		j.Advice = append(j.Advice, fmt.Sprintf("%spipefs materialize %s %s%s", pack, human.Word(store), view.View, gain))
		if !j.saturated() {
			j.Advice = append(j.Advice, "cores are idle: give the loader more workers, or read an epoch view, which is made ahead")
		}
	case Workers:
		j.Advice = append(j.Advice, fmt.Sprintf("mount with --workers %d", j.d.Machine.Cores))
	case MemoryOf:
		j.Advice = append(j.Advice, "raise the memory limit of the daemon's cgroup")
	case CopyOf:
		j.Advice = append(j.Advice, "fewer and larger reads: read an epoch view, or batches of samples")
	case Loader:
		j.Advice = append(j.Advice, "let the mount do what the loader does: pipefs views "+source)
	}
}

// heaviest is the view that costs the most to compute.
func (j *judgement) heaviest() (found *Seen) {
	for i := range j.d.Views {
		if v := &j.d.Views[i]; v.Making.Samples > 0 && (found == nil || v.Making.Compute > found.Making.Compute) {
			found = v
		}
	}
	return found
}

// promise is how many times as many files readers would get if those of a view were stored: 0 is that it is not known,
// or no gain. What remains is what readers do, other requests, and serving what is stored: it is opened as the
// source is, and its bytes come at the speed of the source, or of memory if that is where the source lies. All of it shares
// the cores that readers and the mount use, and those that are idle.
func (j *judgement) promise(v *Seen) float64 {
	r, m, k := &j.d.Reading, &v.Making, &j.d.Machine
	if v.Begun < leastRequests || m.Fetched == 0 || m.Source == 0 {
		return 0
	}
	serve := requestTime*float64(v.Lookups+v.Opens+v.Reads) + float64(v.Bytes)/memoryRate
	wait := serve
	if j.source() != CopyOf && float64(k.Disk) >= float64(k.Fetched)/20 {
		wait += float64(m.Source) / float64(m.Fetched) * float64(v.Bytes)
	}
	all := float64(r.Waited + r.Computed + r.Queued + r.Slept)
	gain := all / max(all/100, float64(max(0, r.Waited-v.Waited)+r.Computed)+wait)
	if own := j.own(); k.Idle >= 0 && own > 0 {
		remains := float64(k.CPU) - min(1.5*float64(m.Compute), requestCPU*float64(k.CPU)) // making a sample is more than its steps
		gain = min(gain, (own+float64(k.Idle))/(float64(r.CPU)+max(remains, serve)))
	}
	if gain < 1.2 {
		return 0
	}
	return gain
}

func round(ns int64) time.Duration {
	d := time.Duration(ns)
	for unit := time.Second; unit > time.Microsecond; unit /= 10 {
		if d >= 10*unit {
			return d.Round(unit)
		}
	}
	return d.Round(time.Microsecond)
}
