package main

import (
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// TestSummary reads what go test prints of one test that passed, one that failed, two that
// were left out, and one that never ended.
func TestSummary(t *testing.T) {
	const events = `{"Action":"build-output","ImportPath":"p","Output":"p/x.go:1:1: wrong\n"}
{"Action":"run","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"pass","Package":"p","Test":"TestGood","Elapsed":1}
{"Action":"output","Package":"p","Test":"TestBad","Output":"    x_test.go:1: it is bad\n"}
{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"output","Package":"p","Test":"TestOut","Output":"    x_test.go:1: about it\n"}
{"Action":"output","Package":"p","Test":"TestOut","Output":"    x_test.go:2: skipped: no pictures\n"}
{"Action":"output","Package":"p","Test":"TestOut","Output":"--- SKIP: TestOut (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestOut"}
{"Action":"output","Package":"p","Test":"TestGood/some","Output":"    x_test.go:2: no pictures\n"}
{"Action":"output","Package":"p","Test":"TestGood/some","Output":"    --- SKIP: TestGood/some (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestGood/some"}
{"Action":"output","Package":"p","Test":"TestStops","Output":"panic: it stops\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t1.0s\n"}
{"Action":"fail","Package":"p"}
{"Action":"output","Package":"q","Output":"?   \tq\t[no test files]\n"}
{"Action":"skip","Package":"q"}
`
	var out strings.Builder
	s := summary{out: &out, leftOut: map[string]int{}}
	testenv.Must(t, s.read(strings.NewReader(events)))
	want := "p/x.go:1:1: wrong\n    x_test.go:1: it is bad\nFAIL\tp\t1.0s\npanic: it stops\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	if got, want := s.String(), "failed: p TestBad\n1 tests passed, 1 failed, 2 were left out (2: no pictures)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := s.read(strings.NewReader("nonsense")); err == nil {
		t.Error("what is no event is passed over")
	}
}
