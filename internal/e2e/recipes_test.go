package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/pictures"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
)

// recipePrelude stands before each recipe: less is measured, which does not change what
// the commands do, and a measurement without a winner is not the recipe's fault.
const recipePrelude = `
set -euo pipefail
cd ~
pipefs() {
  case $1 in
    bench) command pipefs "$@" --rounds 1 --samples 12 --loader builtin ;;
    tune) command pipefs "$@" --rounds 1 --samples 16 >tuned 2>&1 || grep -q -e 'too noisy' -e 'nothing to' tuned || { cat tuned; return 1; } ;;
    *) command pipefs "$@" ;;
  esac
}
python3() { "${PYTHON:-/usr/bin/python3}" "$@"; }
# PyTorch 1.13 on Python 3.11 cannot read its own default of -r and -t.
torchrun() { "${PYTHON:-/usr/bin/python3}" -m torch.distributed.run --log_dir ranks -r 1 -t 1 "$@"; }
`

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
	text, err := os.ReadFile("../../docs/recipes.md")
	testenv.Must(t, err)
	recipes := regexp.MustCompile("(?ms)^## ([^\n]*)\n.*?^```sh\n(.*?)^```").FindAllStringSubmatch(string(text), -1)
	if len(recipes) != 6 {
		t.Fatalf("%d recipes", len(recipes))
	}
	for _, recipe := range recipes {
		t.Run(recipe[1], func(t *testing.T) {
			testenv.Mounts(t)
			home := recipeHome(t)
			mnt := filepath.Join(home, "m")
			cmd := exec.Command("bash", "-c", recipePrelude+recipe[2])
			cmd.Env = append(os.Environ(), "HOME="+home, "PATH="+filepath.Dir(testmount.Binary(t))+":"+os.Getenv("PATH"),
				"XDG_CACHE_HOME=", "XDG_STATE_HOME=", "XDG_RUNTIME_DIR="+filepath.Join(home, "run"), "GORACE=atexit_sleep_ms=0")
			out, err := cmd.CombinedOutput()
			// A recipe may end in the middle of a training.
			if exec.Command("mountpoint", "-q", mnt).Run() == nil {
				umount := exec.Command(testmount.Binary(t), "umount", mnt)
				umount.Env = cmd.Env
				if said, err := umount.CombinedOutput(); err != nil {
					t.Errorf("umount: %v\n%s", err, said)
				}
			}
			if err != nil || strings.Contains(recipe[2], "train.py") && !strings.Contains(string(out), " pictures") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// recipeHome is a home directory with the datasets of the recipes.
func recipeHome(t *testing.T) string {
	t.Helper()
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
