package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

var way = flag.Bool("way", false, "count the functions between LOOKUP and the reply to READ")

// wayCounters makes a program write its coverage counters at SIGUSR1, and clear them.
const wayCounters = `package python

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/coverage"
	"syscall"
)

func init() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		for range asked {
			dir, _ := os.ReadFile(os.Getenv("PIPEFS_WAY"))
			err := errors.Join(coverage.WriteMetaDir(string(dir)), coverage.WriteCountersDir(string(dir)), coverage.ClearCounters())
			_ = os.WriteFile(string(dir)+".done", fmt.Append(nil, err), 0o644)
		}
	}()
}
`

// TestWay counts what a newcomer has to read to follow one read: the functions that run in the daemon of a store while a file
// of bmp/ is looked up and read, for the first time and once more. What codecs do below transcode/ is not counted. The limits are
// what was reached: lower them with the numbers.
func TestWay(t *testing.T) {
	if !*way {
		t.Skip("builds the program anew: make way")
	}
	root, err := filepath.Abs("../..")
	testenv.Must(t, err)
	tmp := t.TempDir()
	in := func(name string) string { return filepath.Join(tmp, name) }
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, "python/way.go"): in("way.go")}})
	testenv.Must(t, err)
	write(t, tmp, []byte(wayCounters), "way.go")
	write(t, tmp, overlay, "overlay.json")
	build := exec.Command("go", "build", "-cover", "-covermode=atomic", "-coverpkg=./cmd/...,./fs/...,./internal/...,./mixer,./store/...,./transcode/...", "-overlay", in("overlay.json"), "-o", in("pipefs"), "./cmd/pipefs")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv(testmount.Program, in("pipefs"))
	t.Setenv("PIPEFS_WAY", in("now"))
	t.Setenv("GOCOVERDIR", t.TempDir())
	env, _, store := packed(t, "-samples", "8", "-width", "200", "-height", "150")
	mnt := testmount.Mount(t, env, store, "--cache", "daemon", "--no-background")
	var stats struct{ PID int }
	testenv.Must(t, json.Unmarshal([]byte(testmount.Command(t, env, "stats", "--json", mnt)), &stats))
	counted := func(name string, do func()) []string {
		for _, part := range []string{".before", ""} {
			if part == "" {
				do()
			}
			dir := in(name + part)
			testenv.Must(t, os.Mkdir(dir, 0o755))
			testenv.Must(t, os.WriteFile(in("now"), []byte(dir), 0o644))
			testenv.Must(t, syscall.Kill(stats.PID, syscall.SIGUSR1))
			testenv.EventuallyIs(t, "counters", func() bool { _, err := os.Stat(dir + ".done"); return err == nil })
		}
		out, err := exec.Command("go", "tool", "covdata", "func", "-i", in(name)).Output()
		testenv.Must(t, err)
		return strings.Split(string(out), "\n")
	}
	files, err := filepath.Glob(filepath.Join(mnt, "bmp/*/*.bmp"))
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	read := func(name string) func() {
		return func() { _, err := os.ReadFile(name); testenv.Must(t, err) }
	}
	read(files[0])()
	for _, c := range []struct {
		name             string
		functions, files int
	}{{"cold", 306, 63}, {"warm", 61, 17}} {
		functions, in, long := ranFunctions(t, root, counted(c.name, read(files[1])))
		t.Logf("%s: %d functions in %d files\n%s", c.name, len(functions), len(in), strings.Join(functions, "\n"))
		if len(functions) > c.functions || len(in) > c.files || len(long) > 0 {
			t.Errorf("%s: want %d functions in %d files, and none above 70 lines %v", c.name, c.functions, c.files, long)
		}
	}
}

var coveredFunction = regexp.MustCompile(`^github\.com/pipefs/pipefs/(\S+):(\d+):\s+(\S+)\s+([0-9.]+)%`)

// ranFunctions returns the functions that ran, and their files, out of what go tool covdata func says.
func ranFunctions(t *testing.T, root string, lines []string) (functions, files, long []string) {
	for _, line := range lines {
		m := coveredFunction.FindStringSubmatch(line)
		if m == nil || m[4] == "0.0" || strings.Count(m[1], "/") > 1 && strings.HasPrefix(m[1], "transcode/") {
			continue
		}
		at, _ := strconv.Atoi(m[2])
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join(root, m[1]), nil, 0)
		testenv.Must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.FuncDecl); ok && set.Position(f.Pos()).Line == at {
				if n := set.Position(f.End()).Line - at; n > 70 {
					long = append(long, fmt.Sprintf("%s has %d lines", m[3], n))
				}
			}
			return true
		})
		functions = append(functions, m[1]+" "+m[3])
		files = append(files, m[1])
	}
	slices.Sort(files)
	return functions, slices.Compact(files), long
}
