package trace

import (
	"cmp"
	"path"
	"slices"
)

// Summary is what requests have in common.
type Summary struct {
	Requests int64   `json:"requests"`
	Bytes    int64   `json:"bytes"`
	Took     int64   `json:"took_ns"`
	Errors   int64   `json:"errors"`
	Lost     int64   `json:"lost"`
	Slowest  []File  `json:"slowest"`
	Repeated []File  `json:"repeated"` // files that were begun more than once
	Again    int64   `json:"again"`    // files begun that were begun before
	Order    []Order `json:"order"`    // one of each process
}

// File is what was asked of one file.
type File struct {
	Path   string `json:"path"` // with its view
	Took   int64  `json:"took_ns"`
	Begun  int64  `json:"begun"`
	Bytes  int64  `json:"bytes"`
	Errors int64  `json:"errors"`
}

// Order is how a process goes through the files of a view: sequential, strided, shuffled, or unclear.
type Order struct {
	PID    int    `json:"pid"`
	View   string `json:"view"`
	Files  int    `json:"files"`
	Order  string `json:"order"`
	Stride int    `json:"stride,omitempty"`
}

const (
	// mostFiles is how many files are named.
	mostFiles = 10
	// leastFiles is how many files an order needs.
	leastFiles = 8
)

// reader is a process in a view.
type reader struct {
	pid  int
	view string
}

// Summarize tells what events have in common.
func Summarize(events []Event, lost int64) Summary {
	s := Summary{Lost: lost, Slowest: []File{}, Repeated: []File{}, Order: []Order{}}
	files := map[string]*File{}
	seen := map[reader][]string{} // files in the order in which they were begun
	for i := range events {
		e := &events[i]
		s.Requests, s.Bytes, s.Took = s.Requests+1, s.Bytes+int64(e.Bytes), s.Took+e.Took
		name := path.Join(e.View, e.Path)
		f := files[name]
		if f == nil {
			f = &File{Path: name}
			files[name] = f
		}
		f.Took, f.Bytes = f.Took+e.Took, f.Bytes+int64(e.Bytes)
		if e.Errno != 0 {
			f.Errors++
			s.Errors++
		}
		if e.Op == "read" && e.Offset == 0 && e.Bytes > 0 {
			if f.Begun++; f.Begun > 1 {
				s.Again++
			}
			r := reader{cmp.Or(e.PID, int(e.Thread)), e.View}
			seen[r] = append(seen[r], name)
		}
	}
	for _, f := range files {
		s.Slowest = append(s.Slowest, *f)
		if f.Begun > 1 {
			s.Repeated = append(s.Repeated, *f)
		}
	}
	slices.SortFunc(s.Slowest, func(a, b File) int { return cmp.Or(cmp.Compare(b.Took, a.Took), cmp.Compare(a.Path, b.Path)) })
	slices.SortFunc(s.Repeated, func(a, b File) int { return cmp.Or(cmp.Compare(b.Begun, a.Begun), cmp.Compare(a.Path, b.Path)) })
	s.Slowest = s.Slowest[:min(len(s.Slowest), mostFiles)]
	s.Repeated = s.Repeated[:min(len(s.Repeated), mostFiles)]
	s.Order = orders(seen)
	return s
}

// orders tells in which order processes read, by the places of the files among all that were read in their view.
func orders(seen map[reader][]string) []Order {
	places := map[string]map[string]int{}
	for r, names := range seen {
		if places[r.view] == nil {
			places[r.view] = map[string]int{}
		}
		for _, n := range names {
			places[r.view][n] = 0
		}
	}
	for _, of := range places {
		var names []string
		for n := range of {
			names = append(names, n)
		}
		slices.Sort(names)
		for i, n := range names {
			of[n] = i
		}
	}
	all := []Order{}
	for r, names := range seen {
		o := Order{PID: r.pid, View: r.view, Files: len(names), Order: "unclear"}
		steps := map[int]int{}
		for i := 1; i < len(names); i++ {
			steps[places[r.view][names[i]]-places[r.view][names[i-1]]]++
		}
		best := 0
		for step, n := range steps {
			if n > steps[best] || n == steps[best] && step < best {
				best = step
			}
		}
		switch most := steps[best]; {
		case len(names) < leastFiles:
		case 10*most < 6*(len(names)-1):
			o.Order = "shuffled"
		case best == 1:
			o.Order = "sequential"
		default:
			o.Order, o.Stride = "strided", best
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b Order) int { return cmp.Or(cmp.Compare(a.View, b.View), cmp.Compare(a.PID, b.PID)) })
	return all
}
