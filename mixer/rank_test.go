package mixer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// packedClasses are the positions of the samples of each class, in a store with so
// many samples a class: a directory takes a position, too, and before it come the
// dataset and its labels.
func packedClasses(sizes []int, shuffled bool) [][]int64 {
	var classes [][]int64
	seq := int64(2)
	for _, n := range sizes {
		seq++
		class := make([]int64, n)
		for i := range class {
			class[i] = seq
			seq++
		}
		classes = append(classes, class)
	}
	if shuffled {
		r := rand.New(rand.NewPCG(1, 2))
		perm := r.Perm(int(seq))
		for _, class := range classes {
			for i := range class {
				class[i] = int64(perm[class[i]])
			}
			slices.Sort(class)
		}
	}
	return classes
}

func sizesOf(n, size int) []int {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = size
	}
	return sizes
}

func below(ranks []float64, share float64) int {
	n := 0
	for _, r := range ranks {
		if r < share {
			n++
		}
	}
	return n
}

// TestRanksCount: each class has its share, and so have all together.
func TestRanksCount(t *testing.T) {
	tests := map[string][]int{
		"one class":                {1000},
		"a thousand classes":       sizesOf(1000, 13),
		"classes of one sample":    sizesOf(500, 1),
		"classes of two":           sizesOf(500, 2),
		"classes of all sizes":     {1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 610, 985, 1300},
		"985, which √2 rotates by": sizesOf(50, 985),
	}
	for name, sizes := range tests {
		total := 0
		for _, n := range sizes {
			total += n
		}
		for _, shuffled := range []bool{false, true} {
			classes := packedClasses(sizes, shuffled)
			ranks := make([][]float64, len(classes))
			for c, seqs := range classes {
				ranks[c] = Ranks(c, seqs)
				for _, r := range ranks[c] {
					if r < 0 || r >= 1 {
						t.Fatalf("%s: rank %v", name, r)
					}
				}
			}
			worst := 0.0
			for step := range 101 {
				share := float64(step) / 100
				all := 0
				for c := range ranks {
					got, want := below(ranks[c], share), share*float64(len(ranks[c]))
					if math.Abs(float64(got)-want) >= 1+1e-9 {
						t.Errorf("%s, share %v: %d of the %d samples of class %d", name, share, got, len(ranks[c]), c)
					}
					all += got
				}
				worst = max(worst, math.Abs(float64(all)-share*float64(total)))
			}
			// far less than a sample a class
			if limit := 2 + math.Sqrt(float64(len(classes)))/2; worst > limit {
				t.Errorf("%s: the total is off by %.1f samples, over %.1f", name, worst, limit)
			}
		}
	}
}

// TestRanksAreEven: any 64 samples that follow each other in packed order hold
// about the share: of one class, where its samples follow each other, and over all
// classes. A bound of 64 is none.
func TestRanksAreEven(t *testing.T) {
	const window = 64
	tests := map[string]struct {
		sizes    []int
		shuffled bool
		every    int // only each such sample is ranked: the others are masks, say
		inClass  float64
		overall  float64
	}{
		"one class":               {[]int{5000}, false, 1, 3, 3},
		"large classes":           {sizesOf(20, 1300), false, 1, 3, 4},
		"small classes":           {sizesOf(400, 7), false, 1, window, 4},
		"classes of one sample":   {sizesOf(2000, 1), false, 1, window, 3},
		"shuffled, one class":     {[]int{5000}, true, 1, 3, 3},
		"shuffled, large classes": {sizesOf(20, 1300), true, 1, window, 6},
		"every other one":         {sizesOf(20, 1300), false, 2, 3, 5},
		"every thirteenth":        {sizesOf(3, 13000), false, 13, 6, 9},
	}
	for name, test := range tests {
		type sample struct {
			seq  int64
			rank float64
		}
		var all []sample
		worst := map[bool]float64{}
		even := func(ranks []float64, overall bool) {
			for _, share := range []float64{0.01, 0.1, 0.3, 0.5, 0.62, 0.8, 0.99} {
				for i := 0; i+window <= len(ranks); i++ {
					worst[overall] = max(worst[overall], math.Abs(float64(below(ranks[i:i+window], share))-share*window))
				}
			}
		}
		for c, seqs := range packedClasses(test.sizes, test.shuffled) {
			var some []int64
			for i := 0; i < len(seqs); i += test.every {
				some = append(some, seqs[i])
			}
			ranks := Ranks(c, some)
			even(ranks, false)
			for i, r := range ranks {
				all = append(all, sample{some[i], r})
			}
		}
		slices.SortFunc(all, func(a, b sample) int { return int(a.seq - b.seq) })
		ranks := make([]float64, len(all))
		for i, s := range all {
			ranks[i] = s.rank
		}
		even(ranks, true)
		if worst[false] > test.inClass || worst[true] > test.overall {
			t.Errorf("%s: off by up to %.1f samples of 64 in a class and by %.1f over all, want at most %v and %v", name, worst[false], worst[true], test.inClass, test.overall)
		}
		t.Logf("%s: %.1f, %.1f", name, worst[false], worst[true])
	}
}

// TestRanksStay: a sample more or less moves others by little, so that what is
// kept already stays.
func TestRanksStay(t *testing.T) {
	seqs := packedClasses([]int{1000}, false)[0]
	before := Ranks(7, seqs)
	without := slices.Delete(slices.Clone(seqs), 500, 501)
	after := Ranks(7, append(without, 5000))
	for i := range 500 {
		if math.Abs(before[i]-after[i]) > 2.0/1000 || math.Abs(before[i+500]-after[max(i-1, 0)+500]) > 2.0/1000 && i > 0 {
			t.Fatalf("sample %d moved", i)
		}
	}
}

// TestRanksAreThoseOfTheFormat: they decide which packs are kept, so they must not
// change from version to version.
func TestRanksAreThoseOfTheFormat(t *testing.T) {
	got := Ranks(2, []int64{3, 4, 5, 6})
	offset := math.Floor(math.Mod(3*math.Sqrt2, 1)*(1<<24)) / (1 << 24)
	want := []float64{(2 + offset) / 4, (0 + offset) / 4, (3 + offset) / 4, (1 + offset) / 4}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if Ranks(0, nil) == nil || len(Ranks(0, nil)) != 0 {
		t.Error("an empty class")
	}
}
