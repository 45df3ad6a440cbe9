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

// clusterPrelude stands before the commands of docs/cluster.md: jq need not be there.
const clusterPrelude = `
set -euo pipefail
cd ~
jq() { "${PYTHON:-/usr/bin/python3}" -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1][1:]])' "$2"; }
`

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
	testenv.Mounts(t)
	text, err := os.ReadFile("../../docs/cluster.md")
	testenv.Must(t, err)
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != len(betweenPages) {
		t.Fatalf("%d blocks of commands", len(blocks))
	}
	home := recipeHome(t)
	script := clusterPrelude
	for i, block := range blocks {
		script += block[1] + betweenPages[i]
	}
	// Fewer files than shards would leave some empty.
	script = strings.ReplaceAll(script, "--shards 20", "--shards 4")
	script = strings.NewReplacer("--shard 0..9", "--shard 0..1", "--shard 10..19", "--shard 2..3").Replace(script)
	cmd := exec.Command("bash", "-c", script)
	cmd.Env = append(os.Environ(), "HOME="+home, "PATH="+filepath.Dir(testmount.Binary(t))+":"+os.Getenv("PATH"),
		"XDG_CACHE_HOME=", "XDG_STATE_HOME=", "XDG_RUNTIME_DIR="+filepath.Join(home, "run"), "GORACE=atexit_sleep_ms=0")
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
}
