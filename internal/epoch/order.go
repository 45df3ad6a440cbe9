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
