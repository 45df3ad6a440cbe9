// Package live serves the page of `pipefs live`: what a mount does, second by second.
//
// The server listens at 127.0.0.1 only. Every address on it begins with a random token, without which it answers 404:
// other users of the machine can connect, and see nothing. The page loads nothing from elsewhere.
package live

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed" // the page
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pipefs/pipefs/bench/report"
	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/control"
)

const (
	// every is the time between two points.
	every = time.Second
	// kept is how many points a page gets that is opened later.
	kept = 600
)

// Point is what happened in about a second.
type Point struct {
	account.Second
	Verdict account.Verdict `json:"verdict"`
	// Parts are the shares of what requests waited for.
	Parts   map[string]float64 `json:"parts"`
	Views   []View             `json:"views"`
	Readers []Reader           `json:"readers"`
	Errors  []Fault            `json:"errors"`
	Epochs  []Epoch            `json:"epochs"`
	// Failed says why there are no figures.
	Failed string `json:"failed,omitempty"`
}

// View is what was read of one view since the mount was made.
type View struct {
	View  string `json:"view"`
	Files int64  `json:"files"`
	Bytes int64  `json:"bytes"`
	Made  int64  `json:"made"` // computed for it
	// Hits is the share of the files that did not have to be made; HitsNow is that of the last second.
	Hits    float64 `json:"hits"`
	HitsNow float64 `json:"hits_now"`
	P99     int64   `json:"p99_ns"`
	Errors  int64   `json:"errors"`
}

// Reader is a process that reads.
type Reader struct {
	PID     int     `json:"pid"`
	Command string  `json:"command"`
	Rate    float64 `json:"rate"` // requests a second
	Waits   float64 `json:"waits"`
}

// Epoch is one that passed, or passes, while the page was served, in a mode in which the cache tells epochs apart.
type Epoch struct {
	Epoch int     `json:"epoch"`
	Hits  float64 `json:"hits"` // share of the opens that found their sample in the cache

	since account.Cache
}

// Fault is a file that could not be made.
type Fault struct {
	Path  string `json:"path"`
	Cause string `json:"cause"`
}

// Server serves the page of one mount.
type Server struct {
	// URL of the page, with the token.
	URL string

	http   *http.Server
	token  string
	cancel context.CancelFunc
	work   sync.WaitGroup
	mount  string

	epochs []Epoch // the last ones; only watch uses them

	mu   sync.Mutex
	past []Point
	wake chan struct{} // closed when there is a new point
}

//go:embed page.html
var source string

var page = template.Must(template.New("live").Parse(source))

// Start listens at a free port of 127.0.0.1, and asks for the statistics each second.
func Start(mount string, ask func(ctx context.Context, history bool) (*control.Stats, error)) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{token: rand.Text(), cancel: cancel, mount: mount, wake: make(chan struct{})}
	s.URL = fmt.Sprintf("http://%s/%s/", l.Addr(), s.token)
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog: log.New(io.Discard, "", 0)}
	s.work.Go(func() { _ = s.http.Serve(l) })
	s.work.Go(func() { s.watch(ctx, ask) })
	return s, nil
}

// Close ends all pages.
func (s *Server) Close() error {
	s.cancel()
	err := s.http.Close()
	s.work.Wait()
	return err
}

// watch adds a point each second.
func (s *Server) watch(ctx context.Context, ask func(ctx context.Context, history bool) (*control.Stats, error)) {
	var before *control.Stats
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		stats, err := ask(ctx, before == nil)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.add(Point{Second: account.Second{At: time.Now().UnixMilli()}, Failed: err.Error()})
		case stats.Account == nil:
			s.add(Point{Second: account.Second{At: time.Now().UnixMilli()}, Failed: "the daemon has another version, and does not account for its time: mount again"})
		default:
			for _, second := range stats.History {
				s.add(Point{Second: second})
			}
			if before != nil && before.PID == stats.PID { // another daemon counts anew
				s.pass(before.Account.Cache, stats.Account.Cache)
				point := pointOf(stats, before.Account)
				point.Epochs = slices.Clone(s.epochs)
				s.add(point)
			}
			before = stats
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// pass notes what the cache has counted since the last look in the epoch that passes.
func (s *Server) pass(before, now account.Cache) {
	if now.Epoch == 0 {
		return
	}
	if n := len(s.epochs); n == 0 || s.epochs[n-1].Epoch != now.Epoch {
		s.epochs = append(s.epochs[max(0, n-9):], Epoch{Epoch: now.Epoch, since: before})
	}
	e := &s.epochs[len(s.epochs)-1]
	hits, misses := now.Hits-e.since.Hits, now.Misses-e.since.Misses
	e.Hits = float64(hits) / float64(max(1, hits+misses))
}

func (s *Server) add(point Point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.past = append(s.past, point); len(s.past) > kept {
		s.past = append([]Point(nil), s.past[1:]...)
	}
	close(s.wake)
	s.wake = make(chan struct{})
}

// pointOf describes the time since the last snapshot.
func pointOf(stats *control.Stats, last *account.Snapshot) Point {
	now := stats.Account
	d, passed := now.Since(last), now.At.Sub(last.At).Seconds()
	total := d.Total()
	out := Point{Second: now.Second(last), Parts: map[string]float64{}, Views: []View{}, Readers: []Reader{}, Errors: []Fault{}}
	if stats.Verdict != nil {
		out.Verdict = *stats.Verdict
	}
	if all := float64(total.Source + total.Worker + total.Compute + total.Memory + total.Copy); all > 0 {
		for name, ns := range map[string]int64{"source": total.Source, "worker": total.Worker, "compute": total.Compute, "memory": total.Memory, "copy": total.Copy} {
			out.Parts[name] = float64(ns) / all
		}
	}
	recent := map[string]*account.Seen{}
	for i := range d.Views {
		recent[d.Views[i].View] = &d.Views[i]
	}
	for i := range now.Views {
		v := &now.Views[i]
		out.Views = append(out.Views, View{View: v.View, Files: v.Begun, Bytes: v.Bytes, Made: v.Making.Samples,
			Hits: hits(v), HitsNow: hits(recent[v.View]), P99: v.Quantile(0.99), Errors: v.Errors})
	}
	for i := range d.Readers {
		p := &d.Readers[i]
		share := 0.0
		if all := p.Waited + p.Computed + p.Queued + p.Slept; all > 0 {
			share = float64(p.Waited) / float64(all)
		}
		out.Readers = append(out.Readers, Reader{p.PID, p.Command, float64(p.Requests) / max(passed, 0.001), share})
	}
	for _, c := range stats.Counters {
		if c.Group == "bad samples" && c.Unit == control.Text {
			out.Errors = append(out.Errors, Fault{c.Name, c.Text})
		}
	}
	return out
}

// hits is the share of the files that did not have to be made.
func hits(v *account.Seen) float64 {
	if v == nil || v.Begun == 0 {
		return 0
	}
	return max(0, 1-float64(v.Making.Samples)/float64(v.Begun))
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	switch {
	// A page of another site must not find the server by a name that leads to 127.0.0.1.
	case !strings.HasPrefix(r.Host, "127.0.0.1:") || subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 || r.Method != http.MethodGet:
		http.NotFound(w, r)
	case rest == "":
		h.Set("Content-Type", "text/html; charset=utf-8")
		_ = page.Execute(w, map[string]any{"Mount": s.mount, "Style": template.CSS(report.Style())})
	case rest == "events":
		s.stream(w, r)
	default:
		http.NotFound(w, r)
	}
}

// stream sends all points, and those to come.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	last := int64(0)
	for {
		s.mu.Lock()
		wake := s.wake
		var news []Point
		for _, p := range s.past {
			if p.At > last {
				news = append(news, p)
			}
		}
		s.mu.Unlock()
		for _, p := range news {
			last = p.At
			b, err := json.Marshal(p)
			if err != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "data: %s\n\n", b); err != nil {
				return
			}
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case <-wake:
		case <-r.Context().Done():
			return
		}
	}
}
