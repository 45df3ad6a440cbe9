package mountd

import (
	"github.com/pipefs/pipefs/internal/blockcache"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/serve"
)

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
		{Group: group, Name: "removed, to make room", Value: s.Evicted, Unit: control.Bytes},
		{Group: group, Name: "blocks that were damaged, and fetched again", Value: s.Damaged},
	}
}
