package survey

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

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
	return prefixed(dir, ViewNames(name))
}

func prefixed(front string, list []string) []string {
	for i := range list {
		list[i] = front + list[i]
	}
	return list
}
