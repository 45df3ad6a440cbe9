// Command soak runs long tests for a fixed time, each at its share, and writes docs/reliability.md: what was done how often in all runs.
//
// Tests tell what they did, see testenv.Proved. docs/generated/reliability.json has the runs.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
)

const (
	memory = "docs/generated/reliability.json"
	page   = "docs/reliability.md"
	week   = 7 * 24 * time.Hour
)

// test is what go test runs of a package.
type test struct{ pkg, run string }

// row is a row of the page.
type row struct {
	name, what string
	target     int64
	worst      float64 // the largest value that is allowed; 0 is any
	worstUnit  string
	share      int // of a run, in percent
	weekly     bool
	latest     bool // only the last run counts: the code has changed since those before
	tests      []test
}

var rows = []row{
	{name: "reads", what: "random reads, most of them from the page cache, and other calls in a walk of two trees; 0 differences", target: 1e8, share: 30, tests: []test{{"internal/e2e/walk", "TestWalk$"}}},
	{name: "kills", what: "`kill -9` of a supervised daemon under 64 readers while the dataset changes; 0 hangs, 0 errors but ESTALE for a listing that changed; the limit is for waits of one kill", target: 5000, worst: 1, worstUnit: "s, longest wait", share: 18, tests: []test{{"internal/e2e", "TestSupervisedKills"}}},
	{
		name: "writers", what: "`kill -9` of pack, materialize, compact, gc, shard and commit at random; nothing acknowledged is lost or wrong", target: 2000, share: 10,
		tests: []test{{"internal/e2e", "TestKilledCommands"}, {"store", "TestKill$"}},
	},
	{
		name: "faults", what: "a simulated failure or loss of power at each write, sync and rename of these, the same promise", target: 2000, share: 5,
		tests: []test{{"store", "Fails$|Crashes$|CrashesOfTheFirstRun|TestCompactFaults"}, {"internal/packing", "TestCommitFaults"}},
	},
	{
		name: "damage", what: "bytes flipped, pages zeroed, files cut or swapped: packs, index, lists, block cache, journal, plans, TFRecord; 0 wrong bytes. Repetitions of a test count, also where it damages the same places", target: 50_000, share: 12,
		tests: []test{{"store", "Flips|Truncated|ListDamage|FractionDamage|OverlayDamage|SegmentDamage"}, {"internal/index", "TestDamage"}, {"internal/blockcache", "TestDamage"}, {"fs", "TestDamagedJournal"}, {"internal/packing", "TestDamage"}, {"internal/source/archive", "Damaged"}},
	},
	{name: "pictures", what: "bombs and pictures with damaged headers, in four views, without a mount; memory stays within 64 bytes for each pixel of the limit", target: 10_000, worst: 0.1, worstUnit: "s, slowest", share: 2, tests: []test{{"transcode/codecs", "TestBombs"}}},
	{
		name: "seeds", what: "seeds of simulations: connection, tree of names, results, epochs, hints, block cache, supervisor", target: 100_000, share: 15,
		tests: []test{{"fs/conn", "TestSimulation"}, {"fs", "TestSimulation"}, {"internal/serve", "TestSimulation"}, {"internal/epoch", "TestSimulation"}, {"internal/ahead", "TestSimulation"}, {"internal/blockcache", "TestSimulation"}, {"internal/supervise", "TestSimulation"}},
	},
	{name: "mutants", what: "faults put into the code of `store`, `internal/serve`, `internal/epoch` and `internal/source`, one at a time, but not in texts for people, numbers beside an error, capacities and advice about reads; the package's tests notice them, or short ones of packages that use it; the last run counts", target: 100, worst: 15, worstUnit: "% not noticed", weekly: true, latest: true, tests: []test{{"internal/soak", "TestMutants"}}},
	{name: "ended", what: "mounts ended, also by force, with hung or dead daemons, or a disk that does not answer; no process and no mount is left", target: 1000, share: 5, tests: []test{{"internal/e2e", "TestSupervisedEnds|TestSupervisedHung|TestFrozenDisk"}}},
	{name: "names", what: "files of plans, and of stores that are committed, ten million in each; memory stays within 256 and 512 MB. A directory, a store and a bucket of as many, mounted and walked within 256 bytes a file", target: 1e7, share: 0, weekly: true, tests: []test{{"internal/packing", "Million"}, {"internal/e2e", "TestMillions"}}},
}

// done is what one run did of a row.
type done struct {
	Done   int64
	Worst  float64  `json:",omitempty"`
	Failed []string `json:",omitempty"` // tests
	// Survived are the mutants that no test noticed, each with the reason, which is written here by hand.
	Survived map[string]string `json:",omitempty"`
}

// run is one run of this program.
type run struct {
	Date    time.Time
	Commit  string
	Minutes float64
	Rows    map[string]*done
}

func main() {
	minutes := flag.Float64("minutes", 180, "how long the whole run takes")
	only := flag.String("only", "", "the name of the only row to run")
	write := flag.Bool("write", false, "only write the page again")
	flag.Parse()
	if err := soak(*minutes, *only, *write); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func soak(minutes float64, only string, write bool) error {
	var runs []run
	b, err := os.ReadFile(memory)
	if err == nil {
		err = json.Unmarshal(b, &runs)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil || write {
		return errors.Join(err, os.WriteFile(page, text(runs), 0o644))
	}
	began := time.Now()
	commit, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return err
	}
	now := run{Date: began.UTC().Truncate(time.Second), Commit: strings.TrimSpace(string(commit)), Rows: map[string]*done{}}
	temp, err := os.MkdirTemp("", "pipefs-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	program := filepath.Join(temp, "pipefs")
	if out, err := exec.Command("go", "build", "-o", program, "./cmd/pipefs").CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	if err := os.Setenv("PIPEFS_PROGRAM", program); err != nil {
		return err
	}
	failed := false
	for _, r := range rows {
		length := time.Duration(minutes * float64(r.share) / 100 * float64(time.Minute))
		if only == r.name {
			length = time.Duration(minutes * float64(time.Minute))
		} else if only != "" || r.weekly && (minutes < 60 || slices.ContainsFunc(runs, func(old run) bool { return old.Rows[r.name] != nil && began.Sub(old.Date) < week })) {
			continue
		}
		d, err := r.run(temp, length, now.Rows)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %d done, worst %.3g, failed: %q\n", r.name, d.Done, d.Worst, d.Failed)
		failed = failed || len(d.Failed) > 0
	}
	now.Minutes = float64(time.Since(began).Round(time.Minute/10)) / float64(time.Minute)
	b, err = json.MarshalIndent(append(runs, now), "", " ")
	if err == nil {
		err = errors.Join(os.WriteFile(memory, append(b, '\n'), 0o644), os.WriteFile(page, text(append(runs, now)), 0o644))
	}
	if failed {
		err = errors.Join(err, errors.New("tests failed"))
	}
	return err
}

// run repeats the tests of a row in turn until its time is over. Each runs once at least. What they did is added to its row in
// all, which may be another one: a walk also ends mounts.
func (r *row) run(temp string, length time.Duration, all map[string]*done) (*done, error) {
	of := func(name string) *done {
		if all[name] == nil {
			all[name] = &done{}
		}
		return all[name]
	}
	d := of(r.name)
	proof := filepath.Join(temp, "proof")
	until := time.Now().Add(length)
	for round := 0; round == 0 || time.Now().Before(until); round++ {
		for _, t := range r.tests {
			if round > 0 && !time.Now().Before(until) {
				break
			}
			binary := filepath.Join(temp, strings.ReplaceAll(t.pkg, "/", "_")+".test")
			if _, err := os.Stat(binary); err != nil {
				if out, err := exec.Command("go", "test", "-c", "-o", binary, "./"+t.pkg).CombinedOutput(); err != nil {
					return nil, fmt.Errorf("%s: %w\n%s", t.pkg, err, out)
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Hour)
			cmd := exec.CommandContext(ctx, binary, "-test.run", t.run, "-test.timeout", "110m")
			cmd.Dir, cmd.Env = t.pkg, append(os.Environ(), "PIPEFS_SOAK="+proof)
			out, err := cmd.CombinedOutput()
			for line := range bytes.Lines(out) {
				if mutant, is := bytes.CutPrefix(line, []byte("mutant: ")); is {
					if d.Survived == nil {
						d.Survived = map[string]string{}
					}
					d.Survived[strings.TrimSpace(string(mutant))] = ""
				}
			}
			if err != nil {
				fmt.Printf("%s %s: %v\n%s\n", t.pkg, t.run, err, out)
				d.Failed = append(d.Failed, t.pkg+" "+t.run)
			}
			cancel()
		}
	}
	b, err := os.ReadFile(proof)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	proved := false
	for line := bufio.NewScanner(bytes.NewReader(b)); line.Scan(); {
		var p testenv.Proof
		if err := json.Unmarshal(line.Bytes(), &p); err != nil {
			return nil, err
		}
		proved = proved || p.Row == r.name
		to := of(p.Row)
		to.Done, to.Worst = to.Done+p.Done, max(to.Worst, p.Worst)
	}
	if err := os.RemoveAll(proof); err != nil {
		return nil, err
	}
	if !proved && len(d.Failed) == 0 {
		d.Failed = []string{"nothing was proved"}
	}
	return d, nil
}
