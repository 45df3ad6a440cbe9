package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// defaultLimits are the words for a limit that follows the disk, as it does without a setting.
var defaultLimits = []string{"default", "auto"}

func cacheCommand(env *environ) *cli.Command {
	var all, asJSON bool
	var dir string
	return &cli.Command{
		Name: "cache", ArgsUsage: "list|clear|limit [DATASET|SIZE]", Category: administration, Usage: "show, clear and limit what mounts have cached",
		Description: "Prepared data and cached bucket data are in $XDG_CACHE_HOME/pipefs, or ~/.cache/pipefs, and are used again by the next mount of the dataset. The limit holds for all mounts of a user. Its default is a tenth of the space that would be free without the cache, at most 50GB. When the cache is full, data that no mount uses is evicted, oldest first. If nothing can be evicted, mounts continue without caching.",
		UsageText: `pipefs cache list
pipefs cache limit 20GB            # also for current mounts; default resets it, 0 keeps nothing
pipefs cache clear ~/imagenet      # data that a mount uses stays; --all clears all datasets
pipefs cache clear s3://bucket/imagenet`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Destination: &all, Usage: "with clear: clear all datasets"},
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "with list: print JSON"},
			opt("disk-cache", "DIR", "", place(intoString(&dir)), "use the directory given to mount --disk-cache"),
		},
		Action: takes(1, 2, func(_ context.Context, args []string) error {
			root, err := cacheRoot(dir)
			if err != nil {
				return err
			}
			what, of := args[0], ""
			if len(args) == 2 {
				of = args[1]
			}
			switch {
			case all && what != "clear", asJSON && what != "list":
				return exit.Errorf(exit.Usage, "--all goes with clear, and --json with list")
			case what == "list" && of == "":
				return listCache(env.stdout, root, asJSON)
			case what == "list":
				return exit.Errorf(exit.Usage, "cache list lists all datasets: leave out %s", of)
			case what == "clear" && all == (of != ""):
				return exit.Errorf(exit.Usage, "cache clear takes a dataset, or --all: pipefs cache clear ~/imagenet")
			case what == "clear":
				return clearCache(env.stdout, root, of)
			case what == "limit":
				return limitCache(env.stdout, root, of)
			}
			return exit.Errorf(exit.Usage, "cache: %w", notOneOf(what, []string{"list", "clear", "limit"}))
		}),
	}
}

// cacheRoot is a cache directory: dir, or the one of the user.
func cacheRoot(dir string) (*cachedir.Root, error) {
	if dir == "" {
		root, err := mountd.CacheRoot()
		return root, exit.With(exit.System, err)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, exit.Errorf(exit.Usage, "%s is no directory", dir)
	}
	return cachedir.Open(dir), nil
}

func listCache(w io.Writer, root *cachedir.Root, asJSON bool) error {
	entries, err := root.List()
	if err != nil {
		return err
	}
	limit, set, err := root.Limit()
	if err != nil {
		return err
	}
	kept := make([]cacheRow, len(entries))
	total := int64(0)
	for i, e := range entries {
		kept[i].Entry = e
		if e.Kind == cachedir.Overlay {
			kept[i].Views = viewsKept(e.Dir)
		}
		total += e.Bytes
	}
	if asJSON {
		return human.PrintJSON(w, struct {
			Dir      string     `json:"dir"`
			Limit    int64      `json:"limit"`
			LimitSet bool       `json:"limit_set"`
			Kept     []cacheRow `json:"kept"`
		}{root.Dir(), limit, set, kept})
	}
	if len(kept) > 0 {
		t := human.Table(w, "dataset", "kept", "what", "last used", "used by")
		for _, e := range kept {
			t.AppendRow(table.Row{e.Dataset, human.Size(e.Bytes), e.most(), e.Used.Format(time.DateTime), usedBy(&e.Entry)})
		}
		human.Right(t, 2)
		t.Render()
	}
	fmt.Fprintf(w, "%s of %s in %s\n", human.Size(total), human.Size(limit), root.Dir())
	return nil
}

// cacheRow is a slot and the views that are kept in it.
type cacheRow struct {
	cachedir.Entry
	Views map[string]int64 `json:"views"` // bytes; null for what is of a bucket
}

// viewsKept are the bytes that an overlay holds of each view; what cannot be read is
// left out.
func viewsKept(dir string) map[string]int64 {
	keys, err := store.OverlayKeys(dir)
	if err != nil {
		return nil
	}
	views := map[string]int64{}
	for key, bytes := range keys {
		name, _, _ := strings.Cut(key, "@")
		views[strings.TrimPrefix(name, decodeWord+"-")] += bytes
	}
	return views
}

// most names the views that take most.
func (r *cacheRow) most() string {
	switch r.Kind {
	case cachedir.Blocks:
		return "what was read"
	case cachedir.Known:
		return known(r.Dir)
	}
	const shown = 3
	names := slices.SortedFunc(maps.Keys(r.Views), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Views[b], r.Views[a]), cmp.Compare(a, b))
	})
	text := strings.Join(names[:min(len(names), shown)], ", ")
	if len(names) > shown {
		text += ", …"
	}
	return text
}

// known says what is known of a place.
func known(dir string) string {
	var words []string
	for _, part := range []struct{ name, word string }{
		{"lists", "names"}, {"index", "index"}, {"build", "packs that are not put yet"},
	} {
		if _, err := os.Stat(filepath.Join(dir, part.name)); err == nil {
			words = append(words, part.word)
		}
	}
	return strings.Join(words, ", ")
}

// usedBy says who uses a slot.
func usedBy(e *cachedir.Entry) string {
	switch {
	case !e.InUse:
		return ""
	case e.Use.Mount == "": // there may be several
		return "a mount"
	}
	return e.Use.Mount
}

func clearCache(w io.Writer, root *cachedir.Root, dataset string) error {
	if dataset != "" && !strings.Contains(dataset, "://") {
		var err error
		if dataset, err = mounts.Resolve(dataset); err != nil {
			return err
		}
	}
	removed, used, err := root.Clear(dataset)
	if path, ok := strings.CutPrefix(dataset, "file://"); ok && err == nil {
		var more, inUse []cachedir.Entry
		more, inUse, err = root.Clear(path) // what was read there goes by its path
		removed, used = append(removed, more...), append(used, inUse...)
	}
	if err != nil {
		return err
	}
	bytes := int64(0)
	for _, e := range removed {
		bytes += e.Bytes
	}
	for _, e := range used {
		by := usedBy(&e)
		if e.Use.Mount != "" {
			by = "the mount " + by
		}
		fmt.Fprintf(w, "left %s of %s: %s uses it\n", human.Size(e.Bytes), e.Dataset, by)
	}
	if dataset != "" && len(removed)+len(used) == 0 {
		fmt.Fprintf(w, "nothing is kept of %s\n", dataset)
		return nil
	}
	fmt.Fprintf(w, "removed %s\n", human.Size(bytes))
	return nil
}

func limitCache(w io.Writer, root *cachedir.Root, size string) error {
	if size != "" {
		limit := int64(-1)
		if !slices.Contains(defaultLimits, size) {
			var err error
			if limit, err = human.ParseSize(size); err != nil {
				return exit.Errorf(exit.Usage, "%w, and not the word default%s", err, question(transcode.Nearest(size, defaultLimits...)))
			}
		}
		if err := root.SetLimit(limit); err != nil {
			return err
		}
	}
	limit, set, err := root.Limit()
	if err != nil {
		return err
	}
	how := "as it was set"
	if !set {
		how = "a tenth of what would be free without the cache, at most 50GB"
	}
	fmt.Fprintf(w, "limit %s: %s\n", human.Size(limit), how)
	return nil
}
