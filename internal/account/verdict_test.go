package account

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// state is half a minute of a training: 3000 files of one view, four readers, two cores.
type state struct {
	waited, computed, slept float64 // shares of the readers' time
	parts                   Parts   // of a thousand
	edit                    func(*Snapshot)
}

func (s state) snapshot() *Snapshot {
	const passed = int64(30 * time.Second)
	all := float64(4 * passed)
	waited := int64(s.waited * all)
	v := Seen{View: "resize256-bmp", Lookups: 3000, Reads: 6000, Begun: 3000, Bytes: 3000 * 196000, Waited: waited}
	of := func(n int64) int64 { return n * waited / 1000 }
	v.Parts = Parts{of(s.parts.Source), of(s.parts.Worker), of(s.parts.Compute), of(s.parts.Memory), of(s.parts.Copy)}
	v.Making = Making{Samples: 3000, Fetched: 3000 * 110000, Source: v.Source, Compute: v.Compute}
	v.Latency = []Bucket{{1e6, 3000}, {1e7, 3000}}
	d := &Snapshot{
		Machine: Machine{Cores: 2, Workers: 2, Idle: passed, CPU: passed / 2, Disk: 3000 * 110000, Fetched: 3000 * 110000},
		Reading: Reading{Waited: waited, Computed: int64(s.computed * all), Slept: int64(s.slept * all), CPU: int64(s.computed * all)},
		Views:   []Seen{v},
	}
	if s.edit != nil {
		s.edit(d)
	}
	return d
}

func TestVerdicts(t *testing.T) {
	busy := func(d *Snapshot) { d.Machine.Idle = 0 }
	cached := func(d *Snapshot) { d.Machine.Disk = 0; d.Machine.Fetched = 100 << 30 }
	few := func(n int64) func(*Snapshot) {
		return func(d *Snapshot) { d.Views[0].Reads, d.Views[0].Lookups, d.Views[0].Begun = n, 0, n }
	}
	timed := func(waited, worked int64) func(*Snapshot) {
		return func(d *Snapshot) {
			d.Timed = Timed{Waited: waited * int64(time.Second), Worked: worked * int64(time.Second), Steps: 100}
		}
	}
	for name, c := range map[string]struct {
		state
		want []Culprit
	}{
		"slow disk":                 {state{0.9, 0.1, 0, Parts{Source: 900, Compute: 100}, nil}, []Culprit{Disk}},
		"places kept by the disk":   {state{0.9, 0.1, 0, Parts{Source: 400, Worker: 500, Compute: 50}, nil}, []Culprit{Disk}},
		"bucket":                    {state{0.9, 0.1, 0, Parts{Source: 900, Compute: 100}, func(d *Snapshot) { d.Machine.Remote, d.Machine.Network = true, d.Machine.Fetched }}, []Culprit{Network}},
		"bucket, kept on the disk":  {state{0.9, 0.1, 0, Parts{Source: 900, Compute: 100}, func(d *Snapshot) { d.Machine.Remote = true }}, []Culprit{Disk}},
		"disk that does not answer": {state{0.9, 0, 0, Parts{}, func(d *Snapshot) { d.Views, d.Machine, d.Looks = nil, Machine{Cores: 2, Idle: 6e10}, Looks{600, 590} }}, []Culprit{Disk}},
		"a picture that takes long": {state{0.9, 0, 0, Parts{}, func(d *Snapshot) {
			d.Views, d.Machine, d.Looks = nil, Machine{Cores: 2, Idle: 3e10, CPU: 3e10}, Looks{600, 590}
		}}, []Culprit{Unclear}},
		"source in the page cache":       {state{0.9, 0.1, 0, Parts{Source: 500, Copy: 500}, cached}, []Culprit{CopyOf}},
		"decoding":                       {state{0.9, 0.1, 0, Parts{Source: 100, Compute: 800, Copy: 100}, busy}, []Culprit{Decode}},
		"decoding, nearly busy cores":    {state{0.9, 0.1, 0, Parts{Source: 50, Worker: 200, Compute: 400, Copy: 350}, func(d *Snapshot) { d.Machine.CPU, d.Machine.Idle = 3.6e10, 1.2e10 }}, []Culprit{Decode}},
		"decoding, all workers":          {state{0.9, 0.1, 0, Parts{Source: 100, Worker: 500, Compute: 300, Copy: 100}, busy}, []Culprit{Decode}},
		"few workers":                    {state{0.9, 0.1, 0, Parts{Source: 50, Worker: 700, Compute: 250}, func(d *Snapshot) { d.Machine.Workers = 1 }}, []Culprit{Workers}},
		"few workers, busy cores":        {state{0.9, 0.1, 0, Parts{Worker: 700, Compute: 300}, func(d *Snapshot) { d.Machine.Workers, d.Machine.Idle, d.Machine.CPU = 1, 0, 5e10 }}, []Culprit{Decode}},
		"few workers, others have cores": {state{0.9, 0.1, 0, Parts{Worker: 700, Compute: 300}, func(d *Snapshot) { d.Machine.Workers, d.Machine.Idle = 1, 0 }}, []Culprit{Cores}},
		"memory":                         {state{1, 0, 0, Parts{Memory: 800, Compute: 200}, nil}, []Culprit{MemoryOf}},
		"transforms":                     {state{0.1, 0.9, 0, Parts{Copy: 1000}, nil}, []Culprit{Loader}},
		"transforms, or a training":      {state{0.1, 0.9, 0, Parts{Copy: 1000}, func(d *Snapshot) { d.Reading.ComputedAlone = d.Reading.Computed }}, []Culprit{Unclear}},
		"other processes":                {state{0.4, 0.1, 0, Parts{Compute: 1000}, func(d *Snapshot) { busy(d); d.Reading.Queued = 6e10 }}, []Culprit{Cores, Decode}},
		"more loaders than cores":        {state{0.1, 0.4, 0, Parts{Copy: 1000}, func(d *Snapshot) { busy(d); d.Reading.Queued = 6e10 }}, []Culprit{Loader}},
		"cached, and read":               {state{0.1, 0.9, 0, Parts{Copy: 1000}, func(d *Snapshot) { d.Reading.Cached = 10e9 }}, []Culprit{Loader, PageCache}},
		"slow step":                      {state{0.1, 0.1, 0.8, Parts{Compute: 1000}, nil}, []Culprit{Training}},
		"sleeps, and waits":              {state{0.4, 0.1, 0.5, Parts{Compute: 1000}, nil}, []Culprit{Unclear}},
		"disk and transforms":            {state{0.5, 0.5, 0, Parts{Source: 1000}, nil}, []Culprit{Disk, Loader}},
		"disk and decoding":              {state{1, 0, 0, Parts{Source: 500, Compute: 500}, nil}, []Culprit{Decode, Disk}},
		"one always waits":               {state{0.5, 0.1, 0.4, Parts{Source: 1000}, func(d *Snapshot) { d.Looks = Looks{500, 490} }}, []Culprit{Unclear}},
		"seldom one waits":               {state{0.5, 0.1, 0.4, Parts{Source: 1000}, func(d *Snapshot) { d.Looks = Looks{500, 150} }}, []Culprit{Training}},
		"places kept for want of memory": {state{0.9, 0.1, 0, Parts{Worker: 700, Compute: 300}, func(d *Snapshot) { d.Views[0].Making.Memory = 1e12 }}, []Culprit{MemoryOf}},
		"nothing leads":                  {state{0.7, 0.3, 0, Parts{Source: 300, Compute: 350, Copy: 350}, func(d *Snapshot) { d.Reading.CPU = 0 }}, []Culprit{Unclear}},
		"nobody":                         {state{0, 0, 0, Parts{}, few(0)}, []Culprit{Nothing}},
		"few reads":                      {state{1, 0, 0, Parts{Source: 1000}, few(20)}, []Culprit{Unclear}},
		"page cache":                     {state{1, 0, 0, Parts{}, func(d *Snapshot) { few(0)(d); d.Reading.Quiet = 4 }}, []Culprit{PageCache}},
		"another container":              {state{0.1, 0, 0, Parts{Copy: 1000}, func(d *Snapshot) { d.Reading.Unknown = 1e12 }}, []Culprit{Unclear}},
		"one in a hundred": {state{0.25, 0.05, 0.7, Parts{Compute: 1000}, func(d *Snapshot) {
			d.Views[0].Latency = []Bucket{{1e6, 2970}, {1e9, 30}}
		}}, []Culprit{Tail}},
		"a large file is read piece by piece": {state{0.9, 0.1, 0, Parts{Compute: 1000}, func(d *Snapshot) {
			d.Views[0].Latency = []Bucket{{1e5, 300000}, {1e7, 3000}}
		}}, []Culprit{Decode}},
		"timed, hungry":      {state{0.5, 0, 0.5, Parts{Source: 1000}, timed(20, 10)}, []Culprit{Disk}},
		"timed, fed":         {state{0.9, 0.1, 0, Parts{Source: 1000}, timed(1, 29)}, []Culprit{Training}},
		"timed, transform":   {state{0.1, 0.6, 0.3, Parts{Source: 1000}, func(d *Snapshot) { timed(20, 10)(d); d.Reading.ComputedAlone = d.Reading.Computed }}, []Culprit{Loader}},
		"timed, no requests": {state{0, 0, 0, Parts{}, func(d *Snapshot) { timed(20, 10)(d); few(0)(d) }}, []Culprit{Loader}},
	} {
		v := Judge(c.snapshot(), 30*time.Second, Place{Mount: "/m", Source: "/my data"})
		if !slices.Equal(v.Culprits, c.want) {
			t.Errorf("%s: %v, want %v: %s", name, v.Culprits, c.want, v.Text)
		}
		if v.Text == "" || strings.Contains(v.Text, "%!") {
			t.Errorf("%s: %q", name, v.Text)
		}
	}
}

// Before there is enough to go on, nothing is said.
func TestNoVerdictYet(t *testing.T) {
	s := state{1, 0, 0, Parts{Source: 1000}, nil}.snapshot()
	if v := Judge(s, time.Second, Place{}); v.Culprits[0] != Unclear {
		t.Errorf("%+v", v)
	}
	if v := New().Judge(New().Now(), Place{}); v.Culprits[0] != Nothing {
		t.Errorf("%+v", v)
	}
}

// TestTimedAlone: a training that tells its steps and asks for nothing, since all is in the page cache, is judged by these.
func TestTimedAlone(t *testing.T) {
	l, begun := New(), time.Now()
	for second := range 7 {
		steps := int64(2 * second)
		l.past = append(l.past, &Snapshot{At: begun.Add(time.Duration(second) * time.Second), Timed: Timed{Worked: steps * 480e6, Waited: steps * 20e6, Steps: steps}})
	}
	if v := l.Judge(l.past[6], Place{}); v.Culprits[0] != Training {
		t.Errorf("%+v", v)
	}
}

func TestAdvice(t *testing.T) {
	decoding := state{1, 0, 0, Parts{Source: 100, Compute: 900}, nil}
	v := Judge(decoding.snapshot(), 30*time.Second, Place{Source: "/my data"})
	// Readers wait for 120 s. Reading 588 MB as fast as the source, 330 MB in 12 s, takes 21, and 9,000 requests 0.6.
	want := "pipefs pack '/my data' STORE && pipefs materialize STORE resize256-bmp  # about 5.5 times as many files a second, by what this mount has measured"
	if len(v.Advice) == 0 || v.Advice[0] != want {
		t.Errorf("%q\nwant %q", v.Advice, want)
	}
	v = Judge(decoding.snapshot(), 30*time.Second, Place{Source: "/my data", Store: "/st"})
	if len(v.Advice) == 0 || !strings.HasPrefix(v.Advice[0], "pipefs materialize /st resize256-bmp") {
		t.Errorf("%q", v.Advice)
	}
	v = Judge(decoding.snapshot(), 30*time.Second, Place{Source: "/d", Random: func(view string) bool { return view == "resize256-bmp" }})
	if len(v.Advice) == 0 || !strings.HasPrefix(v.Advice[0], "decode less") {
		t.Errorf("of a random view: %q", v.Advice)
	}
	// A cache is blamed only where it is full, and something was fetched that it did not keep.
	for want, edit := range map[string]func(*Snapshot){
		"--cache-bytes":     func(d *Snapshot) { d.Cache = Cache{Hits: 10, Misses: 90, Full: true} },
		"--disk-cache-size": func(d *Snapshot) { d.Machine.Remote, d.Machine.Network, d.Machine.Unkept = true, 1e9, 9e8 },
	} {
		full := decoding
		if strings.Contains(want, "disk") {
			full.parts = Parts{Source: 1000}
		}
		for _, of := range []func(*Snapshot){nil, edit} {
			full.edit = of
			v := Judge(full.snapshot(), 30*time.Second, Place{})
			if strings.Contains(strings.Join(v.Advice, " "), want) != (of != nil) {
				t.Errorf("%s: %v %q", want, v.Culprits, v.Advice)
			}
		}
	}
}

// What remains of the processor time limits a promise: that of the readers, and of the mount either what it does besides
// decoding or what serving stored files takes.
func TestPromiseOfBusyCores(t *testing.T) {
	for reads, want := range map[int64]float64{6000: 4, 300_000: 2.3} {
		s := state{1, 0, 0, Parts{Source: 100, Compute: 900}, func(d *Snapshot) {
			d.Machine.Idle, d.Machine.CPU, d.Machine.Disk, d.Reading.CPU = 0, 50e9, 0, 10e9
			d.Views[0].Reads = reads
		}}
		if v := Judge(s.snapshot(), 30*time.Second, Place{}); v.Promise < want-0.1 || v.Promise > want+0.1 {
			t.Errorf("%d reads: %.2f, want %.2f", reads, v.Promise, want)
		}
	}
}
