package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/serve"
)

func noter(w io.Writer) func(format string, args ...any) {
	return func(format string, args ...any) { fmt.Fprintf(w, "pipefs: note: "+format+"\n", args...) }
}

// noteLists names files of a dataset that lead past its mount at dir.
func noteLists(note func(string, ...any), dataset, dir string) {
	abs, err := filepath.Abs(dataset)
	if err != nil {
		return
	}
	real, err := mounts.Resolve(abs)
	if err != nil {
		return
	}
	if found := listsInto(real, abs, real); len(found) > 0 {
		note("%s: absolute paths into %s; a loader that follows them reads past the mount. Write relative paths there, or those of a view: %s/VIEW/…", strings.Join(found, ", "), abs, dir)
	}
}

// What is looked at for absolute paths, each time that something is mounted: a few small
// files at the top of the dataset.
const (
	listNames = 10_000 // of the directory
	listFiles = 16
	listBytes = 1 << 20
)

// inPath is what goes on with a path, rather than to end it.
const inPath = `0-9A-Za-z./_~@%+\x{80}-\x{10FFFF}-`

// listsInto names the lists of samples at the top of a dataset that hold one of the paths,
// or a path below it, and the line of the first: train.txt:1.
func listsInto(dataset string, paths ...string) (found []string) {
	for i, p := range paths {
		paths[i] = regexp.QuoteMeta(p)
	}
	into := regexp.MustCompile(`(?m)(?:^|[^` + inPath + `]|file://)(?:` + strings.Join(paths, "|") + `)(?:/|[^` + inPath + `]|$)`)
	dir, err := os.Open(dataset)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(listNames) // what there is of it
	names = slices.DeleteFunc(names, func(name string) bool {
		return !slices.Contains([]string{".txt", ".csv", ".tsv", ".json", ".jsonl", ".yaml", ".yml"}, strings.ToLower(filepath.Ext(name)))
	})
	slices.Sort(names)
	for _, name := range names[:min(len(names), listFiles)] {
		path := filepath.Join(dataset, name)
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() > listBytes {
			continue
		}
		text, err := os.ReadFile(path)
		if at := into.FindIndex(text); err == nil && at != nil {
			found = append(found, fmt.Sprintf("%s:%d", name, 1+bytes.Count(text[:at[0]+1], []byte("\n"))))
		}
	}
	return found
}

// littleRoom is where a cache hardly pays: a tenth of it is used.
const littleRoom = 1e9 // bytes

// noteCache tells that a directory to keep things in is slow, or small. The option
// names another one.
func noteCache(note func(string, ...any), dir, option string) {
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer f.Close()
	kind, err := mounts.FileSystemOf(int(f.Fd()))
	free, freeErr := cachedir.Free(dir)
	if err != nil || freeErr != nil {
		return
	}
	if why := slowOrSmall(kind, free); why != "" {
		note("what is prepared is kept in %s, %s. Keep it on a local disk with room: %s %s", dir, why, option, localDisk())
	}
}

func slowOrSmall(kind mounts.FileSystem, free int64) string {
	switch {
	case !kind.Local:
		return fmt.Sprintf("on no local disk that pipefs knows (%s), and may be slower there than made again", kind.Name)
	case free < littleRoom:
		return fmt.Sprintf("where only %s are free", formatSize(free))
	}
	return ""
}

// localDisk is a directory of the job on the machine's own disk, as far as anything
// tells of one.
func localDisk() string {
	const variable = "SLURM_TMPDIR"
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return "$" + variable + "/pipefs"
	}
	return "DIR"
}

// noteSpared says which samples a view spares, if it does.
func noteSpared(w io.Writer, c serve.Spared) {
	if text := c.String(); text != "" {
		noter(w)("%s", text)
	}
}

// tellRefusals says each in a line.
func tellRefusals(refused []*serve.Refusal, tell func(line string)) {
	for i, e := range refused {
		if i == serve.MostTold {
			tell(fmt.Sprintf("%s refused for the same reason", plural(len(refused)-i, "more directory is", "more directories are")))
			return
		}
		tell(e.Error())
	}
}
