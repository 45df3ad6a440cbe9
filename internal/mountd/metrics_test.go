package mountd

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/testenv"
)

// counted is a mount that was read from.
func counted() control.Stats {
	return control.Stats{
		Version: "v1", Mount: "/mnt", Counters: []control.Counter{{Group: "serve", Name: "memory", Value: 5}, {Group: "bugs", Name: "panics"}},
		Account: &account.Snapshot{
			Machine: account.Machine{Cores: 4, Workers: 3}, Readers: make([]account.Reader, 2), Timed: account.Timed{Steps: 9},
			Views: []account.Seen{{
				View: "bmp", Reads: 3, Bytes: 300, Errors: 1, Parts: account.Parts{Compute: 2_500_000_000},
				Took: 47_920, Latency: []account.Bucket{{UpTo: 1<<14 - 1, Count: 2}, {UpTo: 5<<12 - 1, Count: 1}},
			}},
		},
	}
}

func TestLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(metricsRegistry(counted))
	testenv.Must(t, err)
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "pipefs_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestValues(t *testing.T) {
	want := `# HELP pipefs_request_duration_seconds Durations of opens and reads.
# TYPE pipefs_request_duration_seconds histogram
`
	for _, b := range histogramBounds {
		n := 3
		if b == 1<<14 {
			n = 2
		}
		want += fmt.Sprintf("pipefs_request_duration_seconds_bucket{view=\"bmp\",le=\"%v\"} %d\n", seconds(b), n)
	}
	want += `pipefs_request_duration_seconds_bucket{view="bmp",le="+Inf"} 3
pipefs_request_duration_seconds_sum{view="bmp"} 4.792e-05
pipefs_request_duration_seconds_count{view="bmp"} 3
# HELP pipefs_memory_bytes Memory of the cache of samples.
# TYPE pipefs_memory_bytes gauge
pipefs_memory_bytes 5
# HELP pipefs_read_bytes_total Bytes given to readers.
# TYPE pipefs_read_bytes_total counter
pipefs_read_bytes_total{view="bmp"} 300
# HELP pipefs_readers Processes that have read and have not ended.
# TYPE pipefs_readers gauge
pipefs_readers 2
`
	if err := testutil.GatherAndCompare(metricsRegistry(counted), strings.NewReader(want),
		"pipefs_request_duration_seconds", "pipefs_memory_bytes", "pipefs_read_bytes_total", "pipefs_readers"); err != nil {
		t.Error(err)
	}
}

// A scrape through a socket gets OpenMetrics, and other users get nothing.
func TestServe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m")
	for range 2 { // a daemon that was killed leaves its socket
		s, err := serveMetrics("unix:"+path, counted, slog.New(slog.DiscardHandler))
		testenv.Must(t, err)
		defer s.Close()
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}, DisableKeepAlives: true}}
	request, err := http.NewRequest(http.MethodGet, "http://x/metrics", nil)
	testenv.Must(t, err)
	request.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	answer, err := client.Do(request)
	testenv.Must(t, err)
	body, err := io.ReadAll(answer.Body)
	testenv.Must(t, err)
	for _, want := range []string{`pipefs_wait_seconds_total{part="compute",view="bmp"} 2.5`, "pipefs_training_steps_total 9", "go_goroutines", "process_resident_memory_bytes", "# EOF"} {
		if !strings.Contains(string(body), want) {
			t.Errorf("%q is missing in\n%s", want, body)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info.Mode(), err)
	}
	file := filepath.Join(t.TempDir(), "file")
	testenv.Must(t, os.WriteFile(file, nil, 0o600))
	if _, err := serveMetrics("unix:"+file, counted, slog.Default()); err == nil {
		t.Error("a file was replaced by a socket")
	}
	for _, bad := range []string{"9464", "unix:relative", "unix:"} {
		if CheckMetrics(bad) == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

var update = flag.Bool("update-metrics", false, "write docs/generated/metrics.md")

// described are the names of all metrics, and the table of them.
func described() (names []string, table string) {
	var b strings.Builder
	b.WriteString("# Metrics\n\n`pipefs mount --metrics ADDR` shows these metrics, and those of the Go runtime and of the process. `go test ./internal/mountd -args -update-metrics` writes\nthe table.\n\n| metric | labels | meaning |\n|---|---|---|\n")
	all := append([]metric{{name: "pipefs_info", help: "The version of the daemon, and where it mounts.", labels: []string{"version", "mount"}}}, families...)
	for _, k := range counterMetrics {
		all = append(all, k.metric)
	}
	for _, m := range all {
		names = append(names, m.name)
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.name, strings.Join(m.labels, ", "), m.help)
	}
	return names, b.String()
}

func TestTable(t *testing.T) {
	const file = "../../docs/generated/metrics.md"
	_, want := described()
	if *update {
		testenv.Must(t, os.WriteFile(file, []byte(want), 0o644))
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is out of date (%v): go test ./internal/mountd -args -update-metrics", file, err)
	}
}

// The dashboard asks for metrics that there are.
func TestDashboard(t *testing.T) {
	b, err := os.ReadFile("../../packaging/grafana.json")
	testenv.Must(t, err)
	names, _ := described()
	found := regexp.MustCompile(`pipefs_[a-z_]+`).FindAllString(string(b), -1)
	if len(found) < 10 {
		t.Fatalf("it asks for %v", found)
	}
	for _, n := range found {
		if !slices.Contains(names, strings.TrimSuffix(n, "_bucket")) {
			t.Errorf("%s is not among the metrics", n)
		}
	}
}
