package prepare

import (
	"testing"
	"time"
)

func TestThrottleYieldsToOthersOnly(t *testing.T) {
	const s = time.Second
	for name, test := range map[string]struct {
		duty float64
		u    usage
		want float64
	}{
		"an idle machine":               {0.25, usage{total: 2 * s, idle: 2 * s}, 0.5},
		"full with our own work":        {1, usage{total: 2 * s, own: 2 * s}, 1},
		"full with others":              {1, usage{total: 2 * s, own: s}, 0.5},
		"others, and a little room":     {0.25, usage{total: 2 * s, idle: s / 2}, 0.25},
		"others, but a core is free":    {0.5, usage{total: 2 * s, idle: s, own: s / 2}, 1},
		"full with others for long":     {leastDuty, usage{total: 2 * s}, leastDuty},
		"nothing to see in that moment": {0.5, usage{}, 1},
	} {
		if got := adjust(test.duty, test.u); got != test.want {
			t.Errorf("%s: %v becomes %v, want %v", name, test.duty, got, test.want)
		}
	}
}

func TestThrottleRests(t *testing.T) {
	fresh := usage{at: time.Now().Add(time.Hour)} // no look is due
	for _, test := range []struct {
		duty         float64
		worked, want time.Duration
	}{
		{1, 3 * time.Millisecond, 0},
		{0.5, 3 * time.Millisecond, 3 * time.Millisecond},
		{leastDuty, 3 * time.Millisecond, 297 * time.Millisecond},
		{leastDuty, time.Second, longestRest},
	} {
		c := &throttle{last: fresh, duty: test.duty}
		if got := c.rest(test.worked); got.Round(time.Microsecond) != test.want {
			t.Errorf("duty %v, worked %v: rest %v, want %v", test.duty, test.worked, got, test.want)
		}
	}
}

func TestUsage(t *testing.T) {
	u, ok := parseUsage([]byte("cpu  100 50 25 1000 10 5 5 5 0 0\ncpu0 1 2 3\n"))
	if !ok || u.total != 12*time.Second || u.idle != 10100*time.Millisecond {
		t.Errorf("%+v, %v", u, ok)
	}
	for _, bad := range []string{"", "cpu 1 2 3\n", "intr 1 2 3 4 5 6 7 8 9\n", "cpu a b c d e f g h\n"} {
		if _, ok := parseUsage([]byte(bad)); ok {
			t.Errorf("%q was understood", bad)
		}
	}
	before, ok := cpuUsage()
	if !ok {
		t.Fatal("/proc/stat of this machine was not understood")
	}
	for start := time.Now(); time.Since(start) < 50*time.Millisecond; {
	}
	after, _ := cpuUsage()
	if d := after.since(before); d.own <= 0 || d.total < d.idle {
		t.Errorf("after 50 ms of work: %+v", d)
	}
}
