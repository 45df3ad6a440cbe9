package survey

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/serve"
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

// littleRoom is where a cache hardly pays: a tenth of it is used.
const littleRoom = 1e9 // bytes

// NoteCache tells that a directory to keep things in is slow, or small. The option
// names another one.
func NoteCache(note func(string, ...any), dir, option string) {
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
		return fmt.Sprintf("where only %s are free", human.Size(free))
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

// NoteSpared says which samples a view spares, if it does.
func NoteSpared(note func(string, ...any), c serve.Spared) {
	if text := c.String(); text != "" {
		note("%s", text)
	}
}
