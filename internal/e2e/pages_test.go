package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

var codeBlock = regexp.MustCompile("(?ms)^```(sh|python)\n(.*?)^```$")

// pagePrelude shortens measurements, which does not change what the commands do.
const pagePrelude = `
set -euo pipefail
pipefs() { case $1 in bench) command pipefs "$@" --rounds 1 --samples 12 --loader builtin ;; *) command pipefs "$@" ;; esac; }
python3() { "${PYTHON:-/usr/bin/python3}" "$@"; }
`

// pageScript joins the code of a page, in its order, into one script for bash. Python code
// is run as a program of its own.
func pageScript(text string) string {
	var b strings.Builder
	b.WriteString(pagePrelude)
	for _, m := range codeBlock.FindAllStringSubmatch(text, -1) {
		if m[1] == "python" {
			b.WriteString("python3 - <<'PAGE'\n" + m[2] + "PAGE\n")
		} else {
			b.WriteString(m[2])
		}
	}
	return b.String()
}

// runPage runs the code of a page with home as the home directory, and unmounts ~/m if the
// page did not.
func runPage(t *testing.T, page, home, dir string) string {
	t.Helper()
	testenv.Mounts(t)
	text, err := os.ReadFile(filepath.Join("../..", page))
	testenv.Must(t, err)
	modules, err := filepath.Abs("../../python")
	testenv.Must(t, err)
	cmd := exec.Command("bash", "-c", pageScript(string(text)))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+home, "PATH="+filepath.Dir(testmount.Binary(t))+":"+os.Getenv("PATH"),
		"XDG_CACHE_HOME=", "XDG_STATE_HOME=", "XDG_RUNTIME_DIR="+filepath.Join(home, "run"), "GORACE=atexit_sleep_ms=0", "PYTHONPATH="+modules)
	out, err := cmd.CombinedOutput()
	mnt := filepath.Join(home, "m")
	if exec.Command("mountpoint", "-q", mnt).Run() == nil {
		umount := exec.Command(testmount.Binary(t), "umount", mnt)
		umount.Env = cmd.Env
		if said, err := umount.CombinedOutput(); err != nil {
			t.Errorf("umount: %v\n%s", err, said)
		}
	}
	if err != nil {
		t.Errorf("%s: %v\n%s", page, err, out)
	}
	return string(out)
}

// TestTutorial runs docs/tutorial.md.
func TestTutorial(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	testenv.Must(t, os.Mkdir(filepath.Join(home, "run"), 0o700))
	out := runPage(t, "docs/tutorial.md", home, home)
	if strings.Count(out, "60 pictures of 3 classes") != 2 {
		t.Errorf("docs/tutorial.md trained otherwise:\n%s", out)
	}
}

// TestReadme runs README.md in a copy of this tree.
func TestReadme(t *testing.T) {
	testenv.Slow(t)
	home := recipeHome(t)
	// The build finds what was compiled before.
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		value, err := exec.Command("go", "env", name).Output()
		testenv.Must(t, err)
		t.Setenv(name, strings.TrimSpace(string(value)))
	}
	tree, err := filepath.Abs("../..")
	testenv.Must(t, err)
	clone := filepath.Join(home, "pipefs")
	testenv.Must(t, os.Mkdir(clone, 0o755))
	for _, file := range []string{"Makefile", "go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(tree, file))
		testenv.Must(t, err)
		testenv.Must(t, os.WriteFile(filepath.Join(clone, file), data, 0o644))
	}
	for _, dir := range []string{"scripts", "packaging", "cmd", "internal", "fs", "store", "transcode", "mixer", "l3gpu", "bench", "python"} {
		testenv.Must(t, os.CopyFS(filepath.Join(clone, dir), os.DirFS(filepath.Join(tree, dir))))
	}
	testenv.Must(t, os.Symlink(filepath.Join(home, "train.py"), filepath.Join(clone, "train.py")))
	out := runPage(t, "README.md", home, clone)
	if !strings.Contains(out, " pictures") {
		t.Errorf("README.md trained otherwise:\n%s", out)
	}
}

// TestLinks wants every link between pages to lead to a file, and to a heading of it.
func TestLinks(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	testenv.Must(t, err)
	generated, err := filepath.Glob("../../docs/generated/*.md")
	testenv.Must(t, err)
	pages = append(append(pages, generated...), "../../README.md", "../../CONTRIBUTING.md", "../../CHANGELOG.md")
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fence := regexp.MustCompile("(?ms)^```.*?^```$")
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	strip := regexp.MustCompile(`[^\pL\pN _-]`)
	anchors := func(file string) map[string]bool {
		text, err := os.ReadFile(file)
		testenv.Must(t, err)
		found := map[string]bool{}
		for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
			found[strings.ReplaceAll(strip.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
		}
		return found
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		testenv.Must(t, err)
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if anchor != "" && !anchors(target)[anchor] {
				t.Errorf("%s: %s has no heading #%s", page, target, anchor)
			}
		}
	}
}
