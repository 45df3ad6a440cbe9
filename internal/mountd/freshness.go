package mountd

import (
	"errors"
	"fmt"
	"time"

	"github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/source/archive"
	"github.com/pipefs/pipefs/internal/source/bucket"
)

// freshness is how a mount learns what changes in its dataset.
type freshness struct {
	kind    fs.Freshness
	watcher *source.Watcher // of a mount that watches
	text    string          // for the user
}

// freshnessOf decides it, once for the whole mount. shown is the dataset whose names the
// mount shows, nil for those of a store.
func freshnessOf(shown source.Dataset, r Reading) freshness {
	if c, is := shown.(*source.Classes); is {
		if _, directory := c.Dataset.(*source.Directory); !directory {
			shown = c.Dataset
		}
	}
	b, isBucket := shown.(*bucket.Bucket)
	a, isArchives := shown.(*archive.Dataset)
	switch {
	case shown == nil:
		return freshness{fs.Immutable, nil, freshnessOfStore(r.Refresh)}
	case isBucket:
		return freshness{fs.Immutable, nil, freshnessOfBucket(b, r.Refresh)}
	case isArchives:
		return freshness{fs.Immutable, nil, freshnessOfArchives(a)}
	case r.Immutable:
		return freshness{fs.Immutable, nil, "not looked for (--immutable)"}
	}
	w, err := watch(shown)
	if err != nil {
		return freshness{fs.Checked, nil, fmt.Sprintf("seen when a file is opened, and in names and attributes after a second, since the dataset cannot be watched: %v; "+
			"if it does not change, --immutable saves two requests for each file that is opened", err)}
	}
	return freshness{fs.Watched, w, "seen within milliseconds: its directories are watched"}
}

// freshnessOfStore says when a newer generation is seen.
func freshnessOfStore(age time.Duration) string {
	text := "seen when a newer generation of the store is taken up, by pipefs refresh"
	if age > 0 {
		text += fmt.Sprintf("; it is looked for every %s", age)
	}
	return text
}

// watch begins to watch a dataset, if it is of a kind that can be.
func watch(shown source.Dataset) (*source.Watcher, error) {
	d, ok := shown.(*source.Directory)
	if !ok {
		return nil, errors.New("it is no directory, or --classes names its directories")
	}
	return d.Watch()
}

// counters are those of what is watched.
func (f freshness) counters(s fs.Stats) []control.Counter {
	if f.kind != fs.Watched {
		return nil
	}
	return []control.Counter{
		{Group: "tree", Name: "directories watched", Value: int64(s.Watched)},
		{Group: "tree", Name: "directories and links that could not be", Value: int64(s.Unwatched)},
	}
}
