package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/epoch"
	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

var codeBlock = regexp.MustCompile("(?ms)^```(sh|python)\n(.*?)^```$")

// prelude stands before the commands of a page. Less is measured, which does not change what the commands do, and a measurement
// without a winner is not the page's fault. jq need not be there.
const prelude = `
set -euo pipefail
pipefs() {
  case $1 in
    bench) command pipefs "$@" --rounds 1 --samples 12 --loader builtin ;;
    tune) command pipefs "$@" --rounds 1 --samples 16 >tuned 2>&1 || grep -q -e 'too noisy' -e 'nothing to' tuned || { cat tuned; return 1; } ;;
    *) command pipefs "$@" ;;
  esac
}
python3() { "${PYTHON:-/usr/bin/python3}" "$@"; }
jq() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1][1:]])' "$2"; }
# PyTorch 1.13 on Python 3.11 cannot read its own default of -r and -t.
torchrun() { python3 -m torch.distributed.run --log_dir ranks -r 1 -t 1 "$@"; }
`

// pageOf reads a page.
func pageOf(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", page))
	testenv.Must(t, err)
	return string(text)
}

// pageScript joins the code of a page, in its order, into one script for bash. Python code
// is run as a program of its own.
func pageScript(text string) string {
	var b strings.Builder
	for _, m := range codeBlock.FindAllStringSubmatch(text, -1) {
		if m[1] == "python" {
			b.WriteString("python3 - <<'PAGE'\n" + m[2] + "PAGE\n")
		} else {
			b.WriteString(m[2])
		}
	}
	return b.String()
}

// typed runs commands with home as the home directory, and unmounts ~/m if they did not.
func typed(t *testing.T, home, dir, script string) string {
	t.Helper()
	testenv.Mounts(t)
	modules, err := filepath.Abs("../../python")
	testenv.Must(t, err)
	cmd := exec.Command("bash", "-c", prelude+script)
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
		t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}

// TestTutorial runs docs/tutorial.md.
func TestTutorial(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	testenv.Must(t, os.Mkdir(filepath.Join(home, "run"), 0o700))
	out := typed(t, home, home, pageScript(pageOf(t, "docs/tutorial.md")))
	if strings.Count(out, "60 pictures of 3 classes") != 2 {
		t.Errorf("docs/tutorial.md trained otherwise:\n%s", out)
	}
}

// TestReadme runs README.md in a copy of this tree.
func TestReadme(t *testing.T) {
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
	out := typed(t, home, clone, pageScript(pageOf(t, "README.md")))
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

var cacheModes = []string{"page", "daemon"}

// TestViews compares every view with the dataset: bytes of the originals,
// pixels and scans by Pillow, sizes by every way of reading. TestJPEG has other
// readers look at scans.
func TestViews(t *testing.T) {
	t.Parallel()
	sets := map[string]func(t *testing.T, mode string) string{
		"generated": func(t *testing.T, _ string) string { return testmount.Generate(t, "-samples", "24", "-png-every", "4") },
		"photographs": func(t *testing.T, mode string) string {
			tree := filepath.Join(t.TempDir(), "tree")
			if mode == "page" || testenv.Soak() {
				link(t, tree, "kodak", shared(t, "kodak"))
				link(t, tree, "bsds", shared(t, "bsds"))
			} else { // what a picture is does not depend on who caches it
				linkSome(t, tree, "kodak", shared(t, "kodak"), 5)
				linkSome(t, tree, "bsds", shared(t, "bsds"), 5)
			}
			return tree
		},
	}
	for name, set := range sets {
		for _, mode := range cacheModes {
			t.Run(name+"/"+mode, func(t *testing.T) {
				dataset := set(t, mode)
				env := testmount.Home(t)
				mnt := testmount.Mount(t, env, dataset, "--cache", mode)
				if diff := cmp.Diff(hashes(t, dataset), hashes(t, filepath.Join(mnt, "original"))); diff != "" {
					t.Errorf("original (-dataset +mount):\n%s", diff)
				}
				t.Log(python(t, "testdata/check_views.py", dataset, mnt))
			})
		}
	}
}

// TestViewsInDocs wants every view that a page for users writes as a directory to exist.
func TestViewsInDocs(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	span := regexp.MustCompile("`(?:~/m/|MNT/)?([a-z0-9.][a-z0-9./-]*)/`")
	// not views, but links and directories of other things
	others := map[string]bool{"mix": true, "auto": true, "current": true, "val": true, ".pipefs/gpu": true, "~": true}
	for _, page := range []string{"README.md", "docs/operations.md", "docs/recipes.md", "docs/reference.md", "docs/python.md", "docs/epoch.md", "docs/loaders.md"} {
		found := 0
		for _, m := range span.FindAllStringSubmatch(pageOf(t, page), -1) {
			if name := strings.TrimSuffix(m[1], "/"); !others[name] {
				found++
				_, err := r.ParsePath(name)
				if below, ok := strings.CutPrefix(name, ".epoch/"); ok {
					var p epoch.Path
					if p, err = epoch.ParsePath(strings.Split(below, "/")); err == nil {
						_, err = r.ParseRandom(p.View)
					}
				}
				if err != nil {
					t.Errorf("%s: %v", page, err)
				}
			}
		}
		t.Logf("%s names %d views", page, found)
	}
}

// trainScript is the training of the recipes: every picture must be found and decoded.
const trainScript = `
import os, sys
from torchvision.datasets import ImageFolder
found = ImageFolder(sys.argv[1])
names = [n for _, _, files in os.walk(sys.argv[1], followlinks=True) for n in files if not n.endswith((".json", ".txt"))]
assert len(found) == len(names) > 0, (len(found), len(names))
print(sum(picture.size[0] > 0 for picture, _ in found), "pictures")
`

// TestRecipes types the commands of docs/recipes.md.
func TestRecipes(t *testing.T) {
	t.Parallel()
	recipes := regexp.MustCompile("(?ms)^## ([^\n]*)\n.*?^```sh\n(.*?)^```").FindAllStringSubmatch(pageOf(t, "docs/recipes.md"), -1)
	if len(recipes) != 6 {
		t.Fatalf("%d recipes", len(recipes))
	}
	for _, recipe := range recipes {
		t.Run(recipe[1], func(t *testing.T) {
			home := recipeHome(t)
			out := typed(t, home, home, recipe[2]) // it may end in the middle of a training
			if strings.Contains(recipe[2], "train.py") && !strings.Contains(out, " pictures") {
				t.Errorf("trained otherwise:\n%s", out)
			}
		})
	}
}

// recipeHome is a home directory with the datasets of the recipes.
func recipeHome(t *testing.T) string {
	t.Helper()
	testenv.Mounts(t)
	home := t.TempDir()
	for _, dir := range []string{"m", "run"} {
		testenv.Must(t, os.Mkdir(filepath.Join(home, dir), 0o700))
	}
	testenv.Must(t, os.WriteFile(filepath.Join(home, "train.py"), []byte(trainScript), 0o644))
	for i, class := range []string{"ant", "bee", "cat"} {
		for n := range 4 {
			photo := pictures.Photo(320, 240, uint64(i*10+n))
			name := filepath.Join(class, string(rune('0'+n)))
			testenv.Must(t, pictures.Write(filepath.Join(home, "imagenet", name+".jpg"), photo))
			testenv.Must(t, pictures.Write(filepath.Join(home, "drawings", name+".png"), photo))
		}
	}
	for n := range 4 {
		name := string(rune('0' + n))
		testenv.Must(t, pictures.Write(filepath.Join(home, "scenes/images", name+".jpg"), pictures.Photo(320, 240, uint64(n))))
		testenv.Must(t, pictures.Write(filepath.Join(home, "scenes/labels", name+".png"), pictures.Mask(320, 240, 5, uint64(n))))
	}
	return home
}

// betweenPages is what happens to the dataset between the page's two blocks of commands, and what has to be true after each.
var betweenPages = []string{`
diff -r ~/imagenet ~/m/original
pipefs umount ~/m
rm imagenet/ant/1.jpg
cp imagenet/ant/2.jpg imagenet/bee/9.jpg
`, `
pipefs mount ~/imagenet.store ~/m
diff -r ~/imagenet ~/m/original
pipefs umount ~/m
`}

// TestClusterPage types the commands of docs/cluster.md.
func TestClusterPage(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(pageOf(t, "docs/cluster.md"), -1)
	if len(blocks) != len(betweenPages) {
		t.Fatalf("%d blocks of commands", len(blocks))
	}
	script := ""
	for i, block := range blocks {
		script += block[1] + betweenPages[i]
	}
	// Fewer files than shards would leave some empty.
	script = strings.NewReplacer("--shards 20", "--shards 4", "--shard 0..9", "--shard 0..1", "--shard 10..19", "--shard 2..3").Replace(script)
	home := recipeHome(t)
	typed(t, home, home, script)
}
