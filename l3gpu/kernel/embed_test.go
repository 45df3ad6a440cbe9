package kernel

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// TestSources wants the PTX to be what was made of the sources, and all of it.
func TestSources(t *testing.T) {
	sources, err := filepath.Glob("*.cuh")
	testenv.Must(t, err)
	slices.Sort(sources)
	sum := sha256.New()
	for _, path := range append([]string{"l3.cu"}, sources...) {
		b, err := os.ReadFile(path)
		testenv.Must(t, err)
		fmt.Fprintf(sum, "%s %d\n", path, len(b))
		sum.Write(b)
	}
	for _, build := range builds {
		ptx, err := build.text()
		testenv.Must(t, err)
		lines := bytes.SplitAfterN(ptx, []byte("\n"), 6)
		if got := string(lines[1]); got != fmt.Sprintf("// sources: sha256 %x\n", sum.Sum(nil)) {
			t.Errorf("l3.%d.ptx.gz is of other sources, %x: run scripts/ptx", build.capability, sum.Sum(nil))
		}
		if got := string(lines[2]); got != fmt.Sprintf("// body: sha256 %x\n", sha256.Sum256(lines[5])) {
			t.Errorf("l3.%d.ptx.gz has been changed: %s", build.capability, got)
		}
		// What drivers of 2023 read.
		for _, s := range []string{"\n.version 8.2\n", fmt.Sprintf("\n.target sm_%d\n", build.capability)} {
			if !bytes.Contains(ptx, []byte(s)) {
				t.Errorf("no %q in l3.%d.ptx.gz", s, build.capability)
			}
		}
		for _, name := range entries {
			if !bytes.Contains(ptx, []byte(".entry "+name+"(")) {
				t.Errorf("no entry %s", name)
			}
		}
	}
}

// TestPTX wants each GPU to get a build that it can execute.
func TestPTX(t *testing.T) {
	for major, capability := range map[int]int{7: 75, 8: 75, 9: 90, 12: 90} {
		if got, err := PTX(major); err != nil || !bytes.Contains(got, fmt.Appendf(nil, "\n.target sm_%d\n", capability)) {
			t.Errorf("%d.x: not for sm_%d, %v", major, capability, err)
		}
	}
}

// TestCompiled compiles the sources again and wants the same text; compressed, it may differ.
func TestCompiled(t *testing.T) {
	testenv.Slow(t)
	if testenv.Race {
		t.Skip("skipped: it takes too long under the race detector")
	}
	out := t.TempDir()
	said, err := exec.CommandContext(t.Context(), "../../scripts/ptx", out).CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 3 || errors.Is(err, exec.ErrNotFound) {
		t.Skipf("skipped: %s", strings.TrimSpace(string(said)))
	}
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for _, build := range builds {
		packed, err := os.ReadFile(filepath.Join(out, fmt.Sprintf("l3.%d.ptx.gz", build.capability)))
		testenv.Must(t, err)
		got, err := unpack(packed)
		testenv.Must(t, err)
		if want, err := build.text(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v; scripts/ptx makes another l3.%d.ptx.gz", err, build.capability)
		}
	}
}
