package shard

import "github.com/pipefs/pipefs/store"

const (
	// workerBytes is what the files take that a worker encodes at once, unless one takes more.
	workerBytes = 256 << 20
	// programBytes is what the program takes beside what it packs: codecs, the descriptions of a pack.
	programBytes = 256 << 20
	// describeBytes is what describes a pack: its footer and its segment.
	describeBytes = 64 << 20
)

// Needs is what a worker takes at most, in bytes: of memory, apart from what single pictures of very many
// pixels take, and of the local disk.
func (p *Plan) Needs() (memory, disk int64) {
	one := store.ShardGrowth * p.Largest
	record := max(one, min(p.Options.RecordBytes, int64(p.Options.RecordImages)*one))
	memory = programBytes + max(workerBytes, one) + record + 4*p.LongestBlock
	disk = p.Options.PackBytes + max(p.Options.RecordBytes, one, p.Verbatim) + describeBytes
	return memory, disk
}
