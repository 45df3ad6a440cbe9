package l3gpu

import (
	"encoding/binary"
	"slices"

	"github.com/pipefs/pipefs/l3gpu/kernel"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// piece is a part of a batch that is sent, decoded and fetched at once. Its slot
// holds, from the beginning, each at a multiple of areaAlign:
//
//	scratch   memory of the program, on the GPU alone
//	records   the tables of pictures and patches
//	files     each followed by zeros
//	statuses  what became of each picture
//	samples   of each picture
//
// Records to statuses go to the GPU, statuses and samples come back.
type piece struct {
	room     int64
	pictures []planned
	need     areas
	plan     *kernel.Plan

	records, statuses int64 // where they begin
	end               int64
}

// areas are the sizes of those of a slot.
type areas struct{ scratch, records, files, statuses, samples int64 }

func (a areas) total() int64 {
	return alignUp(a.scratch, areaAlign) + alignUp(a.records, areaAlign) + alignUp(a.files, areaAlign) + alignUp(a.statuses, areaAlign) + a.samples
}

// planned is a picture of a piece.
type planned struct {
	number int // of its job
	job    *l3.Job
	place  place
	// file and samples are where in the slot those are.
	file, samples int64
	damaged       bool // its checksums differ
}

const areaAlign = 256

func alignUp(n, to int64) int64 { return (n + to - 1) &^ (to - 1) }

// add takes a picture in, if there is room.
func (p *piece) add(number int, j *l3.Job) bool {
	s := j.Samples
	pl := placeFor(j.Dst, s.Width, s.Height, s.Mode.Channels(), s.Mode.Depth()/8)
	need := p.need
	// A file has fewer patches than bytes, or else it is damaged.
	patches := int64(s.Columns()) * int64((s.Height-1)/s.PatchHeight+1)
	if patches > int64(len(s.Source())) {
		return false
	}
	need.records += kernel.PictureLen + patches*kernel.PatchLen
	need.scratch += patches * scratchOf(s)
	need.files += fileRoom(s)
	need.statuses += kernel.StatusLen
	need.samples += alignUp(int64(pl.size), areaAlign)
	if need.total() > p.room {
		return false
	}
	p.need = need
	p.pictures = append(p.pictures, planned{number: number, job: j, place: pl})
	return true
}

// scratchOf is the most scratch memory that a patch needs.
func scratchOf(s *l3.Samples) int64 {
	if s.Version == 1 {
		return 0
	}
	return alignUp(2*int64(min(s.PatchWidth, s.Width)*s.Mode.Channels()), kernel.Alignment)
}

func fileRoom(s *l3.Samples) int64 {
	return alignUp(int64(len(s.Source()))+kernel.Padding, kernel.Alignment)
}

// arrange decides what lies where in a slot at an address of the GPU, and plans the
// decoding.
func (p *piece) arrange(address uint64) {
	p.records = alignUp(p.need.scratch, areaAlign)
	file := p.records + alignUp(p.need.records, areaAlign)
	p.statuses = file + alignUp(p.need.files, areaAlign)
	p.end = p.statuses + alignUp(int64(len(p.pictures))*kernel.StatusLen, areaAlign)
	pictures := make([]kernel.Picture, len(p.pictures))
	for i := range p.pictures {
		q := &p.pictures[i]
		q.file = file
		file += fileRoom(q.job.Samples)
		t := kernel.Target{Low: address + uint64(p.end)}
		q.samples = p.end
		p.end += alignUp(int64(q.place.size), areaAlign)
		t.High = t.Low + uint64(q.place.size)
		t.Base = t.Low + uint64(q.place.layout.Base)
		t.Row, t.Pixel, t.Channel = int64(q.place.layout.Row), int64(q.place.layout.Pixel), int64(q.place.layout.Channel)
		pictures[i] = kernel.Picture{Samples: q.job.Samples, Source: address + uint64(q.file), Target: t}
	}
	p.plan = kernel.New(pictures)
}

// copyFile writes the file of a picture to its place in the slot, and compares its checksums
// while its bytes are in the cache.
func (q *planned) copyFile(slot []byte) {
	b := slot[q.file:][:fileRoom(q.job.Samples)]
	clear(b[copy(b, q.job.Samples.Source()):])
	q.damaged = q.job.Samples.Verify() != nil
}

// writeTables writes the tables, given the address of the slot.
func (p *piece) writeTables(slot []byte, address uint64) error {
	pictures, patches := p.plan.Records(address)
	if int64(len(pictures)+len(patches)) > p.need.records || p.plan.Scratch > p.need.scratch {
		return transcode.Errorf(transcode.ErrInternal, "L3: tables of %d and %d bytes and %d of scratch memory, where %d and %d were expected",
			len(pictures), len(patches), p.plan.Scratch, p.need.records, p.need.scratch)
	}
	copy(slot[p.records+int64(copy(slot[p.records:], pictures)):], patches)
	statuses := p.statusesIn(slot)
	for i := range statuses {
		statuses[i] = 0xff
	}
	return nil
}

func (p *piece) statusesIn(slot []byte) []byte {
	return slot[p.statuses:][:len(p.pictures)*kernel.StatusLen]
}

// decoded reports whether the GPU decoded picture i.
func (p *piece) decoded(slot []byte, i int) bool {
	return !p.pictures[i].damaged && p.plan.Err(i, binary.LittleEndian.Uint32(p.statusesIn(slot)[i*kernel.StatusLen:])) == nil
}

// dimension is rows, pixels or channels: how many there are, and how many bytes apart.
type dimension struct{ stride, extent int }

// place is a picture in device memory: in the order of its target but without its gaps. So one
// copy brings it to the host, and few copies there put it into the target.
type place struct {
	layout transcode.Layout // offsets from the picture's first byte
	size   int              // bytes of the picture
	run    int              // bytes that lie together in both
	outer  [3]dimension     // of the target in memory, widest first, over the runs
	base   int              // where in the target's memory the picture begins
}

// placeFor arranges a picture of a target that was checked.
func placeFor(t transcode.Target, width, height, channels, sample int) place {
	p := place{size: sample, run: sample, base: t.Base}
	var packed [3]int // strides of channel, pixel, row
	dims := [3]dimension{{t.Channel, channels}, {t.Pixel, width}, {t.Row, height}}
	narrowFirst := []int{0, 1, 2}
	slices.SortStableFunc(narrowFirst, func(a, b int) int { return magnitude(dims[a].stride) - magnitude(dims[b].stride) })
	for i := range p.outer {
		p.outer[i].extent = 1
	}
	whole := true // what came so far has no gaps in the target
	for i, which := range narrowFirst {
		d := dims[which]
		packed[which] = p.size
		if d.stride < 0 {
			packed[which] = -p.size
			p.layout.Base += p.size * (d.extent - 1)
			p.base += d.stride * (d.extent - 1)
		}
		if d.extent == 1 {
			continue
		}
		if whole = whole && magnitude(d.stride) == p.size; whole {
			p.run *= d.extent
		} else {
			p.outer[2-i] = dimension{magnitude(d.stride), d.extent}
		}
		p.size *= d.extent
	}
	p.layout.Channel, p.layout.Pixel, p.layout.Row = packed[0], packed[1], packed[2]
	return p
}

// copyTo copies the picture to its target.
func (p *place) copyTo(pix, picture []byte) {
	for a := range p.outer[0].extent {
		for b := range p.outer[1].extent {
			at := p.base + a*p.outer[0].stride + b*p.outer[1].stride
			for range p.outer[2].extent {
				copy(pix[at:at+p.run], picture)
				picture = picture[p.run:]
				at += p.outer[2].stride
			}
		}
	}
}

func magnitude(n int) int { return max(n, -n) }
