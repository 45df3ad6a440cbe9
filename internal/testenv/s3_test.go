package testenv

import (
	"io"
	"net/http"
	"testing"
	"time"
)

// get is a request that nobody signed: the answer is an error, of some hundred bytes.
func get(endpoint string) (status int, body []byte, err error) {
	answer, err := http.Get(endpoint + "/")
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(answer.Body)
	return answer.StatusCode, body, err
}

func TestS3StopsAndStarts(t *testing.T) {
	s := S3(t)
	s.Stop()
	if _, _, err := get(s.Endpoint); err == nil {
		t.Error("a server that was stopped answers")
	}
	s.Start(t)
	if status, _, err := get(s.Endpoint); status != http.StatusForbidden {
		t.Errorf("started again, it answers %d, %v", status, err)
	}
}

func TestDistance(t *testing.T) {
	s := S3(t)
	p := Distance(t, s.Endpoint, Way{Latency: 30 * time.Millisecond})
	began := time.Now()
	status, body, err := get(p.Endpoint)
	if took := time.Since(began); status != http.StatusForbidden || err != nil || took < 30*time.Millisecond {
		t.Errorf("%d, %v after %v", status, err, took)
	}
	if p.Requests.Load() != 1 || p.Bytes.Load() != int64(len(body)) || len(body) == 0 {
		t.Errorf("%d requests, %d bytes of %d", p.Requests.Load(), p.Bytes.Load(), len(body))
	}
	for _, c := range []struct {
		fault  Fault
		status int
		broken bool
	}{
		{Refused, http.StatusServiceUnavailable, false},
		{Reset, 0, true},
		{AnswerLost, 0, true},
		{Truncated, http.StatusForbidden, true},
		{Passed, http.StatusForbidden, false},
	} {
		p.Set(Way{Fault: func(*http.Request) Fault { return c.fault }})
		if status, _, err := get(p.Endpoint); status != c.status || (err != nil) != c.broken {
			t.Errorf("fault %d: %d, %v", c.fault, status, err)
		}
	}
	p.Set(Way{Bandwidth: int64(10 * len(body))})
	began = time.Now()
	if _, _, err := get(p.Endpoint); err != nil || time.Since(began) < 100*time.Millisecond-burst {
		t.Errorf("a tenth of a second's bytes took %v, %v", time.Since(began), err)
	}
}
