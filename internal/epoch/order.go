// Package epoch lays out the epochs of a training: a batch of samples is a file.
//
// # Nouns
//
// An epoch goes once through a list of samples. The list are the samples below a directory
// of the dataset as ImageFolder of torchvision would list them: the directories in it are
// the classes, in the order of their names. No sample is opened for it.
//
// The list may also be the rows of a table: a CSV file of the dataset, or one that the mount was
// given, with a column of paths. A sample may be in several rows, each of which is drawn anew.
// Labels come from the table, or from the directories. Users call it a list, too.
//
// The order is a permutation of the list: a function of seed, epoch and the number of
// samples. It is split among the ranks of a world as DistributedSampler of PyTorch does it:
// rank r of w gets each w-th sample, from r on. Where they do not come out even, the order
// goes on from its start, or the rest is dropped. A view may begin behind the samples that were
// read before: the samples that follow are split among the ranks in the same way.
//
// An epoch view is what one rank reads of an epoch in one view, in batches of some number
// of samples: all that its path says. Each batch has files: the pixels as one array, the
// labels, and the paths of the samples. Everything in them is a function of the path.
//
// Samples that somebody asks for are a batch, too. It belongs to no epoch.
//
// A batch is made by all workers at once, each sample where it belongs in the file. It
// is made once for all who read it. While a reader goes through the batches in their order,
// the next ones are made ahead of it, within the budget: so many bytes of batches are in
// memory at once. What was read to its end goes first when memory is short.
package epoch

import (
	"fmt"
	"slices"

	"github.com/pipefs/pipefs/transcode"
)

// order is the permutation of n samples in an epoch: which of the list comes when.
//
// The generator is that of the draws, with a domain that no step has. The shuffle is that
// of Fisher and Yates, from the end.
//
// With a window the order is quasi-random: blocks of samples that follow each other in the list are
// shuffled, and then the samples of so many blocks in turn as make a window.
func order(seed, epoch uint64, n, window int) []uint32 {
	domain := fmt.Sprintf("order of %d samples", n)
	if window > 0 {
		domain = fmt.Sprintf("order of %d samples in windows of %d", n, window)
	}
	random := transcode.Draw{Seed: seed, Epoch: epoch}.Random(domain)
	if window == 0 || window >= n {
		samples := upTo(n)
		shuffle(random, samples)
		return samples
	}
	blocks := upTo((n + blockSize - 1) / blockSize)
	shuffle(random, blocks)
	samples := make([]uint32, 0, n)
	for _, b := range blocks {
		for i := int(b) * blockSize; i < min((int(b)+1)*blockSize, n); i++ {
			samples = append(samples, uint32(i))
		}
	}
	for part := range slices.Chunk(samples, window) {
		shuffle(random, part)
	}
	return samples
}

// blockSize is how many samples of a list follow each other in a quasi-random order before it is cut up:
// 32 photographs of 100 KB are read from a disk about as fast as many.
const blockSize = 32

// upTo is the numbers below n.
func upTo(n int) []uint32 {
	numbers := make([]uint32, n)
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	return numbers
}

func shuffle(random *transcode.Random, samples []uint32) {
	for i := len(samples) - 1; i > 0; i-- {
		j := random.Upto(i)
		samples[i], samples[j] = samples[j], samples[i]
	}
}

// share is what one rank gets of n samples, and in what batches.
type share struct {
	n, world, rank, batch int
	from                  int // places of the order that were read before, by any ranks
	drop                  bool
}

// len is the number of samples of the rank, those of a last batch that is dropped not
// counted.
func (s share) len() int {
	left := s.n - s.from
	if !s.drop {
		return (left + s.world - 1) / s.world
	}
	return left / s.world / s.batch * s.batch
}

// batches is their number.
func (s share) batches() int { return (s.len() + s.batch - 1) / s.batch }

// size is the number of samples of a batch.
func (s share) size(batch int) int { return min(s.batch, s.len()-batch*s.batch) }

// at is the place in the order of the i-th sample of the rank.
func (s share) at(i int) int { return (s.from + i*s.world + s.rank) % s.n }

// padded is how many places of all ranks together repeat a sample, and dropped how many
// samples no rank gets. The rank itself pads its last place, or nothing.
func (s share) padded() int  { return max(s.from+s.len()*s.world-s.n, 0) }
func (s share) dropped() int { return max(s.n-s.from-s.len()*s.world, 0) }

func (s share) paddedOfRank() int {
	if s.padded() > 0 && s.rank >= s.world-s.padded() {
		return 1
	}
	return 0
}
