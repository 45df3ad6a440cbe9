package fs

import (
	"testing"
	"time"
)

func TestFailuresAreToldOnceAnHour(t *testing.T) {
	var f failures
	f.init()
	broken, now := failure{"bmp", "a.jpg", "input ends"}, time.Now()
	for i, c := range []struct {
		what  failure
		after time.Duration
		times int
		tell  bool
	}{
		{broken, 0, 1, true},
		{broken, time.Second, 2, false},
		{failure{"npy", "a.jpg", "input ends"}, time.Second, 1, true},
		{failure{"bmp", "a.jpg", "disk on fire"}, time.Second, 1, true},
		{broken, failureEvery, 3, true},
		{broken, failureEvery + time.Second, 4, false},
	} {
		if times, tell := f.count(c.what, now.Add(c.after)); times != c.times || tell != c.tell {
			t.Errorf("%d: %d times, told %v", i, times, tell)
		}
	}
}
