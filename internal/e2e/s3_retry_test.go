package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// TestUnmountedInRetry: an unmount ends the requests to a bucket that wait for an answer, or to be
// repeated, of readers and of what is fetched ahead.
func TestUnmountedInRetry(t *testing.T) {
	testenv.Mounts(t)
	dataset := testmount.Generate(t, "-samples", "400", "-width", "80", "-height", "60")
	server := testenv.S3(t)
	upload(t, server, dataset, "data", slices.Collect(maps.Keys(hashes(t, dataset)))...)
	for name, way := range map[string]testenv.Way{
		"no answer": {Fault: func(*http.Request) testenv.Fault { return testenv.Hung }},
		"refused":   {Refused: 1}, // and repeated
	} {
		for _, how := range []string{"terminated", "forced", "fetched ahead"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				proxy := testenv.Distance(t, server.Endpoint, testenv.Way{})
				env := append(testmount.Home(t), server.Env()...)
				env = append(env, "AWS_ENDPOINT_URL="+proxy.Endpoint)
				mnt, _ := testmount.MountOnce(t, env, "s3://"+server.Bucket+"/data")
				t.Cleanup(func() { _ = unix.Unmount(mnt, unix.MNT_DETACH) }) // where the test failed
				stats := statsOf(t, mnt)
				var readers []*exec.Cmd
				var ended atomic.Int32
				requests := proxy.Requests.Load()
				more := func() error {
					if n := proxy.Requests.Load() - requests; n < 2 {
						return fmt.Errorf("%d requests", n)
					}
					return nil
				}
				if how != "fetched ahead" {
					files, err := filepath.Glob(filepath.Join(mnt, "scan3", "*", "*"))
					testenv.Must(t, err)
					proxy.Set(way)
					for _, file := range files[len(files)-4:] {
						cmd := exec.Command("cat", file)
						testenv.Must(t, cmd.Start())
						readers = append(readers, cmd)
						t.Cleanup(func() { _ = cmd.Process.Kill() })
						go func() { _ = cmd.Wait(); ended.Add(1) }()
					}
				} else {
					// The first batch comes, and what is fetched for others waits until that is read.
					dir := filepath.Join(mnt, ".epoch/1/0/1/0/4/rrc64-npy")
					first, err := os.ReadFile(filepath.Join(dir, "000000.paths.txt"))
					testenv.Must(t, err)
					isRead, waiting := make(chan struct{}), atomic.Int32{}
					proxy.Set(testenv.Way{Fault: func(q *http.Request) testenv.Fault {
						if strings.Contains(string(first), strings.TrimPrefix(q.URL.Path, "/"+server.Bucket+"/data/")+"\n") {
							return testenv.Passed
						}
						waiting.Add(1)
						select {
						case <-isRead:
						case <-q.Context().Done():
						}
						if way.Fault != nil {
							return way.Fault(q)
						}
						return way.Draw()
					}})
					_, err = os.ReadFile(filepath.Join(dir, "000000.npy"))
					testenv.Must(t, err)
					close(isRead)
					more = func() error {
						if n := waiting.Load(); n < 2 {
							return fmt.Errorf("%d requests are waiting", n)
						}
						return nil
					}
				}
				testenv.Eventually(t, more)
				began := time.Now()
				switch how {
				case "terminated": // it is busy for two seconds, and then read for one
					testenv.Must(t, unix.Kill(stats.PID, unix.SIGTERM))
				case "forced":
					testmount.Command(t, env, "umount", "--force", mnt)
				default:
					testmount.Command(t, env, "umount", mnt)
				}
				testenv.EventuallyIs(t, "the daemon ends", func() bool { return unix.Kill(stats.PID, 0) != nil })
				testenv.EventuallyIs(t, "readers end", func() bool { return int(ended.Load()) == len(readers) })
				// A request waits 15 seconds for an answer, and is repeated for two minutes.
				if took := time.Since(began); took > 12*time.Second {
					t.Errorf("it took %v", took)
				}
				if b, err := os.ReadFile("/proc/mounts"); err == nil && strings.Contains(string(b), mnt) {
					t.Error("the mount is still there")
				}
			})
		}
	}
}
