package mountd

import "github.com/pipefs/pipefs/internal/control"

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
