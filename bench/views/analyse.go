package views

import (
	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/stats"
)

// analyse divides the time of an epoch: the rates of DS-Analyzer (CoorDL, VLDB 2021,
// section 3), from the seconds of one sample with synthetic data (t1), from the disk (t2)
// and from memory (t3). Their code takes n/t2 for the fetch rate; the paper takes what
// the disk adds, as is done here.
func (s *subject) analyse(c loader.Compute, cores int) {
	cold, cached := stats.Median(s.Cold), stats.Median(s.Cached)
	if cold == 0 || cached == 0 {
		return
	}
	a := &s.Analysis
	t1, t2, t3 := c.Per(1).Seconds(), 1/cold, 1/cached
	if t1 > 0 {
		a.Ingest = 1 / t1
		total := max(t2, t3, t1)
		a.Computing = min(1, t1/total)
		a.PrepStall = max(0, t3-t1) / total
		a.FetchStall = max(0, total-max(t1, t3)) / total
	}
	a.Prep = cached
	if t2 > t3 {
		a.Fetch = 1 / (t2 - t3)
	}
	s.Bottleneck = s.bottleneck(cores)
}

// The shares from which a resource counts as the bottleneck.
const (
	working = 0.9 // of the accelerator
	slower  = 0.9 // cold against cached, for the disk to matter
)

// bottleneck is what the lasting epochs wait for.
func (s *subject) bottleneck(cores int) string {
	client, daemon := s.CPU()
	limited := s.Busy >= stats.InUse || (client+daemon)*stats.Median(s.Lasting()) >= stats.InUse*float64(cores)
	switch {
	case s.Utilisation >= working:
		return "the accelerator"
	case limited && daemon > client:
		return "the daemon's processor time"
	case limited:
		return "the loader's processor time"
	case !s.Fits && stats.Median(s.Cold) < slower*stats.Median(s.Cached):
		return "the disk"
	}
	return "latency: neither processors nor disk are used up"
}
