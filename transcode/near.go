package transcode

import (
	"strings"

	"github.com/xrash/smetrics"
)

// alikeEnough is the similarity of Jaro and Winkler, 0 to 1, from which on a word stands for one of
// which it is the beginning.
const alikeEnough = 0.85

// Nearest is the one of some known words that a mistyped word was probably meant to be; "" if
// none comes near. Up to one letter in three may be wrong, and no more than two.
func Nearest(word string, known ...string) (nearest string) {
	word = strings.ToLower(word)
	best := 3
	for _, k := range known {
		d := smetrics.WagnerFischer(word, strings.ToLower(k), 1, 1, 1)
		if d < best && d <= (max(len(word), len(k))+1)/3 {
			nearest, best = k, d
		}
	}
	if nearest != "" {
		return nearest
	}
	alike := alikeEnough
	for _, k := range known {
		if s := smetrics.JaroWinkler(word, strings.ToLower(k), 0.7, 4); s > alike {
			nearest, alike = k, s
		}
	}
	return nearest
}
