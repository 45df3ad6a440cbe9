package loader

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/testenv"
)

func TestParseSaid(t *testing.T) {
	for line, want := range map[string]said{
		"":                      {},
		"1234.5":                {rate: 1234.5},
		"  42\t":                {rate: 42},
		"1e3":                   {rate: 1000},
		"0":                     {},
		"-3":                    {},
		"NaN":                   {},
		"+Inf":                  {},
		"123.4 samples/s":       {rate: 123.4},
		"done: 123.4 images/s":  {rate: 123.4},
		"1,234.5 Images/sec":    {rate: 1234.5},
		"1,5 samples/s":         {}, // whatever that means
		"12 img/s, 99 images/s": {rate: 99},
		"7.5e2 imgs/second.":    {rate: 750},
		"88 samples per second": {rate: 88},
		"-88 samples/s":         {},
		"88 samples/step":       {},
		"epoch 3 of 10":         {},
		"took 12.5 seconds":     {},
		"0 samples/s":           {},
		`{"images_per_s": 110.6, "images": 48, "bytes": 4800}`: {rate: 110.6, samples: 48, bytes: 4800},
		`{"samples_per_second": 5, "samples": 7}`:              {rate: 5, samples: 7},
		`{"samples_per_s": 5}`:                                 {rate: 5},
		`{"images_per_s": "fast"}`:                             {},
		`{"images_per_s": -1}`:                                 {},
		`{"images_per_s": 1`:                                   {},
	} {
		if got := parseSaid(line); got != want {
			t.Errorf("%q: %+v, want %+v", line, got, want)
		}
	}
}

func command(t *testing.T, line string) *Command {
	t.Helper()
	c, err := NewCommand(line)
	testenv.Must(t, err)
	return c
}

func TestCommand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's a $view")
	write(t, filepath.Join(dir, "a.jpg"), []byte("12345"))
	job := Job{Dir: dir, Files: []string{"a.jpg", "b.jpg"}}
	for _, c := range []struct {
		line string
		job  Job
		want Epoch // of what is the command's to say
	}{
		{`cat {view}/a.jpg >/dev/null; echo loading; echo 250 samples/s; echo`, job, Epoch{Samples: 2, Rate: 250}},
		{`echo '{"images_per_s": 9, "images": 3, "bytes": 15}' {view} | cut -d/ -f1-2 | sed 's/} .*/}/'`, job,
			Epoch{Samples: 2, Rate: 9, Bytes: 15}},
		{`echo '{"images_per_s": 9, "images": 3}' # {view}`, Job{Dir: dir}, Epoch{Samples: 3, Rate: 9}},
		{`wc -c < {view}/a.jpg`, Job{Dir: dir}, Epoch{Rate: 5}},
		{`test -f {view}/a.jpg`, Job{Dir: dir}, Epoch{}},
	} {
		e, err := command(t, c.line).Epoch(t.Context(), c.job)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		if e.Seconds <= 0 {
			t.Errorf("%s: %+v", c.line, e)
		}
		e.Seconds, e.CPU, e.Disk = 0, 0, 0
		if diff := cmp.Diff(c.want, e); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.line, diff)
		}
	}
	// It does not tell, so it is counted.
	e, err := command(t, `sleep 0.1; test -d {view}`).Epoch(t.Context(), job)
	if err != nil || e.Samples != 2 || e.Rate < 0.01 || e.Rate > 20 {
		t.Errorf("%+v %v", e, err)
	}
	// So is the time of a child of its own.
	e, err = command(t, `sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; test -d {view}`).Epoch(t.Context(), job)
	if err != nil || e.CPU < 0.01 || e.CPU > 4*e.Seconds {
		t.Errorf("%+v %v", e, err)
	}
}

func TestCommandFails(t *testing.T) {
	dir := t.TempDir()
	_, err := command(t, `echo 100 samples/s; echo no such module: torch >&2; ls {view} >/dev/null; exit 3`).Epoch(t.Context(), Job{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "no such module: torch") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("%v", err)
	}
	if _, err := NewCommand("python train.py"); err == nil || !strings.Contains(err.Error(), "{view}") {
		t.Errorf("%v", err)
	}
}

// TestCommandEnds wants nothing to be left of a command, or of what it has started,
// when it is told to end, and when it has ended.
func TestCommandEnds(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "pid")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if b, err := os.ReadFile(file); err == nil && len(b) > 0 {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	began := time.Now()
	_, err := command(t, `sleep 1000 & echo $! > {view}/pid; wait`).Epoch(ctx, Job{Dir: dir})
	if !errors.Is(err, context.Canceled) || time.Since(began) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	gone(t, file)
	if _, err := command(t, `sleep 1000 >/dev/null 2>&1 & echo $! > {view}/pid`).Epoch(t.Context(), Job{Dir: dir}); err != nil {
		t.Error(err)
	}
	gone(t, file)
}

// gone wants the process whose number a file holds not to run.
func gone(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	testenv.Must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	testenv.Must(t, err)
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err == nil && !strings.Contains(string(stat), ") Z") && unix.Kill(pid, 0) == nil {
		t.Errorf("still there: %s", stat)
	}
}
