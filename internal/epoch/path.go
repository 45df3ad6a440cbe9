package epoch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Dir is the directory of a mount below which the epoch views are, as
// Dir/SEED/EPOCH/WORLD/RANK/BATCH/VIEW, and below VIEW a directory of the dataset.
const Dir = ".epoch"

// Path says all of an epoch view.
type Path struct {
	Seed, Epoch uint64
	World, Rank int
	Batch       int
	// Drop leaves out what does not come out even: of the samples among the ranks, and of
	// those of a rank in its last batch.
	Drop bool
	// Window makes the order quasi-random: so many samples are shuffled together, in blocks of which they
	// follow each other in the list. 0 shuffles all of them.
	Window int
	// From is how many samples of the order were read before, in whatever batches and by whatever ranks.
	From int
	View string
	Of   string // the directory of the dataset, or the table; empty for all of the dataset
}

// What may follow the number of samples of a batch, in this order.
const (
	dropWord   = "drop"
	windowWord = "-window" // and a number
	fromWord   = "-from"   // and a number
)

// The bounds of numbers that are not seeds or epochs.
const (
	maxWorld = 1 << 20
	maxBatch = 1 << 20
	maxInt   = 1 << 30 // of numbers that are read
	maxFrom  = 1 << 32 // samples have numbers of 32 bits
)

// minWindow is the least window, in samples.
const minWindow = 2 * blockSize

// numbers is how many parts of a path come before the view.
const numbers = 5

var errNoNumber = errors.New("want whole numbers without leading zeros: " + Dir + "/SEED/EPOCH/WORLD/RANK/BATCH/VIEW")

// ParsePath reads what follows [Dir]: the first parts of a path, or all of them. Each path
// has one spelling.
func ParsePath(parts []string) (p Path, err error) {
	for i, part := range parts[:min(len(parts), numbers)] {
		word := part
		if i == numbers-1 {
			var from, window string
			var begun, windowed bool
			if word, from, begun = strings.Cut(part, fromWord); begun {
				if p.From, _ = strconv.Atoi(from); strconv.Itoa(p.From) != from || p.From < 1 || p.From > maxFrom {
					return p, fmt.Errorf("%s: want the number of samples that were read before, as in 64%s12800", part, fromWord)
				}
			}
			if word, window, windowed = strings.Cut(word, windowWord); windowed {
				if p.Window, _ = strconv.Atoi(window); strconv.Itoa(p.Window) != window || p.Window < minWindow || p.Window > maxInt {
					return p, fmt.Errorf("%s: want a window of %d samples or more, as in 64%s4096", part, minWindow, windowWord)
				}
			}
			word, p.Drop = strings.CutSuffix(word, dropWord)
		}
		n, _ := strconv.ParseUint(word, 10, 64) // what it cannot read is spelled in another way
		if strconv.FormatUint(n, 10) != word {
			return p, errNoNumber
		}
		small := int(min(n, maxInt))
		switch i {
		case 0:
			p.Seed = n
		case 1:
			p.Epoch = n
		case 2:
			if p.World = small; n == 0 || n > maxWorld {
				return p, fmt.Errorf("a world of %d ranks: want 1 to %d", n, maxWorld)
			}
		case 3:
			if p.Rank = small; small >= p.World {
				return p, fmt.Errorf("rank %d of %d: ranks count from 0", n, p.World)
			}
		case 4:
			if p.Batch = small; n == 0 || n > maxBatch {
				return p, fmt.Errorf("batches of %d samples: want 1 to %d", n, maxBatch)
			}
		}
	}
	if len(parts) > numbers {
		p.View, p.Of = parts[numbers], strings.Join(parts[numbers+1:], "/")
	}
	return p, nil
}

// Complete reports whether so many parts name a view.
func Complete(parts []string) bool { return len(parts) > numbers }

func (p Path) String() string {
	batch := strconv.Itoa(p.Batch)
	if p.Drop {
		batch += dropWord
	}
	if p.Window > 0 {
		batch += windowWord + strconv.Itoa(p.Window)
	}
	if p.From > 0 {
		batch += fromWord + strconv.Itoa(p.From)
	}
	text := fmt.Sprintf("%s/%d/%d/%d/%d/%s/%s", Dir, p.Seed, p.Epoch, p.World, p.Rank, batch, p.View)
	if p.Of != "" {
		text += "/" + p.Of
	}
	return text
}

func (p Path) share(n int) share {
	return share{n: n, world: p.World, rank: p.Rank, batch: p.Batch, from: p.From, drop: p.Drop}
}
