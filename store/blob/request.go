package blob

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
)

// verdict is what an error of a request means for the next.
type verdict int

const (
	done       verdict = iota
	final              // asking again would give the same
	again              // something broke on the way
	overloaded         // the server has too much to do, or does not answer
	expired            // the credentials have run out, or were replaced
)

const (
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = 5 * time.Second
	// longestAsked bounds a pause that a server asks for.
	longestAsked = 30 * time.Second
	// firstPatience is how long a server may take for its first answer.
	firstPatience = 15 * time.Second
	// slowest is the rate that a request must keep beyond Options.Timeout.
	slowest = 128 << 10 // bytes/s
)

// errTruncated: the body of an answer is shorter than it said.
var errTruncated = errors.New("the answer was cut short")

// client sends requests to a server, and repeats what fails on the way. A Bucket is one, and a Hub.
type client struct {
	where    string // the place, as messages name it; what follows is the name of an object
	endpoint string
	timeout  time.Duration
	patience time.Duration
	longest  time.Duration // bounds a pause that the server asks for
	until    context.Context
	log      *slog.Logger

	renew   func()                         // lets go of what has expired
	problem func(r request, e error) error // makes the final error of a request
	plain   func(error) error              // takes out of an error what is no matter of a message

	limit  *limiter
	budget *budget
	said   *seldom

	answered *atomic.Bool // by the server, once
}

func newClient(o Options) client {
	c := client{timeout: o.Timeout, patience: o.Patience, longest: longestAsked, until: o.Until, log: o.Log,
		renew: func() {}, limit: newLimiter(), budget: newBudget(), said: &seldom{}, answered: new(atomic.Bool)}
	if c.timeout == 0 {
		c.timeout = 15 * time.Second
	}
	if c.patience == 0 {
		c.patience = 2 * time.Minute
	}
	if c.until == nil {
		c.until = context.Background()
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c
}

// url names an object for messages.
func (c *client) url(name string) string { return c.where + name }

// Endpoint is the URL of the server.
func (c *client) Endpoint() string { return c.endpoint }

// request is what is asked of the server.
type request struct {
	op   string // get, put, … for messages
	name string // of the object, or the prefix of a list
	size int64  // of the body, in bytes
}

// do sends a request until the server answers, or it gives up. An attempt that f makes ends with
// the context that it is given.
func (c *client) do(ctx context.Context, r request, attempt func(context.Context) error) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(c.until, end)()
	if err := c.limit.acquire(ctx); err != nil {
		return err
	}
	patience, cancel := context.WithTimeout(ctx, c.patienceNow())
	defer cancel()
	renewed, extended := false, false
	var before error // of the try before
	for tries := 1; ; tries++ {
		began := time.Now()
		one, cancel := context.WithTimeout(patience, c.timeout+time.Duration(r.size)*time.Second/slowest)
		var asked retryAfter
		err := attempt(context.WithValue(one, retryAfterKey{}, &asked))
		timedOut := one.Err() != nil
		cancel()
		v := done
		switch {
		case err != nil && timedOut && ctx.Err() == nil:
			v = overloaded
		case err != nil:
			v = judge(err)
		}
		c.limit.release(v, began)
		if v == done || v == final {
			c.answered.Store(true)
		}
		switch {
		case v == done:
			c.budget.earn()
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%s %s: %w", r.op, c.url(r.name), ctx.Err())
		case v == final || v == expired && renewed:
			return c.problem(r, err)
		case v == expired:
			c.renew()
			renewed = true
		}
		pause := min(asked.pause(), c.longest)
		if pause > 0 && c.longest > longestAsked && !extended { // a server that says when to come back is there
			longer, cancel := context.WithTimeout(ctx, c.patience+2*c.longest)
			defer cancel()
			patience, extended = longer, true
		}
		if !c.pause(patience, tries, pause) || c.limit.acquire(patience) != nil {
			if before != nil && patience.Err() != nil && timedOut {
				err = before // the time was up in mid-request, which says nothing
			}
			return c.giveUp(ctx, r, tries, err)
		}
		before = err
	}
}

// patienceNow is short until the server has answered for the first time: until then, its address is
// probably wrong.
func (c *client) patienceNow() time.Duration {
	if !c.answered.Load() {
		return min(c.patience, firstPatience)
	}
	return c.patience
}

// pause waits before a request is repeated: as long as the server asked for, if that is longer than
// it would be. It returns false if there is no time left.
func (c *client) pause(ctx context.Context, tries int, asked time.Duration) bool {
	backoff := min(lastBackoff, firstBackoff<<min(tries-1, 10))
	wait := max(c.budget.take(), time.Duration(rand.Int64N(int64(backoff))))
	if end, ok := ctx.Deadline(); ok {
		left := time.Until(end)
		if left < wait {
			return false
		}
		asked = min(asked, left/2) // so that it is asked once more
	}
	if asked > wait { // the requests that were refused together do not come back together
		wait = asked + time.Duration(rand.Int64N(int64(asked)/4+1))
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}

// retryAfter is how long a server asked to wait before the request is repeated, in ns; requests of one
// attempt may be several.
type retryAfter struct{ atomic.Int64 }

type retryAfterKey struct{}

func (r *retryAfter) pause() time.Duration { return time.Duration(r.Load()) }

// heeding takes note of what answers ask for.
type heeding struct{ *http.Transport }

// RoundTrip implements [http.RoundTripper].
func (h heeding) RoundTrip(q *http.Request) (*http.Response, error) {
	answer, err := h.Transport.RoundTrip(q)
	if err != nil || answer.StatusCode != http.StatusServiceUnavailable && answer.StatusCode != http.StatusTooManyRequests {
		return answer, err
	}
	if r, ok := q.Context().Value(retryAfterKey{}).(*retryAfter); ok {
		r.Store(int64(parseRetryAfter(answer.Header.Get("Retry-After"), time.Now())))
	}
	return answer, err
}

// parseRetryAfter reads seconds, or a time; 0 is that it says nothing.
func parseRetryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(text, 10, 16); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// giveUp makes the final error of a request that had no answer, and logs it.
func (c *client) giveUp(ctx context.Context, r request, tries int, last error) error {
	last = c.plain(last)
	if ctx.Err() != nil {
		return fmt.Errorf("%s %s: %w; before that: %w", r.op, c.url(r.name), ctx.Err(), last)
	}
	if unsaid, say := c.said.now(); say {
		c.log.Error("gave up a request to object storage", "op", r.op, "url", c.url(r.name), "endpoint", c.endpoint,
			"tries", tries, "patience", c.patience, "unlogged", unsaid, "err", last)
	}
	return fmt.Errorf("%s %s: %w within %v at %s (%d tries): %w", r.op, c.url(r.name), ErrUnavailable, c.patienceNow(), c.endpoint, tries, last)
}

// seldom lets one line a second through, and counts the others.
type seldom struct {
	mu     sync.Mutex
	last   time.Time
	unsaid int
}

func (s *seldom) now() (unsaid int, say bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.last) < time.Second {
		s.unsaid++
		return 0, false
	}
	unsaid, s.unsaid, s.last = s.unsaid, 0, time.Now()
	return unsaid, true
}

// judge tells errors that go away from those that stay.
func judge(err error) verdict {
	var answer minio.ErrorResponse
	var netErr net.Error
	switch {
	case errors.As(err, &answer):
		return judgeAnswer(answer)
	case errors.Is(err, errRenewal) || errors.Is(err, errTruncated) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return again
	case errors.Is(err, errLink):
		return expired
	case isFinalDial(err):
		return final
	case errors.As(err, &netErr) && netErr.Timeout():
		return overloaded
	case errors.As(err, &netErr):
		return again
	}
	return final
}

func judgeAnswer(a minio.ErrorResponse) verdict {
	switch {
	case slices.Contains([]string{"SlowDown", "SlowDownRead", "SlowDownWrite", "Throttling", "ThrottlingException",
		"RequestLimitExceeded", "RequestThrottled", "TooManyRequests"}, a.Code):
		return overloaded
	case slices.Contains([]string{"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken",
		minio.InvalidAccessKeyID, noUser}, a.Code),
		a.StatusCode == http.StatusBadRequest && strings.HasPrefix(a.Code, "400"): // the answer to HEAD has no code
		return expired
	case slices.Contains([]string{"RequestTimeout", "InternalError", "OperationAborted", "ConditionalRequestConflict", "IncompleteBody"}, a.Code):
		return again
	}
	switch a.StatusCode {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusGatewayTimeout:
		return overloaded
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusRequestTimeout, 499, 520:
		return again
	}
	return final
}

// isFinalDial reports whether a connection cannot be made, however often one tries.
func isFinalDial(err error) bool {
	var (
		dns       *net.DNSError
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		header    tls.RecordHeaderError
		parse     *url.Error
	)
	switch {
	case errors.As(err, &dns) && dns.IsNotFound,
		errors.As(err, &authority), errors.As(err, &hostname), errors.As(err, &invalid), errors.As(err, &verify), errors.As(err, &header),
		errors.Is(err, http.ErrSchemeMismatch):
		return true
	}
	return errors.As(err, &parse) && parse.Op == "parse"
}
