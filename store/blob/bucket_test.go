package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/blob"
)

// login puts the credentials of a server into the environment of the test.
func login(t *testing.T, s *testenv.S3Server) {
	t.Helper()
	nobody(t)
	for _, line := range s.Env() {
		name, value, _ := strings.Cut(line, "=")
		t.Setenv(name, value)
	}
}

// nobody takes all credentials out of the environment of the test.
func nobody(t *testing.T) {
	t.Helper()
	for _, line := range os.Environ() {
		if name, _, _ := strings.Cut(line, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("HOME", t.TempDir())
}

func bucket(t testing.TB, endpoint, where string, o blob.Options) *blob.Bucket {
	t.Helper()
	o.Endpoint = endpoint
	b, err := blob.OpenBucket(t.Context(), where, o)
	testenv.Must(t, err)
	t.Cleanup(b.Close)
	return b
}

func TestBucket(t *testing.T) {
	s := testenv.S3(t)
	login(t, s)
	contract(t, func(t testing.TB) blob.Objects {
		return bucket(t, s.Endpoint, "s3://"+s.Bucket+"/"+t.Name(), blob.Options{})
	})
}

// Whatever happens on the way, a place keeps its contract.
func TestBucketOverABadWay(t *testing.T) {
	s := testenv.S3(t)
	login(t, s)
	p := testenv.Distance(t, s.Endpoint, testenv.Way{Refused: 0.02, Reset: 0.02, AnswerLost: 0.03, Truncated: 0.03})
	contract(t, func(t testing.TB) blob.Objects {
		return bucket(t, p.Endpoint, "s3://"+s.Bucket+"/"+t.Name(), blob.Options{})
	})
}

// onWay is a bucket behind a proxy.
func onWay(t *testing.T, o blob.Options) (*testenv.S3Server, *testenv.Proxy, *blob.Bucket) {
	t.Helper()
	s := testenv.S3(t)
	login(t, s)
	p := testenv.Distance(t, s.Endpoint, testenv.Way{})
	b := bucket(t, p.Endpoint, "s3://"+s.Bucket+"/in", o)
	put(t, b, "first", "") // the server was asked whether it keeps to conditions
	return s, p, b
}

// loseOnce loses the answer to the first request that is meant.
func loseOnce(meant func(*http.Request) bool) func(*http.Request) testenv.Fault {
	var done atomic.Bool
	return func(q *http.Request) testenv.Fault {
		if meant(q) && done.CompareAndSwap(false, true) {
			return testenv.AnswerLost
		}
		return testenv.Passed
	}
}

func isPut(q *http.Request) bool { return q.Method == http.MethodPut }

func isCompletion(q *http.Request) bool {
	return q.Method == http.MethodPost && q.URL.Query().Has("uploadId")
}

func TestBucketAnswerOfPutLost(t *testing.T) {
	_, p, b := onWay(t, blob.Options{})
	p.Set(testenv.Way{Fault: loseOnce(isPut)})
	v := put(t, b, "a", "first")
	if got := read(t, b, "a", v, 0, 5); got != "first" {
		t.Errorf("it holds %q", got)
	}
	p.Set(testenv.Way{Fault: loseOnce(isPut)})
	v, err := b.PutIfMatch(t.Context(), "a", v, []byte("second"))
	testenv.Must(t, err)
	if got := read(t, b, "a", v, 0, 6); got != "second" {
		t.Errorf("it holds %q", got)
	}
	p.Set(testenv.Way{Fault: loseOnce(isPut)})
	_, err = b.PutIfAbsent(t.Context(), "a", strings.NewReader("third"), 5)
	is(t, err, blob.ErrExists)

	big := bytes.Repeat([]byte("0123456789abcdef"), 2<<20)
	p.Set(testenv.Way{Fault: loseOnce(isCompletion)})
	v, err = b.PutIfAbsent(t.Context(), "big", bytes.NewReader(big), int64(len(big)))
	testenv.Must(t, err)
	if got := read(t, b, "big", v, 16, 32); got != string(big[:32]) {
		t.Errorf("it holds %q", got)
	}
}

// Another writer replaces the object before the writer that had no answer can look.
func TestBucketReplacedBehindALostAnswer(t *testing.T) {
	s, p, b := onWay(t, blob.Options{})
	other := bucket(t, s.Endpoint, "s3://"+s.Bucket+"/in", blob.Options{})
	first := put(t, b, "CURRENT", "first")
	p.Set(testenv.Way{Fault: func() func(*http.Request) testenv.Fault {
		lose := loseOnce(isPut)
		return func(q *http.Request) testenv.Fault {
			if q.Method == http.MethodHead {
				if i, err := other.Stat(t.Context(), "CURRENT"); err == nil && i.Size == 4 {
					_, err = other.PutIfMatch(t.Context(), "CURRENT", i.Version, []byte("theirs"))
					testenv.Must(t, err)
				}
			}
			return lose(q)
		}
	}()})
	_, err := b.PutIfMatch(t.Context(), "CURRENT", first, []byte("mine"))
	is(t, err, blob.ErrChanged)
	i, err := b.Stat(t.Context(), "CURRENT")
	testenv.Must(t, err)
	if got := read(t, b, "CURRENT", i.Version, 0, i.Size); got != "theirs" {
		t.Errorf("it holds %q", got)
	}
}

// A server that is killed and comes back makes readers wait. One that stays away makes them fail,
// and the log says so.
func TestBucketServerRestarts(t *testing.T) {
	var log lines
	logger := slog.New(slog.NewTextHandler(&log, nil))
	s, p, b := onWay(t, blob.Options{Log: logger})
	v := put(t, b, "a", "first")
	s.Stop()
	errs, asked := make(chan error), p.Requests.Load()
	for range 4 {
		go func() { errs <- b.ReadAt(t.Context(), "a", v, make([]byte, 5), 0) }()
	}
	testenv.EventuallyIs(t, "requests are repeated", func() bool { return p.Requests.Load() > asked+4 })
	s.Start(t)
	for range 4 {
		testenv.Must(t, <-errs)
	}
	if log.String() != "" {
		t.Errorf("the log: %s", log.String())
	}

	hasty := bucket(t, p.Endpoint, "s3://"+s.Bucket+"/in", blob.Options{Log: logger, Patience: 2 * time.Second})
	_, err := hasty.Stat(t.Context(), "a")
	testenv.Must(t, err)
	s.Stop()
	err = hasty.ReadAt(t.Context(), "a", v, make([]byte, 5), 0)
	is(t, err, blob.ErrUnavailable)
	for _, part := range []string{"s3://test-bucket/in/a", p.Endpoint} {
		if !strings.Contains(err.Error(), part) || !strings.Contains(log.String(), part) || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%s is not in the error, or not in the only line of the log:\n%v\n%s", part, err, log.String())
		}
	}
	s.Start(t)
	testenv.Must(t, hasty.ReadAt(t.Context(), "a", v, make([]byte, 5), 0))
}

// countInFlight counts the requests that have no answer yet, and the most of them.
func countInFlight(now, most *atomic.Int64) func(*http.Request) testenv.Fault {
	return func(q *http.Request) testenv.Fault {
		n := now.Add(1)
		context.AfterFunc(q.Context(), func() { now.Add(-1) })
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		return testenv.Passed
	}
}

// The number of requests in flight follows what the server bears.
func TestBucketParallel(t *testing.T) {
	const bears = 8
	_, p, b := onWay(t, blob.Options{})
	v := put(t, b, "a", "first")
	var inFlight, most atomic.Int64
	count := countInFlight(&inFlight, &most)
	p.Set(testenv.Way{Fault: func(q *http.Request) testenv.Fault {
		if count(q); inFlight.Load() > bears {
			return testenv.Refused
		}
		return testenv.Passed
	}, Latency: 2 * time.Millisecond})
	pass := func() (requests int64) {
		asked := p.Requests.Load()
		most.Store(0)
		var group sync.WaitGroup
		for range 64 {
			group.Go(func() {
				for range 10 {
					if err := b.ReadAt(t.Context(), "a", v, make([]byte, 5), 0); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		return p.Requests.Load() - asked
	}
	requests := pass()
	first := most.Load()
	requests += pass()
	if t.Logf("%d requests, at most %d in flight, then %d", requests, first, most.Load()); first <= bears || most.Load() > 2*bears {
		t.Errorf("a server that bears %d requests is sent %d, and then %d", bears, first, most.Load())
	}
	if requests > 2*64*20 {
		t.Errorf("%d requests for %d reads", requests, 64*20)
	}
}

// A large range is split, and the parts are read at the same time.
func TestBucketSplitsRanges(t *testing.T) {
	_, p, b := onWay(t, blob.Options{})
	big := make([]byte, 40<<20)
	for i := range big {
		big[i] = byte(i >> 12)
	}
	v, err := b.PutIfAbsent(t.Context(), "big", bytes.NewReader(big), int64(len(big)))
	testenv.Must(t, err)
	var inFlight, most atomic.Int64
	p.Set(testenv.Way{Latency: 100 * time.Millisecond, Fault: countInFlight(&inFlight, &most)})
	before := p.Requests.Load()
	got := make([]byte, len(big))
	testenv.Must(t, b.ReadAt(t.Context(), "big", v, got, 0))
	if !bytes.Equal(got, big) {
		t.Error("other bytes")
	}
	if n := p.Requests.Load() - before; n != 10 || most.Load() < 3 {
		t.Errorf("%d requests, %d at the same time", n, most.Load())
	}
}

// lines is a log that several write.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// What others put into a bucket: keys that mark directories, and objects without a writer's id.
func TestBucketOfOthers(t *testing.T) {
	s := testenv.S3(t)
	login(t, s)
	client, err := minio.NewCore(strings.TrimPrefix(s.Endpoint, "http://"), &minio.Options{Creds: credentials.NewEnvAWS(), Region: s.Region})
	testenv.Must(t, err)
	for key, data := range map[string]string{"data/": "", "data/dir/": "", "data/dir/a.jpg": "0123", "database": ""} {
		_, err := client.PutObject(t.Context(), s.Bucket, key, strings.NewReader(data), int64(len(data)), "", "", minio.PutObjectOptions{DisableContentSha256: true})
		testenv.Must(t, err)
	}
	b := bucket(t, s.Endpoint, "s3://"+s.Bucket+"/data/", blob.Options{})
	i, err := b.Stat(t.Context(), "dir/a.jpg")
	testenv.Must(t, err)
	if got := read(t, b, "dir/a.jpg", i.Version, 1, 2); got != "12" {
		t.Errorf("it holds %q", got)
	}
	for deep, want := range map[bool]string{true: "dir/a.jpg", false: "dir/"} {
		if got := strings.Join(list(t, b, "", deep), " "); got != want {
			t.Errorf("list: %q", got)
		}
	}
	_, err = b.PutIfAbsent(t.Context(), "dir/a.jpg", strings.NewReader(""), 0)
	is(t, err, blob.ErrExists)

	testenv.Must(t, os.WriteFile(filepath.Join(s.Dir, "data/b"), nil, 0o644))
	if _, err := b.Stat(t.Context(), "b"); err == nil || !strings.Contains(err.Error(), "no ETag") {
		t.Errorf("an object without an ETag: %v", err)
	}
}

// fake is a server that answers as the test says.
func fake(t *testing.T, answer http.HandlerFunc) *blob.Bucket {
	t.Helper()
	nobody(t)
	return bucket(t, serve(t, answer), "s3://bucket", blob.Options{Anonymous: true, Patience: time.Second})
}

// A server that does not know If-Match, or ranges, gives no wrong bytes.
func TestBucketOfASimpleServer(t *testing.T) {
	var etag string
	b := fake(t, func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Authorization") != "" {
			t.Error("an anonymous request is signed")
		}
		w.Header().Set("ETag", etag)
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		_, _ = io.WriteString(w, "0123456789")
	})
	etag = `"new"`
	is(t, b.ReadAt(t.Context(), "x", "old", make([]byte, 10), 0), blob.ErrChanged)
	if got := read(t, b, "x", "new", 0, 10); got != "0123456789" {
		t.Errorf("it holds %q", got)
	}
	err := b.ReadAt(t.Context(), "x", "new", make([]byte, 5), 5)
	if err == nil || !strings.Contains(err.Error(), "ranges") || errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("a server that knows no ranges: %v", err)
	}
}

// A server that would let writers replace each other's objects is not written to.
func TestBucketConditions(t *testing.T) {
	for _, ignored := range []string{"If-None-Match", "If-Match"} {
		var puts atomic.Int64
		b := fake(t, func(w http.ResponseWriter, q *http.Request) {
			if puts.Add(1); q.Header.Get(ignored) == "" {
				w.WriteHeader(http.StatusPreconditionFailed)
			}
		})
		for range 2 {
			_, err := b.PutIfAbsent(t.Context(), "x", strings.NewReader("x"), 1)
			if err == nil || !strings.Contains(err.Error(), ignored+",") || !strings.Contains(err.Error(), b.String()) {
				t.Errorf("%s is ignored: %v", ignored, err)
			}
		}
		if puts.Load() != 4 {
			t.Errorf("%d puts", puts.Load())
		}
	}
}

// Uploads that nobody ended are found below the prefix, and only there, and can be given up.
func TestBucketUploads(t *testing.T) {
	s := testenv.S3(t)
	login(t, s)
	core, err := minio.NewCore(strings.TrimPrefix(s.Endpoint, "http://"), &minio.Options{Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey, ""), Region: s.Region})
	testenv.Must(t, err)
	for _, key := range []string{"a/store/packs/1.pack", "a/store/packs/2.pack", "a/storey/3.pack"} {
		id, err := core.NewMultipartUpload(t.Context(), s.Bucket, key, minio.PutObjectOptions{})
		testenv.Must(t, err)
		_, err = core.PutObjectPart(t.Context(), s.Bucket, key, id, 1, strings.NewReader("part"), 4, minio.PutObjectPartOptions{})
		testenv.Must(t, err)
	}
	b := bucket(t, s.Endpoint, "s3://"+s.Bucket+"/a/store", blob.Options{})
	all, err := b.Uploads(t.Context())
	if err != nil || len(all) != 2 || all[0].Name != "packs/1.pack" || time.Since(all[0].Begun).Abs() > time.Hour {
		t.Fatalf("%+v, %v", all, err)
	}
	for range 2 { // one that was ended is no error
		testenv.Must(t, b.GiveUp(t.Context(), all[0]))
	}
	if left, err := b.Uploads(t.Context()); err != nil || len(left) != 1 || left[0].Name != "packs/2.pack" {
		t.Errorf("%+v, %v", left, err)
	}
	other := bucket(t, s.Endpoint, "s3://"+s.Bucket+"/a/storey", blob.Options{})
	if left, err := other.Uploads(t.Context()); err != nil || len(left) != 1 {
		t.Errorf("%+v, %v", left, err)
	}
}
