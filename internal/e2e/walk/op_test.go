package walk

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// world is who does the operations that no reader does.
const world = -1

// An Op is an operation of a walk.
type Op struct {
	Who  int    // the number of a reader, or world
	Do   string // see reader.do and walk.do
	Slot int    // of the files that a reader has open
	Path string // below the mount; of an edit, below the dataset
	N, M int64  // of a read: where in the file it begins, in millionths, and how many bytes it reads
}

func (o Op) String() string {
	who := fmt.Sprint("reader", o.Who)
	if o.Who == world {
		who = "world"
	}
	path := o.Path
	if path == "" {
		path = "-"
	}
	return fmt.Sprintf("%s %s %d %s %d %d", who, o.Do, o.Slot, path, o.N, o.M)
}

func parseOp(line string) (o Op, err error) {
	var who string
	if _, err := fmt.Sscan(line, &who, &o.Do, &o.Slot, &o.Path, &o.N, &o.M); err != nil {
		return o, fmt.Errorf("%q: %w", line, err)
	}
	if who == "world" {
		o.Who = world
	} else if _, err := fmt.Sscanf(who, "reader%d", &o.Who); err != nil {
		return o, fmt.Errorf("%q: %w", line, err)
	}
	if o.Path == "-" {
		o.Path = ""
	}
	return o, nil
}

func text(ops []Op) string {
	var b strings.Builder
	for _, o := range ops {
		fmt.Fprintln(&b, o)
	}
	return b.String()
}

const (
	readers = 6
	slots   = 3
)

// wheel draws from what has weights.
type wheel []struct {
	weight int
	do     string
}

func (w wheel) draw(r *rand.Rand) string {
	all := 0
	for _, s := range w {
		all += s.weight
	}
	n := r.IntN(all)
	for _, s := range w {
		if n -= s.weight; n < 0 {
			return s.do
		}
	}
	panic("no such draw")
}

var (
	readerOps = wheel{
		{20, "open"}, {15, "pread"}, {5, "preads"}, {5, "readv"}, {6, "mmap"}, {2, "mlock"}, {4, "sendfile"}, {4, "splice"},
		{3, "advise"}, {4, "close"}, {4, "fstat"}, {20, "whole"}, {8, "stat"}, {3, "statx"}, {3, "access"}, {6, "list"},
	}
	edits = wheel{{8, "replace"}, {3, "write"}, {3, "delete"}, {3, "rename"}, {2, "touch"}, {1, "away"}}
)

// generate draws a walk with so many operations of readers.
func generate(r *rand.Rand, c config, paths, edited []string, n int) (ops []Op) {
	often := wheel{{20, "edit"}, {3, "sync"}, {2, "settle"}, {2, "fidelity"}, {1, "clear"}}
	if c.refreshed() {
		often = append(often, wheel{{3, "refresh"}}...)
	}
	if c.supervised {
		often = append(often, wheel{{3, "kill"}, {1, "takeover"}}...)
	} else {
		often = append(often, wheel{{2, "end"}}...)
	}
	if c.full {
		often = append(often, wheel{{1, "fill"}}...)
	}
	for done := 0; done < n; {
		if r.IntN(50) == 0 {
			o := Op{Who: world, Do: often.draw(r)}
			switch o.Do {
			case "edit":
				o.Do, o.Path, o.N, o.M = edits.draw(r), edited[r.IntN(len(edited))], r.Int64N(versions), r.Int64N(2)
				if o.Do == "rename" {
					o.Slot = r.IntN(len(edited))
				}
			case "fidelity":
				o.N = int64(fidelities[r.IntN(len(fidelities))])
			case "end":
				o.N = r.Int64N(4)
			}
			ops = append(ops, o)
			continue
		}
		o := Op{Who: r.IntN(readers), Do: readerOps.draw(r), Slot: r.IntN(slots), Path: paths[r.IntN(len(paths))]}
		switch o.Do {
		case "open":
			o.N = r.Int64N(4) / 3 // one in four with O_DIRECT
		case "whole":
			o.N = r.Int64N(2) // one in two after the kernel's pages were dropped
		case "list":
			o.Path = o.Path[:strings.LastIndex(o.Path, "/")]
		default:
			o.N, o.M = r.Int64N(1_000_000), 1+r.Int64N(1<<uint(1+r.IntN(17)))
			if o.Do == "preads" {
				o.M = 1 + o.M%300
			}
		}
		ops, done = append(ops, o), done+1
	}
	return append(ops, Op{Who: world, Do: "settle"})
}
