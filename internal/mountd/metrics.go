package mountd

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/control"
)

// metric describes one family.
type metric struct {
	name, help string
	labels     []string
	kind       prometheus.ValueType // 0 is a histogram
	// of returns the values, each with its labels.
	of func(*account.Snapshot, func(value float64, labels ...string))
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// eachView tells a value of each view.
func eachView(f func(*account.Seen) float64) func(*account.Snapshot, func(float64, ...string)) {
	return func(s *account.Snapshot, tell func(float64, ...string)) {
		for i := range s.Views {
			tell(f(&s.Views[i]), s.Views[i].View)
		}
	}
}

// ofMount tells a single value.
func ofMount(f func(*account.Snapshot) float64) func(*account.Snapshot, func(float64, ...string)) {
	return func(s *account.Snapshot, tell func(float64, ...string)) { tell(f(s)) }
}

// families are all metrics of the accounting.
var families = []metric{
	{"pipefs_requests_total", "Requests of the kernel. What it has cached it does not ask for.", []string{"view", "op"}, counter,
		func(s *account.Snapshot, tell func(float64, ...string)) {
			for _, v := range s.Views {
				tell(float64(v.Lookups), v.View, "lookup")
				tell(float64(v.Opens), v.View, "open")
				tell(float64(v.Reads), v.View, "read")
			}
		}},
	{"pipefs_errors_total", "Requests that failed.", []string{"view"}, counter, eachView(func(v *account.Seen) float64 { return float64(v.Errors) })},
	{"pipefs_files_begun_total", "Files read from their first byte on.", []string{"view"}, counter, eachView(func(v *account.Seen) float64 { return float64(v.Begun) })},
	{"pipefs_read_bytes_total", "Bytes given to readers.", []string{"view"}, counter, eachView(func(v *account.Seen) float64 { return float64(v.Bytes) })},
	{"pipefs_wait_seconds_total", "Time of requests, by what they waited for: source, worker, compute, memory, copy.", []string{"view", "part"}, counter,
		func(s *account.Snapshot, tell func(float64, ...string)) {
			for _, v := range s.Views {
				tell(seconds(v.Source), v.View, "source")
				tell(seconds(v.Worker), v.View, "worker")
				tell(seconds(v.Compute), v.View, "compute")
				tell(seconds(v.Memory), v.View, "memory")
				tell(seconds(v.Copy), v.View, "copy")
			}
		}},
	{"pipefs_request_duration_seconds", "Durations of opens and reads.", []string{"view"}, 0, nil},
	{"pipefs_samples_made_total", "Samples computed, for readers and ahead of them.", []string{"view"}, counter, eachView(func(v *account.Seen) float64 { return float64(v.Making.Samples) })},
	{"pipefs_samples_fetched_bytes_total", "Bytes read from the source to compute samples.", []string{"view"}, counter, eachView(func(v *account.Seen) float64 { return float64(v.Making.Fetched) })},
	{"pipefs_samples_seconds_total", "Time spent on computing samples: source is reading, compute is the steps.", []string{"view", "part"}, counter,
		func(s *account.Snapshot, tell func(float64, ...string)) {
			for _, v := range s.Views {
				tell(seconds(v.Making.Source), v.View, "source")
				tell(seconds(v.Making.Compute), v.View, "compute")
			}
		}},
	{"pipefs_reader_seconds_total", "Time of reading threads: waited for the mount, computed, queued for a core, slept, or unknown.", []string{"state"}, counter,
		func(s *account.Snapshot, tell func(float64, ...string)) {
			tell(seconds(s.Reading.Waited), "waited")
			tell(seconds(s.Reading.Computed), "computed")
			tell(seconds(s.Reading.Queued), "queued")
			tell(seconds(s.Reading.Slept), "slept")
			tell(seconds(s.Reading.Unknown), "unknown")
		}},
	{"pipefs_readers", "Processes that have read and have not ended.", nil, gauge, ofMount(func(s *account.Snapshot) float64 { return float64(len(s.Readers)) })},
	{"pipefs_training_seconds_total", "Time of trainings as pipefs.timed measured it: waited for the loader, or worked.", []string{"state"}, counter,
		func(s *account.Snapshot, tell func(float64, ...string)) {
			tell(seconds(s.Timed.Waited), "waited")
			tell(seconds(s.Timed.Worked), "worked")
		}},
	{"pipefs_training_steps_total", "Batches that pipefs.timed counted.", nil, counter, ofMount(func(s *account.Snapshot) float64 { return float64(s.Timed.Steps) })},
	{"pipefs_ahead_samples_total", "Samples and batches made ahead of readers: made, used, or wasted.", []string{"result"}, counter,
		func(s *account.Snapshot, tell func(float64, ...string)) {
			tell(float64(s.Made.Made), "made")
			tell(float64(s.Made.Used), "used")
			tell(float64(s.Made.Wasted), "wasted")
		}},
	{"pipefs_disk_read_bytes_total", "Bytes that the daemon read from disks, not from the page cache.", nil, counter, ofMount(func(s *account.Snapshot) float64 { return float64(s.Machine.Disk) })},
	{"pipefs_network_received_bytes_total", "Bytes that came from a bucket.", nil, counter, ofMount(func(s *account.Snapshot) float64 { return float64(s.Machine.Network) })},
	{"pipefs_workers", "Samples that the mount computes at once.", nil, gauge, ofMount(func(s *account.Snapshot) float64 { return float64(s.Machine.Workers) })},
	{"pipefs_cores", "Processors that the mount may use.", nil, gauge, ofMount(func(s *account.Snapshot) float64 { return float64(s.Machine.Cores) })},
}

// counterMetrics are metrics of counters of `pipefs stats`.
var counterMetrics = []struct {
	metric
	group, counter string
}{
	{metric{name: "pipefs_memory_bytes", help: "Memory of the cache of samples.", kind: gauge}, "serve", "memory"},
	{metric{name: "pipefs_samples_failed_total", help: "Samples that could not be made.", kind: counter}, "serve", "could not be made"},
	{metric{name: "pipefs_stored_bytes", help: "Prepared data that the mount keeps on disk.", kind: gauge}, "background", "kept on disk"},
	{metric{name: "pipefs_panics_total", help: "Bugs: requests that ended in a panic.", kind: counter}, "bugs", "panics"},
	{metric{name: "pipefs_blocks_fetched_bytes_total", help: "Bytes fetched from a bucket into the disk cache.", kind: counter}, "disk cache", "fetched"},
	{metric{name: "pipefs_blocks_read_bytes_total", help: "Bytes read from the disk cache.", kind: counter}, "disk cache", "read from it"},
}

// histogramBounds of durations in ns: powers of four, which are bounds of the accounting's buckets, too.
var histogramBounds = func() (b []int64) {
	for n := 14; n <= 36; n += 2 {
		b = append(b, 1<<n)
	}
	return b
}()

// collector reads the counters of a mount when it is asked.
type collector struct{ stats func() control.Stats }

// Describe implements [prometheus.Collector]: which views there are is not known before.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c collector) Collect(out chan<- prometheus.Metric) {
	stats := c.stats()
	out <- prometheus.MustNewConstMetric(prometheus.NewDesc("pipefs_info", "The version of the daemon, and where it mounts.", []string{"version", "mount"}, nil), gauge, 1, stats.Version, stats.Mount)
	s := stats.Account
	if s == nil {
		s = &account.Snapshot{}
	}
	for _, m := range families {
		desc := prometheus.NewDesc(m.name, m.help, m.labels, nil)
		if m.kind == 0 {
			for i := range s.Views {
				out <- histogram(desc, &s.Views[i])
			}
			continue
		}
		m.of(s, func(value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(desc, m.kind, value, labels...)
		})
	}
	for _, k := range counterMetrics {
		for i := range stats.Counters {
			if n := &stats.Counters[i]; n.Group == k.group && n.Name == k.counter {
				out <- prometheus.MustNewConstMetric(prometheus.NewDesc(k.name, k.help, nil, nil), k.kind, float64(n.Value))
			}
		}
	}
}

func histogram(desc *prometheus.Desc, v *account.Seen) prometheus.Metric {
	counts := map[float64]uint64{}
	total := uint64(0)
	for _, bound := range histogramBounds {
		counts[seconds(bound)] = 0
	}
	for _, b := range v.Latency {
		total += uint64(b.Count)
		for _, bound := range histogramBounds {
			if b.UpTo < bound {
				counts[seconds(bound)] += uint64(b.Count)
			}
		}
	}
	return prometheus.MustNewConstHistogram(desc, total, seconds(v.Took), counts, v.View)
}

// metricsRegistry has all metrics of a mount, of the Go runtime, and of the process.
func metricsRegistry(stats func() control.Stats) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{stats}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

const unixPrefix = "unix:"

// metricsServer answers scrapes.
type metricsServer struct {
	http *http.Server
	done chan struct{}
}

// CheckMetrics refuses what is no address to listen at.
func CheckMetrics(at string) error {
	if path, is := strings.CutPrefix(at, unixPrefix); is {
		if !strings.HasPrefix(path, "/") {
			return fmt.Errorf("%q has no absolute path behind unix", at)
		}
		return nil
	}
	if _, _, err := net.SplitHostPort(at); err != nil {
		return fmt.Errorf("%q is no address: write HOST:PORT, such as 127.0.0.1:9464, or unix:/PATH", at)
	}
	return nil
}

// serveMetrics answers at HOST:PORT, or at a socket unix:PATH that only this user and root may connect to.
func serveMetrics(at string, stats func() control.Stats, log *slog.Logger) (*metricsServer, error) {
	l, err := listenMetrics(at)
	if err != nil {
		return nil, fmt.Errorf("--metrics %s: %w", at, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metricsRegistry(stats), promhttp.HandlerOpts{EnableOpenMetrics: true, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}))
	s := &metricsServer{http: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: time.Minute}, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("metrics", "at", at, "cause", err)
		}
	}()
	return s, nil
}

func listenMetrics(at string) (net.Listener, error) {
	path, is := strings.CutPrefix(at, unixPrefix)
	if !is {
		return net.Listen("tcp", at)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket == 0 {
		return nil, errors.New("there is a file that is no socket")
	}
	// The control socket's listener does the same: it takes a socket over that another daemon left.
	_ = os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(path, 0o600)
}

// Close stops answering.
func (s *metricsServer) Close() error {
	err := s.http.Close()
	<-s.done
	return err
}
