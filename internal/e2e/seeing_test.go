package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// copiesOf makes a dataset of several copies of a few pictures.
func copiesOf(t *testing.T, pictures, copies int, args ...string) string {
	t.Helper()
	names := filesOf(t, testmount.Generate(t, append(args, "-samples", strconv.Itoa(pictures), "-classes", "1")...))
	dataset := t.TempDir()
	for i := range copies {
		class := filepath.Join(dataset, fmt.Sprint("class", i))
		testenv.Must(t, os.Mkdir(class, 0o755))
		for _, name := range names {
			b, err := os.ReadFile(name)
			testenv.Must(t, err)
			testenv.Must(t, os.WriteFile(filepath.Join(class, filepath.Base(name)), b, 0o644))
		}
	}
	return dataset
}

// filesOf are those in the class directories of a dataset.
func filesOf(t *testing.T, dataset string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dataset, "*", "*"))
	testenv.Must(t, err)
	return names
}

// statsOf is what pipefs stats --json prints, without a process of its own.
func statsOf(t *testing.T, mnt string) control.Stats {
	t.Helper()
	client, err := control.Find(mnt)
	testenv.Must(t, err)
	reply, err := client.Do(t.Context(), control.Request{Op: control.OpStats})
	testenv.Must(t, err)
	return *reply.Stats
}

// training reads files as a training does, for so many seconds, and goes on until the test ends. Times are in ms.
type training struct{ seconds, workers, transform, step int }

func (c training) run(t *testing.T, directories ...string) (stop func()) {
	t.Helper()
	args := []string{"testdata/train_like.py"}
	for _, n := range []int{c.seconds, c.workers, c.transform, c.step} {
		args = append(args, strconv.Itoa(n))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	cmd := exec.CommandContext(ctx, "python3", append(args, directories...)...)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	testenv.Must(t, err)
	testenv.Must(t, cmd.Start())
	stop = sync.OnceFunc(func() {
		cancel()
		_, _ = io.Copy(io.Discard, out) // the workers have it open, too
		_ = cmd.Wait()
	})
	t.Cleanup(stop)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return stop
}

// What holds a training back is named while it runs, and nothing else is blamed. Where other tests keep the cores
// busy, they may be. A soak has all states, each ten times, one after the other on a machine that does nothing else.
func TestVerdict(t *testing.T) {
	testenv.Mounts(t)
	soak := testenv.Soak()
	if !soak {
		t.Parallel()
	}
	small := copiesOf(t, 40, 12)
	var draws, pixels []string
	for epoch := range 40 {
		draws = append(draws, fmt.Sprintf(".draw/1/%d/rrc224-npy", epoch))
		pixels = append(pixels, fmt.Sprintf(".draw/1/%d/hflip-npy", epoch))
	}
	often := slices.Repeat([]string{"original"}, 400)
	large, slow, medium := "", "", "" // made once for all runs
	made := func(dataset *string, args ...string) string {
		if *dataset == "" {
			*dataset = testmount.Generate(t, append(args, "-classes", "1")...)
		}
		return *dataset
	}
	few := func(t *testing.T, env []string, flags ...string) string { // pictures that cost far more to decode than to ask for
		return testmount.Mount(t, env, made(&medium, "-samples", "200", "-width", "1600", "-height", "1200"), flags...)
	}
	memory := func(t *testing.T, _ []string, flags ...string) string { // pictures of 9 MB of pixels, in 140 MB
		group, h := testmount.MemoryGroup(t, 140<<20)
		mnt, _ := mountIn(t, group, h, made(&large, "-samples", "24", "-width", "2000", "-height", "1500"), flags...)
		return mnt
	}
	tail := func(t *testing.T, env []string, flags ...string) string { // one picture of 120 is a thousand times as large
		dataset := copiesOf(t, 40, 6, "-width", "200", "-height", "150")
		for i, name := range filesOf(t, made(&slow, "-samples", "2", "-width", "8000", "-height", "6000")) {
			testenv.Must(t, os.Link(name, filepath.Join(dataset, fmt.Sprintf("class%d/slow.jpg", i))))
		}
		return testmount.Mount(t, env, dataset, flags...)
	}
	bucket := func(t *testing.T, env []string, flags ...string) string {
		server := testenv.S3(t)
		var names []string
		for name := range hashes(t, small) {
			names = append(names, name)
		}
		upload(t, server, small, "data", names...)
		way := testenv.Distance(t, server.Endpoint, testenv.Way{Latency: 60 * time.Millisecond})
		return testmount.Mount(t, append(append(env, server.Env()...), "AWS_ENDPOINT_URL="+way.Endpoint), "s3://"+server.Bucket+"/data", flags...)
	}
	all, unclear := 0, 0
	for _, c := range []struct {
		name        string
		always      bool
		mount       func(t *testing.T, env []string, flags ...string) string // nil mounts small
		flags       []string
		directories []string
		training
		may    []account.Culprit
		advice string
	}{
		{"slow disk", true, nil, []string{"--limit-read", "2MB/s"}, often, training{6, 4, 0, 0}, []account.Culprit{account.Disk}, "scan5"},
		{"slow bucket", false, bucket, nil, often, training{6, 4, 0, 0}, []account.Culprit{account.Network}, "scan5"},
		{"few workers", false, few, []string{"--workers", "1"}, draws, training{6, 4, 0, 0}, []account.Culprit{account.Workers}, "--workers"},
		{"one slow picture in a hundred", false, tail, nil, draws, training{6, 2, 0, 0}, []account.Culprit{account.Tail}, "pipefs profile"},
		{"small cache", false, nil, []string{"--cache", "daemon", "--cache-bytes", "8M"}, slices.Repeat([]string{"bmp"}, 40), training{6, 4, 0, 0}, []account.Culprit{account.Decode}, "--cache-bytes"},
		{"too little memory", false, memory, nil, pixels, training{8, 6, 0, 0}, []account.Culprit{account.MemoryOf}, "memory limit"},
		{"transforms", true, nil, nil, often, training{6, 3, 20, 0}, []account.Culprit{account.Loader, account.PageCache}, ""},
		{"slow step", true, nil, nil, often, training{6, 4, 0, 1000}, []account.Culprit{account.Training}, ""},
		{"in page cache", true, nil, []string{"--immutable"}, often, training{6, 2, 1, 0}, []account.Culprit{account.PageCache, account.Loader}, ""},
		{"slow disk and transforms", false, nil, []string{"--limit-read", "4MB/s"}, often, training{6, 2, 15, 0}, []account.Culprit{account.Disk, account.Loader}, ""},
		{"nothing wrong", false, nil, nil, draws, training{6, 4, 0, 500}, []account.Culprit{account.Training}, ""},
		{"bytes that are not kept", false, bucket, []string{"--disk-cache-size", "2M"}, often, training{6, 4, 0, 0}, []account.Culprit{account.Network}, "--disk-cache-size"},
		{"decoding", true, nil, nil, draws, training{6, 4, 0, 0}, []account.Culprit{account.Decode}, ""},
	} {
		if !soak && !c.always {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			runs := 10
			if !soak {
				t.Parallel()
				runs, c.may = 1, append(c.may, account.Unclear, account.Cores, account.Workers, account.CopyOf)
			}
			if c.mount == nil {
				c.mount = func(t *testing.T, env []string, flags ...string) string {
					return testmount.Mount(t, env, small, flags...)
				}
			}
			for run := range runs {
				t.Run(strconv.Itoa(run), func(t *testing.T) {
					env := testmount.Home(t)
					mnt := c.mount(t, env, append(c.flags, "--no-background")...)
					var directories []string
					for _, d := range c.directories {
						directories = append(directories, filepath.Join(mnt, d))
					}
					c.run(t, directories...)
					stats := statsOf(t, mnt)
					v, total := stats.Verdict, stats.Account.Total()
					t.Logf("%v: %s %q; %+v, %+v, %+v, %+v", v.Culprits, v.Text, v.Advice, total.Parts, total.Making, stats.Account.Looks, stats.Account.Machine)
					if soak { // one after the other
						all++
					}
					switch {
					case v.Culprits[0] == account.Unclear:
						if soak {
							unclear++
						}
						return
					case soak && !strings.Contains(strings.Join(v.Advice, " "), c.advice):
						t.Errorf("does not advise %s: %+v", c.advice, *v)
					}
					for _, blamed := range v.Culprits {
						if !slices.Contains(c.may, blamed) {
							t.Errorf("blames %s: %+v", blamed, *v)
						}
					}
				})
			}
		})
	}
	if t.Logf("cannot tell in %d of %d runs", unclear, all); unclear > all/10 {
		t.Error("that is too often")
	}
}

// What a verdict promises of storing a view is what happens, within a quarter in nine of ten runs.
func TestPromise(t *testing.T) {
	if !testenv.Soak() {
		t.Skip("only in a soak")
	}
	dataset := copiesOf(t, 40, 12)
	wrong := 0
	for run := range 10 {
		t.Run(strconv.Itoa(run), func(t *testing.T) {
			env, c := testmount.Home(t), training{seconds: 6, workers: 1 + run%5, transform: run % 3}
			view := []string{"resize256-bmp", "bmp"}[run%2]
			rate := func(source string) (float64, *account.Verdict) {
				mnt, unmount := testmount.MountOnce(t, env, source, "--cache", "daemon", "--cache-bytes", "1M", "--store-max", "1M", "--no-background")
				var directories []string
				for range 1000 {
					directories = append(directories, filepath.Join(mnt, view))
				}
				stop := c.run(t, directories...)
				before := statsOf(t, mnt)
				time.Sleep(3 * time.Second)
				after := statsOf(t, mnt)
				stop()
				unmount()
				return float64(after.Account.Since(before.Account).Total().Begun) / after.Account.At.Sub(before.Account.At).Seconds(), after.Verdict
			}
			now, v := rate(dataset)
			store := filepath.Join(t.TempDir(), "store")
			testmount.Command(t, env, "pack", dataset, store)
			testmount.Command(t, env, "materialize", store, view)
			then, _ := rate(store)
			t.Logf("%+v: %s: %.0f files/s, then %.0f, %.2f times as many; promised %.2f", c, view, now, then, then/now, v.Promise)
			if off := v.Promise / (then / now); off < 0.8 || off > 1.25 {
				wrong++
			}
		})
	}
	if wrong > 1 {
		t.Errorf("%d of 10 promises are wrong", wrong)
	}
}
