package testenv

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Fault is what happens to a request on its way.
type Fault int

// What can happen.
const (
	Passed     Fault = iota
	Refused          // 503 SlowDown; the server sees nothing
	Reset            // the connection breaks; the server sees nothing
	AnswerLost       // the server does what was asked, and the connection breaks
	Truncated        // the connection breaks in the middle of the answer's body
	Hung             // no answer until the client gives up; the server sees nothing
)

// Way is what lies between a client and a server.
type Way struct {
	Latency   time.Duration // from a request to its answer
	Bandwidth int64         // bytes/s of the bodies of all requests together, in each direction; 0 is no limit
	// Refused, Reset, AnswerLost and Truncated are the shares of requests with these faults: at
	// most 1 together.
	Refused, Reset, AnswerLost, Truncated float64
	// Fault decides instead of the shares.
	Fault func(*http.Request) Fault
	// Header changes what answers say; nil changes nothing.
	Header func(http.Header)
}

// Draw decides of a request by the shares.
func (w *Way) Draw() Fault {
	x := rand.Float64()
	for i, share := range []float64{w.Refused, w.Reset, w.AnswerLost, w.Truncated} {
		if x < share {
			return Refused + Fault(i)
		}
		x -= share
	}
	return Passed
}

// Proxy passes requests on to a server that seems to be far away.
type Proxy struct {
	Endpoint string // http://127.0.0.1:PORT
	// Requests, and the bytes of the bodies of their answers.
	Requests, Bytes atomic.Int64

	target   string // host and port
	way      atomic.Pointer[Way]
	up, down pace
	client   http.Transport
	server   http.Server
}

// Distance puts a proxy before the server at an endpoint, until the test ends.
func Distance(t testing.TB, endpoint string, w Way) *Proxy {
	t.Helper()
	p, err := NewProxy(endpoint, w)
	Must(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// NewProxy is Distance for programs that are no tests.
func NewProxy(endpoint string, w Way) (*Proxy, error) {
	p := &Proxy{target: strings.TrimPrefix(endpoint, "http://")}
	p.client.DisableCompression = true
	p.client.MaxIdleConnsPerHost = 1000
	p.Set(w)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p.Endpoint = "http://" + listener.Addr().String()
	p.server.Handler = p
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

// Set changes the way for the requests that follow.
func (p *Proxy) Set(w Way) { p.way.Store(&w) }

// Close ends the proxy.
func (p *Proxy) Close() error {
	p.client.CloseIdleConnections()
	return p.server.Close()
}

// ServeHTTP passes one request on.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	p.Requests.Add(1)
	way := p.way.Load()
	var fault Fault
	if way.Fault != nil {
		fault = way.Fault(q)
	} else {
		fault = way.Draw()
	}
	if fault == Refused || fault == Reset || fault == Hung {
		_, _ = io.Copy(io.Discard, q.Body)
	}
	select {
	case <-time.After(way.Latency):
	case <-q.Context().Done():
	}
	switch fault {
	case Refused:
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprint(w, "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
		return
	case Hung:
		<-q.Context().Done()
		return
	case Reset:
		breakOff()
	}
	q.URL.Scheme, q.URL.Host, q.RequestURI = "http", p.target, ""
	if q.ContentLength == 0 {
		q.Body = http.NoBody
	} else {
		q.Body = io.NopCloser(p.up.limit(q.Body, way.Bandwidth))
	}
	answer, err := p.client.RoundTrip(q) // with the Host of the request, which is signed
	if err != nil {
		breakOff()
	}
	defer answer.Body.Close()
	if fault == AnswerLost {
		breakOff()
	}
	if way.Header != nil {
		way.Header(answer.Header)
	}
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	body := p.down.limit(answer.Body, way.Bandwidth)
	if fault == Truncated && answer.ContentLength > 0 && q.Method != http.MethodHead {
		body = io.LimitReader(body, answer.ContentLength/2)
	}
	n, err := io.Copy(w, body)
	p.Bytes.Add(n)
	if err != nil || n < answer.ContentLength && q.Method != http.MethodHead {
		_ = http.NewResponseController(w).Flush()
		breakOff()
	}
}

// breakOff ends the connection. It does not return.
func breakOff() { panic(http.ErrAbortHandler) }

// burst is how much of the bandwidth that nobody used may be used later.
const burst = 20 * time.Millisecond

// pace limits the bytes that pass in a second.
type pace struct {
	mu   sync.Mutex
	next time.Time // when the way is free
}

func (p *pace) limit(r io.Reader, bandwidth int64) io.Reader {
	if bandwidth <= 0 || r == nil {
		return r
	}
	return &paced{r, p, bandwidth}
}

type paced struct {
	r         io.Reader
	pace      *pace
	bandwidth int64
}

func (p *paced) Read(b []byte) (int, error) {
	// Small pieces, so that requests share the way as packets do.
	n, err := p.r.Read(b[:min(len(b), 16<<10)])
	p.pace.mu.Lock()
	// Who slept too long may catch up.
	if idle := time.Now().Add(-burst); p.pace.next.Before(idle) {
		p.pace.next = idle
	}
	p.pace.next = p.pace.next.Add(time.Duration(float64(n) / float64(p.bandwidth) * float64(time.Second)))
	until := p.pace.next
	p.pace.mu.Unlock()
	time.Sleep(time.Until(until))
	return n, err
}
