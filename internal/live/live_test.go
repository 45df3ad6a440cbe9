package live

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/testenv"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// stats are those of a mount of which 10 files a second are read.
func stats(n int64) *control.Stats {
	return &control.Stats{
		Mount: "/mnt", Verdict: &account.Verdict{Text: "readers wait for <decoding>", Advice: []string{"pipefs pack"}},
		Counters: []control.Counter{{Group: "bad samples", Name: "a<b.jpg", Unit: control.Text, Text: "truncated"}},
		Account: &account.Snapshot{
			At: time.Unix(1_000_000+n, 0), Reading: account.Reading{Waited: 4 * n, Computed: n, Slept: 5 * n},
			Views:   []account.Seen{{View: "bmp", Reads: 10 * n, Begun: 10 * n, Bytes: 20e6 * n, Making: account.Making{Samples: 4 * n}, Parts: account.Parts{Source: n, Compute: 3 * n}}},
			Readers: []account.Reader{{PID: 4711, Command: "python3", Requests: 10 * n, Reading: account.Reading{Waited: n, Slept: 3 * n}}},
		},
	}
}

func start(t *testing.T, ask func(context.Context, bool) (*control.Stats, error)) *Server {
	t.Helper()
	s, err := Start("/mnt", ask)
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, s.Close()) })
	return s
}

func counting() func(context.Context, bool) (*control.Stats, error) {
	n := int64(0)
	return func(context.Context, bool) (*control.Stats, error) { n++; return stats(n), nil }
}

// get returns the answer to a request without following the stream.
func get(t *testing.T, url, host string) (int, http.Header) {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, url, nil)
	testenv.Must(t, err)
	request.Host = host
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	testenv.Must(t, err)
	answer.Body.Close()
	return answer.StatusCode, answer.Header
}

func TestNobodyElse(t *testing.T) {
	s := start(t, counting())
	root := strings.TrimSuffix(s.URL, s.token+"/")
	if code, h := get(t, s.URL, ""); code != 200 || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("the page: %d, %v", code, h)
	}
	for _, c := range []struct{ url, host string }{
		{root, ""}, {root + "events", ""}, {root + "wrong/events", ""}, {root + s.token[:len(s.token)-1] + "/", ""}, {s.URL + "other", ""},
		{s.URL, "evil.example"}, // DNS rebinding
	} {
		if code, _ := get(t, c.url, c.host); code != 404 {
			t.Errorf("%+v: %d", c, code)
		}
	}
	if !strings.HasPrefix(root, "http://127.0.0.1:") {
		t.Errorf("it listens at %s", root)
	}
	another := start(t, counting())
	if another.token == s.token || len(s.token) < 26 {
		t.Errorf("tokens %s, %s", s.token, another.token)
	}
}

// first is the first point of a page.
func first(t *testing.T, s *Server) (got Point) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(s.URL + "events")
	testenv.Must(t, err)
	defer answer.Body.Close()
	line, err := bufio.NewReader(answer.Body).ReadString('\n')
	testenv.Must(t, err)
	testenv.Must(t, json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &got))
	return got
}

// The daemon that goes on after another one has read more by now: the difference says nothing.
func TestAnotherDaemon(t *testing.T) {
	counts := []int64{3, 10, 11}
	s := start(t, func(context.Context, bool) (*control.Stats, error) {
		n := counts[0]
		counts = append(counts[1:], n+1)
		next := stats(n)
		next.PID = min(int(n), 10)
		return next, nil
	})
	if got := first(t, s); got.Files != 10 || got.At != time.Unix(1_000_011, 0).UnixMilli() {
		t.Errorf("%+v", got)
	}
}

func TestEvents(t *testing.T) {
	got := first(t, start(t, counting()))
	if got.Files != 10 || got.Bytes != 20e6 || got.Disk != 0.1 || got.Training != 0.6 || got.Processor < 0.2999 || got.Processor > 0.3001 {
		t.Errorf("rates and shares: %+v", got)
	}
	if v := got.Views[0]; v.Files != 20 || v.Hits != 0.6 || v.HitsNow != 0.6 || got.Readers[0] != (Reader{4711, "python3", 10, 0.25}) || got.Errors[0].Path != "a<b.jpg" {
		t.Errorf("tables: %+v", got)
	}
}

// The page begins with what was before it, and then tells epochs apart.
func TestHistory(t *testing.T) {
	s := &Server{wake: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	n := int64(0)
	s.watch(ctx, func(_ context.Context, history bool) (*control.Stats, error) {
		if n++; n == 4 {
			cancel()
		}
		next := stats(n)
		next.Account.Cache = account.Cache{Hits: n * n, Misses: 4 * n, Epoch: 1 + int(n/3)}
		if history {
			next.History = []account.Second{{At: 1, Files: 7}, {At: 2, Files: 8}}
		}
		return next, nil
	})
	if len(s.past) != 4 || s.past[1].Files != 8 || s.past[1].Parts != nil || s.past[2].Files != 10 {
		t.Fatalf("%+v", s.past)
	}
	if e := s.past[3].Epochs; len(e) != 2 || e[0].Epoch != 1 || e[0].Hits != 3./7 || e[1].Hits != 5./9 {
		t.Errorf("%+v", e)
	}
}

// A daemon that does not answer is told, and one that does not account for its time.
func TestFailed(t *testing.T) {
	for want, ask := range map[string]func(context.Context, bool) (*control.Stats, error){
		"gone":            func(context.Context, bool) (*control.Stats, error) { return nil, errors.New("gone") },
		"another version": func(context.Context, bool) (*control.Stats, error) { return &control.Stats{}, nil },
	} {
		if got := first(t, start(t, ask)); !strings.Contains(got.Failed, want) {
			t.Errorf("%s: %+v", want, got)
		}
	}
}

// A real browser shows the figures.
func TestBrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("NO BROWSER: the page of pipefs live is not looked at; install chromium")
	}
	s := start(t, counting())
	var out []byte
	testenv.Eventually(t, func() error { // a browser may write the page before it has got figures
		out, err = exec.Command(browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(), "--timeout=4000", "--dump-dom", s.URL).Output()
		if err == nil && !strings.Contains(string(out), "decoding") {
			err = errors.New("no figures")
		}
		return err
	})
	for _, want := range []string{
		`<h1 id="verdict" aria-live="polite">readers wait for &lt;decoding&gt;</h1>`, "<li>pipefs pack</li>",
		`<td id="disk">10 %</td><td id="processor">30 %</td><td id="training">60 %</td>`, `<td id="files">10</td><td id="bytes">20</td>`,
		`aria-label="source 25 %, compute 75 %"`, `<th scope="row">bmp</th>`, "<td>60 %</td><td>60 %</td>", `<th scope="row">4711</th><td>python3</td><td>10</td><td>25 %</td>`,
		`<th scope="row">a&lt;b.jpg</th><td>truncated</td>`,
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s is missing", want)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}
