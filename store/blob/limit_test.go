package blob

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A limit that falls to one still lets requests through, and rises again.
func TestLimiter(t *testing.T) {
	l := newLimiter()
	one := func(v verdict) {
		t.Helper()
		if err := l.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.release(v, time.Now())
	}
	for range 100 {
		one(overloaded)
	}
	if l.current() != 1 {
		t.Errorf("after many overloads: %d", l.current())
	}
	for range 100 {
		one(done)
	}
	if l.current() < 2 {
		t.Errorf("after many that went well: %d", l.current())
	}
	for l.inUse < l.current() {
		if err := l.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := l.acquire(ctx); err == nil || len(l.queued) != 0 {
		t.Errorf("waiting in vain: %v, %d still wait", err, len(l.queued))
	}
	turn := make(chan error)
	go func() { turn <- l.acquire(t.Context()) }()
	l.release(final, time.Now())
	if err := <-turn; err != nil {
		t.Error(err)
	}
}

// Requests in flight together count once.
func TestLimiterCountsOnce(t *testing.T) {
	l := newLimiter()
	began := time.Now()
	for range startRequests {
		if err := l.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range startRequests {
		l.release(overloaded, began)
	}
	if l.current() != startRequests*3/4 {
		t.Errorf("%d", l.current())
	}
}

// Where everything fails, repetitions come at a steady rate.
func TestBudget(t *testing.T) {
	b := newBudget()
	var wait time.Duration
	for range retriesAtOnce + 10*retriesPerSecond {
		wait = b.take()
	}
	if wait < 9*time.Second || wait > 11*time.Second {
		t.Errorf("the last of ten seconds' repetitions waits for %v", wait)
	}
	for range 100 * retriesPerSecond {
		b.earn()
	}
	if wait := b.take(); wait > 0 {
		t.Errorf("after many that went well: %v", wait)
	}
}

func TestFindRegion(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/there" {
			w.Header().Set("X-Amz-Bucket-Region", "eu-north-1")
		}
		w.WriteHeader(http.StatusMovedPermanently)
	}))
	defer server.Close()
	for bucket, want := range map[string]string{"there": "eu-north-1", "elsewhere": usualRegion} {
		if got := findRegion(t.Context(), http.DefaultTransport, server.URL, bucket); got != want {
			t.Errorf("%s is in %s", bucket, got)
		}
	}
}
