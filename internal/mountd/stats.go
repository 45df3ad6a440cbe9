package mountd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/ahead"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/l3gpu/kernel"
)

// RebuiltCounter counts the originals that were rebuilt.
const RebuiltCounter = "of these, originals"

// stats are those that a client asks for.
func (m *Mount) stats() control.Stats {
	now := m.account.Now()
	verdict := m.account.Judge(now, account.Place{Mount: m.config.Dir, Source: m.config.Source, Store: m.packed, Random: m.random})
	return control.Stats{
		Mount: m.config.Dir, Source: m.config.Source, PID: os.Getpid(), Version: Version(),
		Started: m.started, Log: m.config.LogFile, Cache: m.config.Cache.text(), Lost: m.presence.lost(), Changes: m.fresh.text, Current: m.current(), OnError: m.server.OnError().String(), Pairs: m.pairs(), Counters: m.counters(), Account: now, Verdict: &verdict, History: m.account.Seconds(),
	}
}

// random reports whether a view draws at random.
func (m *Mount) random(view string) bool {
	p, err := m.registry.ParseRandom(view)
	return err == nil && p.Random()
}

// showMetrics begins to answer scrapes. A daemon that goes on for another one waits until that has given the address up.
func (m *Mount) showMetrics() error {
	at := m.config.Metrics
	if at == "" {
		return nil
	}
	s, err := serveMetrics(at, m.stats, m.log)
	if err == nil {
		m.close = append(m.close, s.Close)
		return nil
	}
	if !m.config.Kernel.Journal.Resumes() {
		return err
	}
	m.refreshes.work.Go(func() {
		for m.refreshes.ctx.Err() == nil {
			select {
			case <-m.refreshes.ctx.Done():
				return
			case <-time.After(time.Second):
			}
			if s, err := serveMetrics(at, m.stats, m.log); err == nil {
				<-m.refreshes.ctx.Done()
				s.Close()
				return
			}
		}
	})
	return nil
}

// fillAccount adds to the accounting what only the mount knows.
func (m *Mount) fillAccount(s *account.Snapshot) {
	s.Machine.Workers = cmp.Or(m.config.Workers, s.Machine.Cores)
	s.Machine.Remote = m.blocks != nil || m.bucket != nil || m.storeFiles != nil
	served := m.server.Stats()
	s.Machine.Fetched = served.FetchedBytes
	if c := served.Cache; c != nil {
		s.Cache = account.Cache{Hits: c.Hits, Misses: c.Misses, Epoch: c.Epoch, Full: c.Bytes > serve.Keepable(m.config.Cache.Bytes)*3/4}
	}
	switch {
	case m.blocks != nil:
		blocks := m.blocks.Stats()
		s.Machine.Network, s.Machine.Unkept = blocks.Fetched, blocks.Skipped+blocks.Evicted
	case s.Machine.Remote:
		s.Machine.Network = s.Machine.Fetched
	}
	hints, batches := m.ahead.Stats(), m.epochs.Stats()
	s.Made = account.Ahead{Made: hints.Loaded + batches.Early, Used: hints.Read + batches.Used, Wasted: hints.Wasted + batches.Wasted}
}

// pairs are those of the mount.
func (m *Mount) pairs() (pairs []string) {
	for _, p := range m.config.Roles.Pairs {
		pairs = append(pairs, p.String())
	}
	return pairs
}

// counters are those of all parts of the daemon.
func (m *Mount) counters() []control.Counter {
	f, p, b := m.fs.Stats(), m.server.Stats(), m.background.Stats()
	flag := func(b bool) int64 {
		if b {
			return 1
		}
		return 0
	}
	counters := []control.Counter{
		{Group: "tree", Name: "entries listed", Value: int64(f.Entries)},
		{Group: "tree", Name: "files looked at", Value: int64(f.Known)},
		{Group: "tree", Name: "passthrough", Value: flag(f.Passthrough), Unit: control.YesNo},
		{Group: "tree", Name: "views that were forgotten", Value: int64(f.ForgottenViews)},
		{Group: "serve", Name: "samples made", Value: p.Produced},
		{Group: "serve", Name: RebuiltCounter, Value: p.Rebuilt},
		{Group: "serve", Name: "made and kept", Value: p.Kept},
		{Group: "serve", Name: "made, and not kept: the disk is slow", Value: p.Unkept},
		{Group: "serve", Name: "could not be made", Value: p.Failed},
		{Group: "serve", Name: "time spent computing", Value: int64(p.BusySeconds * float64(time.Second)), Unit: control.Nanosec},
		{Group: "serve", Name: "contents opened", Value: p.Opened},
		{Group: "serve", Name: "reads of open contents", Value: p.Hits},
		{Group: "serve", Name: "memory", Value: p.MemoryBytes, Unit: control.Bytes},
		{Group: "serve", Name: "fetched", Value: p.FetchedBytes, Unit: control.Bytes},
		{Group: "mix", Name: "opened from what is materialized", Value: p.Mix.Materialized},
		{Group: "mix", Name: "made from something shorter", Value: p.Mix.Computed},
		{Group: "mix", Name: "copies that had to be made again", Value: p.Mix.Fallbacks},
		{Group: "mix", Name: "share aimed at", Value: int64(math.Round(100 * p.Mix.Share)), Unit: control.Percent},
		{Group: "background", Name: "samples looked at", Value: b.Seen},
		{Group: "background", Name: "samples prepared", Value: b.Prepared},
		{Group: "background", Name: "kept on disk", Value: p.OverlayBytes, Unit: control.Bytes},
		{Group: "background", Name: "given back of samples that changed or went", Value: p.ReclaimedBytes, Unit: control.Bytes},
		{Group: "background", Name: "full", Value: flag(p.Full), Unit: control.YesNo},
		{Group: "bugs", Name: "panics", Value: p.Panics + int64(f.Panics)},
	}
	if e := m.epochs.Stats(); e.Made+e.Failed > 0 {
		counters = append(counters,
			control.Counter{Group: "epochs", Name: "batches made", Value: e.Made},
			control.Counter{Group: "epochs", Name: "batches that could not be made", Value: e.Failed},
			control.Counter{Group: "epochs", Name: "samples that are black: they could not be made", Value: e.Black},
			control.Counter{Group: "epochs", Name: "samples in the place of others: these could not be made", Value: e.Replaced},
			control.Counter{Group: "epochs", Name: "memory of batches", Value: e.Bytes, Unit: control.Bytes})
	}
	counters = append(counters, m.badCounters()...)
	if h := m.ahead.Stats(); h.Hinted > 0 {
		counters = append(counters, hintCounters(h)...)
	}
	counters = slices.Insert(counters, 2, m.fresh.counters(f)...)
	if m.bucket != nil {
		s := m.bucket.Summary()
		counters = append(counters,
			control.Counter{Group: "bucket", Name: "objects listed", Value: s.Objects},
			control.Counter{Group: "bucket", Name: "objects left out", Value: s.LeftOut},
			control.Counter{Group: "bucket", Name: "objects replaced since they were listed, and found so", Value: m.bucket.Replaced()})
	}
	if m.store != nil {
		counters = append(counters, m.storeCounters()...)
	}
	for _, e := range p.Refused[:min(serve.MostTold, len(p.Refused))] {
		counters = append(counters, control.Counter{
			Group: "refused", Name: path.Join(e.View, e.Dir), Unit: control.Text,
			Text: e.Remedy(),
		})
	}
	if n := len(p.Refused) - serve.MostTold; n > 0 {
		counters = append(counters, control.Counter{Group: "refused", Name: "more directories", Value: int64(n)})
	}
	if p.Unfit > 0 {
		counters = append(counters, control.Counter{Group: "refused", Name: "samples by themselves: the log names some", Value: p.Unfit})
	}
	counters = append(counters, cacheCounters(p.Cache)...)
	counters = append(counters, blockCounters(m.blocks)...)
	if m.gpu != nil {
		if g, ok := m.gpu.Stats(); ok {
			counters = append(counters,
				control.Counter{Group: "gpu", Name: "pictures decoded", Value: g.Pictures},
				control.Counter{Group: "gpu", Name: "pixels", Value: g.Bytes, Unit: control.Bytes},
				control.Counter{Group: "gpu", Name: "left to the processor", Value: g.Rejects},
				control.Counter{Group: "gpu", Name: "batches that failed", Value: g.Failures},
				control.Counter{Group: "gpu", Name: "time spent", Value: int64(g.Busy), Unit: control.Nanosec},
				control.Counter{Group: "gpu", Name: "given up", Value: flag(g.Lost), Unit: control.YesNo})
		}
	}
	for _, v := range f.Views {
		if v.Lookups+v.Reads+v.Errors == 0 {
			continue
		}
		counters = append(counters,
			control.Counter{Group: v.View, Name: "lookups", Value: v.Lookups},
			control.Counter{Group: v.View, Name: "reads", Value: v.Reads},
			control.Counter{Group: v.View, Name: "files begun", Value: v.Begun},
			control.Counter{Group: v.View, Name: "read", Value: v.Bytes, Unit: control.Bytes},
			control.Counter{Group: v.View, Name: "open files", Value: v.Open},
			control.Counter{Group: v.View, Name: "errors", Value: v.Errors})
	}
	return counters
}

// storeCounters say which generation is shown.
func (m *Mount) storeCounters() []control.Counter {
	const group = "store"
	looked, failed := m.refreshes.state()
	if looked.IsZero() {
		looked = m.started
	}
	counters := []control.Counter{
		{Group: group, Name: "generation", Value: int64(m.store.Shown().Number)},
		{Group: group, Name: "newer ones were last looked for", Unit: control.Text, Text: looked.Format(time.DateTime)},
	}
	if failed != nil {
		counters = append(counters, control.Counter{Group: group, Name: "what was wrong then", Unit: control.Text, Text: failed.Error()})
	}
	return counters
}

// hintCounters say what became of what readers have announced.
func hintCounters(h ahead.Stats) []control.Counter {
	const group = "hints"
	return []control.Counter{
		{Group: group, Name: "files announced", Value: h.Hinted},
		{Group: group, Name: "loaded ahead", Value: h.Loaded},
		{Group: group, Name: "of these, read", Value: h.Read},
		{Group: group, Name: "of these, by a reader that came while it was loaded", Value: h.Waited},
		{Group: group, Name: "loaded for nothing: nobody has read it", Value: h.Wasted},
		{Group: group, Name: "here already, or read before it was loaded", Value: h.Already},
		{Group: group, Name: "dropped: the reader went on without it", Value: h.Dropped},
		{Group: group, Name: "not there, or could not be loaded", Value: h.Failed},
		{Group: group, Name: "senders that read other files", Value: h.Wrong},
		{Group: group, Name: "memory", Value: h.Bytes, Unit: control.Bytes},
	}
}

// files are what the mount shows in its root, and below .pipefs.
func (m *Mount) files() map[string]func() ([]byte, error) {
	files := map[string]func() ([]byte, error){
		"/README.txt": m.readme,
		"manifest":    m.manifest,
		// What decodes l3/ in the process that trains.
		"gpu/l3.ptx":    kernel.Portable,
		"gpu/l3.90.ptx": kernel.Hopper,
	}
	m.gpuFiles(files)
	if of := m.metadata(); of != nil {
		files["metadata.jsonl"] = of
	}
	return files
}

// metadata returns the columns of Parquet files; nil is that there are none, or that a list of classes moves the files.
func (m *Mount) metadata() func() ([]byte, error) {
	if m.archives == nil || len(m.archives.Summary().Splits) == 0 || m.config.Read.Classes != "" {
		return nil
	}
	return m.archives.Metadata
}

// manifest is what the mount shows as .pipefs/manifest: what its views are, and by
// which implementations they are made. Two mounts of one dataset that agree on a
// view's digest show the same bytes in it.
func (m *Mount) manifest() ([]byte, error) {
	type view struct {
		View   string `json:"view"`
		Digest string `json:"digest"`
	}
	manifest := struct {
		Version  int               `json:"version"`
		Source   string            `json:"source"`
		Program  string            `json:"program"`
		Views    []view            `json:"views"`
		Steps    map[string]string `json:"steps"`
		Decoders map[string]string `json:"decoders"`
		Images   []string          `json:"images,omitempty"`
		Masks    []string          `json:"masks,omitempty"`
		Pairs    []string          `json:"pairs,omitempty"`
	}{Version: 1, Source: m.config.Source, Program: Version(), Images: m.config.Roles.Images, Masks: m.config.Roles.Masks, Pairs: m.pairs()}
	manifest.Steps, manifest.Decoders = m.registry.Implementations()
	for _, spec := range m.listed {
		p, err := m.registry.ParseRandom(spec)
		if err != nil {
			return nil, err
		}
		if p.Random() {
			continue // its bytes depend on the seed and the epoch
		}
		missing, err := m.server.Missing(p)
		if err != nil {
			return nil, err
		}
		digest := m.registry.Digest(p)
		if missing.Reencoded > 0 {
			digest += "+reencoded" // with the dataset these files have other bytes
		}
		manifest.Views = append(manifest.Views, view{View: spec, Digest: digest})
	}
	b, err := json.MarshalIndent(manifest, "", "  ")
	return append(b, '\n'), err
}

// mostBadShown is how many bad samples the stats name. The log names all when the mount ends.
const mostBadShown = 100

// badCounters name the samples that could not be made, and why.
func (m *Mount) badCounters() (counters []control.Counter) {
	const group = "bad samples"
	bad := m.server.Bad()
	if len(bad) == 0 {
		return nil
	}
	counters = append(counters, control.Counter{Group: group, Name: "could not be made", Value: int64(len(bad))})
	for _, b := range bad[:min(len(bad), mostBadShown)] {
		counters = append(counters, control.Counter{Group: group, Name: b.Path, Unit: control.Text, Text: b.Cause})
	}
	return counters
}

// logBad ends the log with them.
func (m *Mount) logBad() {
	if m.server == nil {
		return
	}
	bad := m.server.Bad()
	for i, b := range bad {
		m.log.Warn("bad sample", "number", i+1, "of", len(bad), "sample", b.Path, "cause", b.Cause)
	}
}

// pprof takes a profile of this process: one of runtime/pprof, or "cpu", which takes that many seconds.
func (m *Mount) pprof(name string, seconds int) ([]byte, error) {
	var b bytes.Buffer
	if name != "cpu" {
		p := pprof.Lookup(name)
		if p == nil {
			return nil, fmt.Errorf("there is no profile %q", name)
		}
		format := 0
		if name == "goroutine" {
			format = 2 // text, with what each waits for
		}
		err := p.WriteTo(&b, format)
		return b.Bytes(), err
	}
	if err := pprof.StartCPUProfile(&b); err != nil {
		return nil, err
	}
	select {
	case <-time.After(time.Duration(min(max(seconds, 1), control.MaxProfile)) * time.Second):
	case <-m.until.Done():
	}
	pprof.StopCPUProfile()
	return b.Bytes(), nil
}

// settings is the configuration of the mount.
func (m *Mount) settings() (json.RawMessage, error) { return json.Marshal(m.config) }
