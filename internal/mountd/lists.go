package mountd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// What is looked at for absolute paths, each time that something is mounted: a few small
// files at the top of the dataset.
const (
	listNames = 10_000 // of the directory
	listFiles = 16
	listBytes = 1 << 20
)

// inPath is what goes on with a path, rather than to end it.
const inPath = `0-9A-Za-z./_~@%+\x{80}-\x{10FFFF}-`

// PathsInto names the lists of samples at the top of a dataset that hold one of the paths,
// or a path below it, and the line of the first: train.txt:1.
func PathsInto(dataset string, paths ...string) (found []string) {
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
