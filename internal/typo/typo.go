// Package typo guesses which of some known words a mistyped one was meant to be.
package typo

import (
	"strings"
)

// Meant are the known words that a mistyped one was probably meant to be, in their order.
// Several are equally near; none is near enough to guess where the result is empty. Case
// does not count.
func Meant(word string, known ...string) (near []string) {
	word = strings.ToLower(word)
	best := 0
	for _, k := range known {
		d := distance(word, strings.ToLower(k))
		if d > furthest(word, k) || len(near) > 0 && d > best {
			continue
		}
		if d < best {
			near = nil
		}
		near, best = append(near, k), d
	}
	if near != nil || len(word) < shortest {
		return near
	}
	// what was not typed to its end
	for _, k := range known {
		if strings.HasPrefix(strings.ToLower(k), word) {
			near = append(near, k)
		}
	}
	return near
}

// shortest is the length of the shortest beginning that stands for a word.
const shortest = 3

// furthest is the distance up to which one word may stand for the other: one in three
// letters, and no more than two.
func furthest(a, b string) int { return min(2, (max(len(a), len(b))+1)/3) }

// Ask is the question to somebody who mistyped a word: "did you mean bmp or ppm?". It is
// empty where there is nothing to ask.
func Ask(word string, known ...string) string { return Question(Meant(word, known...)) }

// Question asks for one of some words; it is empty if there are none.
func Question(words []string) string {
	if len(words) == 0 {
		return ""
	}
	last := len(words) - 1
	if last == 0 {
		return "did you mean " + words[0] + "?"
	}
	return "did you mean " + strings.Join(words[:last], ", ") + " or " + words[last] + "?"
}

// distance is how many letters are to be added, left out, replaced, or swapped with their
// neighbour, to make b of a. No letter is changed twice (optimal string alignment).
func distance(a, b string) int {
	var before, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
