package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

var updateLayers = flag.Bool("update-layers", false, "write the linter's rules that follow from docs/architecture.md")

const (
	module = "github.com/pipefs/pipefs/"
	goFuse = "github.com/hanwen/go-fuse"
	// belowTranscode is what the table calls codecs.
	belowTranscode = "transcode/"
)

// layer is a row of the table of package layers.
type layer struct {
	packages []string // and what is below them, unless another row names it
	never    []string
}

var quoted = regexp.MustCompile("`([a-z0-9/]+)`|(codecs)")

// readLayers reads the table of docs/architecture.md, from the top.
func readLayers(t *testing.T) (layers []layer) {
	t.Helper()
	text, err := os.ReadFile("../../docs/architecture.md")
	testenv.Must(t, err)
	_, table, found := strings.Cut(string(text), "| layer | owns | never imports |\n|---|---|---|\n")
	if !found {
		t.Fatal("docs/architecture.md has no table of layers")
	}
	names := func(cell string) (all []string) {
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			if m[2] != "" {
				m[1] = belowTranscode
			}
			all = append(all, m[1])
		}
		return all
	}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			break
		}
		layers = append(layers, layer{names(cells[1]), names(cells[3])})
	}
	return layers
}

// under reports whether a package is one of a path, or below it.
func under(pkg, path string) bool {
	return pkg == path || strings.HasPrefix(pkg, strings.TrimSuffix(path, "/")+"/")
}

// owner is the row of a package: the one that names most of its path.
func owner(layers []layer, pkg string) int {
	best, length := -1, 0
	for i, r := range layers {
		for _, p := range r.packages {
			if under(pkg, p) && len(p) > length {
				best, length = i, len(p)
			}
		}
	}
	return best
}

// TestLayers: the table of layers has every package, none imports what its row must not
// know, directly or through others, and the linter has the same rules.
func TestLayers(t *testing.T) {
	t.Parallel()
	layers := readLayers(t)
	// Each package, and all that it imports, directly or not.
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, module+"...").Output()
	testenv.Must(t, err)
	for line := range strings.Lines(string(out)) {
		deps := strings.Fields(line)
		pkg := strings.TrimPrefix(deps[0], module)
		at := owner(layers, pkg)
		if at < 0 {
			t.Errorf("docs/architecture.md has no layer for %s", pkg)
			continue
		}
		for _, dep := range deps[1:] {
			inside, ours := strings.CutPrefix(dep, module)
			switch {
			case strings.HasPrefix(dep, goFuse):
				if at < owner(layers, "fs") || under(pkg, "bench") {
					t.Errorf("%s imports %s", pkg, dep)
				}
			case !ours:
			case owner(layers, inside) > at:
				t.Errorf("%s imports %s, whose layer is further down", pkg, inside)
			case owner(layers, inside) != at && slices.ContainsFunc(layers[at].never, func(p string) bool { return inside != strings.TrimSuffix(p, "/") && under(inside, p) || inside == p }):
				t.Errorf("%s imports %s", pkg, inside)
			}
		}
	}
	checkLinter(t, layers)
}

// checkLinter compares the linter's rules with the table. They see direct imports only, but
// at once.
func checkLinter(t *testing.T, layers []layer) {
	const path, begin, end = "../../.golangci.yml", "        # made from docs/architecture.md", "formatters:\n"
	text, err := os.ReadFile(path)
	testenv.Must(t, err)
	i, j := strings.Index(string(text), begin), strings.Index(string(text), end)
	if i < 0 || j < i {
		t.Fatalf("%s has no rules for layers", path)
	}
	want := begin + ": go test ./internal/e2e -run Layers -update-layers\n" + linterRules(layers)
	if string(text[i:j]) == want {
		return
	}
	if !*updateLayers {
		t.Errorf("%s has other rules than docs/architecture.md; run go test ./internal/e2e -run Layers -update-layers", path)
		return
	}
	testenv.Must(t, os.WriteFile(path, slices.Concat(text[:i], []byte(want), text[j:]), 0o644))
}

func linterRules(layers []layer) string {
	var b strings.Builder
	for i, r := range layers {
		var files, deny []string
		for _, p := range r.packages {
			files = append(files, fmt.Sprintf("%q", "${config-path}/"+p+"/**"))
		}
		for k, other := range layers {
			for _, p := range other.packages {
				if k != i && slices.ContainsFunc(r.packages, func(own string) bool { return under(p, own) }) {
					files = append(files, fmt.Sprintf("%q", "!${config-path}/"+p+"/**"))
				}
				if k > i {
					deny = append(deny, module+p)
				}
			}
		}
		for _, p := range r.never {
			deny = append(deny, module+p)
		}
		if !slices.Contains(r.packages, "fs") {
			deny = append(deny, goFuse)
		}
		slices.Sort(deny)
		fmt.Fprintf(&b, "        %s:\n          files: [%s, \"!$test\"]\n          deny: [", strings.ReplaceAll(r.packages[0], "/", "-"), strings.Join(files, ", "))
		last := ""
		for _, p := range deny {
			if last == "" || !strings.HasPrefix(p, last) { // what has a prefix of it is denied as well
				fmt.Fprintf(&b, "%s{pkg: %s, desc: *layers}", map[bool]string{true: ", "}[last != ""], p)
				last = p
			}
		}
		b.WriteString("]\n")
	}
	return b.String()
}

// TestNamedFiles: docs/architecture.md names no file that is not there.
func TestNamedFiles(t *testing.T) {
	text, err := os.ReadFile("../../docs/architecture.md")
	testenv.Must(t, err)
	for _, m := range regexp.MustCompile("`([a-z0-9_/]+\\.go)`").FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(filepath.Join("../..", m[1])); err != nil {
			t.Error(err)
		}
	}
}
