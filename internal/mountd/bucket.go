package mountd

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/pipefs/pipefs/internal/blockcache"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/source/bucket"
	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/store/vfs"
)

// OpenBucket opens the dataset in a place. Where o names neither a manifest nor a directory for
// lists, these are kept in the cache directory of the user.
func OpenBucket(ctx context.Context, place blob.Objects, o bucket.Options) (*bucket.Bucket, error) {
	if s, ok := place.(interface{ Endpoint() string }); ok {
		o.Server = s.Endpoint()
	}
	if o.Dir == "" && o.Manifest == "" {
		root, err := CacheRoot()
		if err != nil {
			return nil, err
		}
		a := remote.Access{Dir: root.Dir()}
		o.Dir = a.Lists(place.String())
		if o.Log == nil {
			o.Log = slog.New(slog.DiscardHandler)
		}
		o.Held = a.Hold(place.String(), o.Log)
	}
	return bucket.Open(ctx, place, o)
}

// openBucket opens the dataset at a URL, or at a path that a manifest lists.
func (m *Mount) openBucket(ctx context.Context, at string, limit *vfs.Bucket) (source.Dataset, error) {
	c := m.config
	var place blob.Objects
	var err error
	progress := m.progress(at + " to be listed: %s objects")
	o := bucket.Options{Manifest: c.Read.Manifest, MaxAge: c.Read.Refresh, MemoryBytes: m.memory.blocks, Log: m.log, Progress: func(objects int64) { progress(objects, 0) }}
	if limit != nil {
		o.Limit = limit
	}
	if remote.Is(at) {
		place, err = m.connect(ctx, at)
		o.Cache = m.openBlocks()
	} else {
		place, err = blob.OpenDirectory(at)
	}
	if err != nil {
		return nil, err
	}
	b, err := OpenBucket(ctx, place, o)
	if err != nil {
		return nil, err
	}
	m.bucket = b
	if s := b.Summary(); s.LeftOut > 0 {
		c.note(fmt.Sprintf("%d objects of %s are left out, because their names are no paths of files", s.LeftOut, s.Place))
	}
	return b, nil
}

// ofCommit says when changes in a dataset of the Hub are seen.
const ofCommit = "not seen: the mount shows one commit; mount the dataset again for a later one"

// freshnessOfBucket says when changes are seen.
func freshnessOfBucket(b *bucket.Bucket, age time.Duration) string {
	s := b.Summary()
	if blob.IsHub(s.Place) {
		return ofCommit
	}
	text := fmt.Sprintf("seen when the list of names is made again, by pipefs refresh: this one has %d objects, as of %s",
		s.Objects, s.Listed.Format(time.DateTime))
	if age > 0 {
		text += fmt.Sprintf("; it is made again when it is older than %s", age)
	}
	return text
}

// fetchedAhead is how many samples of an epoch are fetched before they are made: twice as many as are
// requested at once. What cannot be kept on the disk has to fit into the memory that the block cache has for it.
func (m *Mount) fetchedAhead() int {
	if m.blocks == nil {
		return 0
	}
	return 2 * serve.MaxAhead
}

// blockCounters say what was fetched of a bucket, and what came from the disk instead.
func blockCounters(c *blockcache.Cache) []control.Counter {
	if c == nil {
		return nil
	}
	const group = "disk cache"
	s := c.Stats()
	return []control.Counter{
		{Group: group, Name: "blocks read from it", Value: s.Hits},
		{Group: group, Name: "blocks that a reader waited for", Value: s.Misses},
		{Group: group, Name: "requests to the bucket", Value: s.Requests},
		{Group: group, Name: "fetched", Value: s.Fetched, Unit: control.Bytes},
		{Group: group, Name: "read from it", Value: s.Cached, Unit: control.Bytes},
		{Group: group, Name: "kept of this bucket", Value: s.Kept, Unit: control.Bytes},
		{Group: group, Name: "fetched, and not kept: it is full", Value: s.Skipped, Unit: control.Bytes},
		{Group: group, Name: "removed at the limit", Value: s.Evicted, Unit: control.Bytes},
		{Group: group, Name: "blocks that were damaged, and fetched again", Value: s.Damaged},
	}
}
