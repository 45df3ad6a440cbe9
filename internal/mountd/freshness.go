package mountd

import (
	"fmt"

	"github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/source"
)

// freshness is how a mount learns what changes in its dataset.
type freshness struct {
	kind    fs.Freshness
	watcher *source.Watcher // of a mount that watches
	text    string          // for the user
}

// freshnessOf decides it, once for the whole mount. shown is the dataset whose names the
// mount shows, nil for those of a store.
func freshnessOf(shown *source.Directory, immutable bool) freshness {
	switch {
	case shown == nil:
		return freshness{fs.Immutable, nil, "none: a store does not change while it is mounted"}
	case immutable:
		return freshness{fs.Immutable, nil, "not looked for (--immutable)"}
	}
	w, err := shown.Watch()
	if err != nil {
		return freshness{fs.Checked, nil, fmt.Sprintf("seen when a file is opened, and in names and attributes after a second, since the dataset cannot be watched: %v; "+
			"if it does not change, --immutable saves two requests for each file that is opened", err)}
	}
	return freshness{fs.Watched, w, "seen within milliseconds: its directories are watched"}
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
