package mixer

import (
	"cmp"
	"slices"
)

// Ranks decides which samples have a representation that is kept for a share of
// them only: a sample belongs to the share F, from 0 to 1, if its rank is below
// F. It returns the ranks, from 0 up to but not including 1, of the samples of
// one class (a directory), whose positions in packed order are seqs, none of them
// twice. class is the number of the class, from 0 on.
//
// What belongs to a share belongs to every larger one. Of a class of n samples
// more than F·n−1 and fewer than F·n+1 belong to F, and they lie evenly along the
// packed order, in a class and over all of them: any stretch of it that is read
// takes about the same mix. Of many classes of few samples, one even, about the
// share F of all samples belongs to F. The same arguments give the same ranks on
// every machine.
func Ranks(class int, seqs []int64) []float64 {
	// Positions times an irrational, of which the fraction remains, are spread
	// evenly, any stretch of them and any subset that is not made to defeat it,
	// and most evenly for the golden ratio. The samples are taken in that order.
	// It depends on the position alone, so that a sample which is removed or added
	// does not put all others into another one.
	order := make([]int, len(seqs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Compare(uint64(seqs[a]+1)*golden, uint64(seqs[b]+1)*golden)
	})
	// Which of the n steps of a class comes when differs between classes, or all of
	// them would take their next sample at the same share.
	const bits = 24 // few enough that sums with n stay exact and below n
	offset := float64(uint64(class+1)*silver>>(64-bits)) / (1 << bits)
	ranks := make([]float64, len(seqs))
	for j, i := range order {
		ranks[i] = (float64(j) + offset) / float64(len(seqs))
	}
	return ranks
}

// Fractions of irrationals, of 2^64: those of the golden ratio and of the square
// root of 2, whose multiples have nothing to do with each other.
const (
	golden = 0x9e3779b97f4a7c15
	silver = 0x6a09e667f3bcc908
)
