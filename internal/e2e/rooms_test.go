package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// TestRooms checks what the linter cannot: that no room imports, through others,
// what it must not know. See docs/architecture.md.
func TestRooms(t *testing.T) {
	t.Parallel()
	const module = "github.com/pipefs/pipefs/"
	const goFuse = "github.com/hanwen/go-fuse"
	codecs := []string{"transcode/"}
	rooms := map[string][]string{
		"transcode/...":       {"store", "mixer", "fs", "internal/", "cmd/", goFuse},
		"store/...":           append(codecs, "mixer", "fs", "internal/serve", "cmd/", goFuse),
		"mixer/...":           {"fs", "cmd/", goFuse},
		"internal/source/...": {"store", "mixer", "fs", "transcode", "internal/serve", "cmd/", goFuse},
		"internal/serve/...":  append(codecs, "fs", "cmd/", goFuse),
		"l3gpu/...":           {"store", "mixer", "fs", "internal/serve", "cmd/", goFuse},
		"internal/mountd/...": {"internal/exit", "cmd/"},
		"fs/...":              append(codecs, "cmd/"),
		"bench/...":           {"fs", "cmd/", goFuse},
		"cmd/...":             {"bench/research"},
	}
	for room, forbidden := range rooms {
		out, err := exec.Command("go", "list", "-deps", module+room).Output()
		if err != nil {
			t.Fatalf("%s: %v", room, err)
		}
		for dep := range strings.Lines(string(out)) {
			dep = strings.TrimSpace(dep)
			inside, ours := strings.CutPrefix(dep, module)
			// a room may know itself
			if ours && strings.HasPrefix(inside+"/", strings.TrimSuffix(room, "...")) {
				continue
			}
			for _, f := range forbidden {
				if f == goFuse && strings.HasPrefix(dep, goFuse) || ours && (inside == f || strings.HasPrefix(inside, strings.TrimSuffix(f, "/")+"/") && f != "transcode/" || f == "transcode/" && strings.HasPrefix(inside, f)) {
					t.Errorf("%s imports %s", room, dep)
				}
			}
		}
	}
}
