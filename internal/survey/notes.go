package survey

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pipefs/pipefs/internal/doctor"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// NoteLists names files of a dataset that lead past its mount at dir.
func NoteLists(note func(string, ...any), dataset, dir string) {
	abs, err := filepath.Abs(dataset)
	if err != nil {
		return
	}
	real, err := mounts.Resolve(abs)
	if err != nil {
		return
	}
	if found := mountd.PathsInto(real, abs, real); len(found) > 0 {
		note("%s: absolute paths into %s; a loader that follows them reads past the mount. Write relative paths there, or those of a view: %s/VIEW/…", strings.Join(found, ", "), abs, dir)
	}
}

// NoteCache tells that a directory to keep things in is slow, or small. The option
// names another one.
func NoteCache(note func(string, ...any), dir, option string) {
	if why := doctor.PoorCache(dir); why != "" {
		note("%s. Keep it on a local disk with space: %s %s", why, option, localDisk())
	}
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

// NoteSpared says which samples a view spares, if it does.
func NoteSpared(note func(string, ...any), c serve.Spared) {
	if text := c.String(); text != "" {
		note("%s", text)
	}
}

// NoPictures says what a tree without pictures is; "" is for any other.
func NoPictures(l mountd.Listing, path string) string {
	switch {
	case len(l.Samples) > 0:
		return ""
	case l.Archive != "":
		return fmt.Sprintf("%s has no pictures that pipefs knows: all views show its %s unchanged, such as %s. That is %s",
			path, human.Plural(l.Others, "file", "files"), l.Archive, source.Archive(l.Archive, human.Word(filepath.Join(path, l.Archive))))
	case l.Others > 0:
		return fmt.Sprintf("%s has no pictures that pipefs knows: all views show its %s unchanged", path, human.Plural(l.Others, "file", "files"))
	case l.Dirs > 0:
		return fmt.Sprintf("%s is empty: there are directories in it, and no file", path)
	}
	return fmt.Sprintf("%s is empty: there is no file in it", path)
}

// RebuildCost is measured, see docs/benchmarks.md.
const RebuildCost = "about 2 to 3 ms of CPU each (photographs of 110 kB)"

// Rebuilt says how many originals a mount of the store rebuilds, what that costs and what
// helps; "" where it rebuilds none.
func Rebuilt(s *mountd.Source) (string, error) {
	n, err := s.Rebuilt()
	if err != nil || n == 0 {
		return "", err
	}
	return fmt.Sprintf("original/ rebuilds %s from scans when they are first read, at %s; --dataset DIR reads the files instead, and so does a store packed with --originals keep",
		human.Plural(n, "JPEG file", "JPEG files"), RebuildCost), nil
}

// MountPoints are those of pipefs.
func MountPoints() (list []string) {
	all, _ := mounts.Within("/")
	for _, m := range all {
		if m.Ours() {
			list = append(list, m.Mountpoint)
		}
	}
	return list
}

// usualArguments are those of steps that take too many to list.
var usualArguments = map[string]int{"resize": 256, "crop": 224, "jpeg": 90}

// maxListed bounds how many arguments of a step are listed.
const maxListed = 10

// ViewNames are the usual views, or, behind a hyphen, those that one more step makes.
func ViewNames(last string) (list []string) {
	registry := codecs.Default(transcode.Limits{})
	front := last[:strings.LastIndexByte(last, '-')+1]
	add := func(step string) {
		if _, err := registry.Parse(front + step); err == nil {
			list = append(list, front+step)
		} else if _, err := registry.Parse(front + step + "-npy"); err == nil { // it takes one more
			list = append(list, front+step+"-")
		}
	}
	for _, k := range registry.Kinds() {
		switch n := usualArguments[k.Name]; {
		case k.Name == "decode": // implied, and never written
		case k.Max == 0:
			add(k.Name)
		case n != 0:
			add(fmt.Sprint(k.Name, n))
		default:
			for n := k.Min; n <= min(k.Max, k.Min+maxListed-1); n++ {
				add(fmt.Sprint(k.Name, n))
			}
		}
	}
	if front == "" {
		return append(list, transcode.Original)
	}
	return append(list, front+transcode.Own)
}

// ViewsInMount are the views of a mount if last is the mount and the beginning of a view.
func ViewsInMount(last string) []string {
	dir, name := filepath.Split(last)
	path := dir
	if home, err := os.UserHomeDir(); err == nil && strings.HasPrefix(dir, "~/") {
		path = home + dir[1:]
	}
	path, err := filepath.Abs(path)
	if err != nil || dir == "" {
		return nil
	}
	if m, err := mounts.At(path); err != nil || m == nil || !m.Ours() {
		return nil
	}
	return Prefixed(dir, ViewNames(name))
}

// Prefixed puts a word in front of others.
func Prefixed(front string, list []string) []string {
	for i := range list {
		list[i] = front + list[i]
	}
	return list
}
