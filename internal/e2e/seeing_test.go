package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// copiesOf makes a dataset of several copies of a few pictures.
func copiesOf(t *testing.T, pictures, copies int) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(testmount.Generate(t, "-samples", strconv.Itoa(pictures), "-classes", "1"), "*", "*"))
	testenv.Must(t, err)
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

func statsOf(t *testing.T, env []string, mnt string) (s control.Stats) {
	t.Helper()
	testenv.Must(t, json.Unmarshal([]byte(testmount.Command(t, env, "stats", "--json", mnt)), &s))
	return s
}

// What holds a training back is named while it runs, and nothing else is blamed. Where other tests keep the cores
// busy, they may be.
func TestVerdict(t *testing.T) {
	testenv.Mounts(t)
	t.Parallel()
	dataset := copiesOf(t, 40, 12)
	var draws []string
	for epoch := range 40 {
		draws = append(draws, fmt.Sprintf(".draw/1/%d/rrc224-npy", epoch))
	}
	often := slices.Repeat([]string{"original"}, 400)
	for name, c := range map[string]struct {
		flags                    []string
		directories              []string
		workers, transform, step int // ms
		may                      []account.Culprit
	}{
		"slow disk":     {[]string{"--limit-read", "2MB/s"}, often, 4, 0, 0, []account.Culprit{account.Disk}},
		"slow step":     {nil, draws, 4, 0, 1000, []account.Culprit{account.Training}},
		"transforms":    {nil, often, 3, 20, 0, []account.Culprit{account.Loader, account.PageCache}},
		"decoding":      {nil, draws, 4, 0, 0, []account.Culprit{account.Decode, account.Workers, account.CopyOf}},
		"in page cache": {[]string{"--immutable"}, often, 2, 0, 0, []account.Culprit{account.PageCache, account.Loader}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := testmount.Home(t)
			mnt := testmount.Mount(t, env, dataset, append(c.flags, "--no-background")...)
			args := []string{"testdata/train_like.py", "6", strconv.Itoa(c.workers), strconv.Itoa(c.transform), strconv.Itoa(c.step)}
			for _, d := range c.directories {
				args = append(args, filepath.Join(mnt, d))
			}
			training := exec.Command("python3", args...)
			training.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			out, err := training.StdoutPipe()
			testenv.Must(t, err)
			testenv.Must(t, training.Start())
			defer func() {
				_ = syscall.Kill(-training.Process.Pid, syscall.SIGKILL)
				_ = training.Wait()
			}()
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatalf("%q, %v", line, err)
			}
			v := statsOf(t, env, mnt).Verdict
			t.Logf("%v: %s", v.Culprits, v.Text)
			for _, blamed := range v.Culprits {
				if !slices.Contains(append(c.may, account.Unclear, account.Cores), blamed) {
					t.Errorf("blames %s: %+v", blamed, *v)
				}
			}
		})
	}
}
