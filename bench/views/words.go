package views

import (
	"fmt"
	"slices"
	"strings"
)

// Term is a word of the report, and what it means. Terminal and page use the same words.
type Term struct{ Word, Meaning string }

// The words for what is measured of a view. Those of epochs are also called first, cold,
// cached and lasting in JSON.
var (
	FirstEpoch = Term{"first epoch", "Nothing is prepared, nothing is cached. Every sample is made when it is read."}
	FromDisk   = Term{"from the disk", "The mount has kept what it made on its disk, and nothing is in the page cache. Every epoch of a dataset larger than memory is like this."}
	FromMemory = Term{"from memory", "Everything that a page cache keeps is in it. Epochs from the second on are like this if all files of the view fit in memory."}
	Lasting    = Term{"lasting", "The rate of the epochs that a training consists of: from memory where all files of the view fit, from the disk otherwise."}
	Gain       = Term{"gain", "The lasting rate over that of the plain files, or of original/ without them."}
	Pixels     = Term{"pixels", "With same pixels the loader gets exactly the pixels of the source. For other pixels, MS-SSIM tells how much they look like the source, from 0 to 1. It cannot be computed where sizes differ. Those of a random view are drawn in each epoch."}
	File       = Term{"file", "Mean bytes of a sample's file in the view."}
	Read       = Term{"read", "Mean bytes that an epoch from the disk reads of it for a sample."}
	Kept       = Term{"kept", "Mean bytes of a sample that the mount keeps on its disk beside the source. The first epoch makes them."}
	LoaderCPU  = Term{"loader CPU", "Processor time of the loader for a sample."}
	DaemonCPU  = Term{"daemon CPU", "Processor time of the daemon for a sample."}
	OpenToEnd  = Term{"open to end", "Time from opening a file to its end in an epoch from the disk, without decoding: p50 is the median, and one file in a hundred takes longer than p99."}
	Bottleneck = Term{"bottleneck", "What the lasting epochs wait for."}
	Control    = Term{"control", "The same files on the plain disk, read by the same loader."}
	Busy       = Term{"accelerator busy", "The share of lasting epochs in which the emulated accelerator computes. p99 wait is how long it waits for a batch at most, but for one batch in a hundred."}
	Stalls     = Term{"stalls", "After DS-Analyzer: an epoch with the emulated accelerator alone, one from memory, and one from the disk. What the second takes longer than the first is the prep stall, what the third takes longer than the second the fetch stall."}
)

// Likeness says how the pixels of a view relate to the source's; empty where that is not
// known.
func (r *Row) Likeness() string {
	switch {
	case r.Same && len(r.Lasting()) > 0:
		return "same"
	case r.Random && len(r.Lasting()) > 0:
		return "drawn"
	case r.MSSSIM > 0:
		return fmt.Sprintf("MS-SSIM %.3f", r.MSSSIM)
	case len(r.Lasting()) == 0:
		return ""
	}
	return "other"
}

// Intervals says what the intervals beside rates are.
func (r *Report) Intervals() string {
	const sure = 6 // rounds
	if r.Rounds < sure {
		return fmt.Sprintf("intervals are about the lowest and the highest: 95 %% intervals take %d rounds", sure)
	}
	return "intervals are 95 % intervals, by the bootstrap"
}

// Decoder compares the loader of pipefs with Pillow; empty where it did not read.
func (r *Report) Decoder() string {
	if len(r.Pillow) == 0 {
		return ""
	}
	var formats []string
	for format, ratio := range r.Pillow {
		formats = append(formats, fmt.Sprintf("%s %.2f×", strings.ToUpper(format), ratio))
	}
	slices.Sort(formats)
	return "The built-in loader beside Pillow in the same run (1 is as fast): " + strings.Join(formats, ", ") +
		". Where it is faster, a loader with Pillow gains more by views that need less decoding, and less by others."
}
