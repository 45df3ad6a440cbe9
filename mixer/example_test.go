package mixer_test

import (
	"fmt"

	"github.com/pipefs/pipefs/mixer"
)

// A resized picture is wanted, and three representations exist: the file of the
// dataset, the decoded pixels, and the result itself.
func ExampleLongest() {
	candidates := []mixer.Candidate{
		{Steps: 0, Bytes: 110_000, Dataset: true},
		{Steps: 1, Bytes: 562_500},
		{Steps: 3, Bytes: 262_198},
	}
	chosen := mixer.Longest{}.Choose(mixer.Request{Steps: 3, Candidates: candidates})
	fmt.Println(candidates[chosen].Bytes)
	// Output: 262198
}
