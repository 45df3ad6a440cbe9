package store

import "maps"

// Stats describes what a store holds.
type Stats struct {
	Dataset      string           `json:"dataset"`       // path of the dataset that was packed, for messages
	RecordImages int              `json:"record_images"` // samples a record, at the latest packing
	Order        Order            `json:"order"`
	Seed         uint64           `json:"seed"`
	Samples      int64            `json:"samples"` // entries of kind File
	Dirs         int64            `json:"dirs"`
	Faults       int64            `json:"faults"` // samples that no codec could read
	Packs        int              `json:"packs"`
	Records      int64            `json:"records"`
	PackBytes    int64            `json:"pack_bytes"` // all packs, what was replaced included
	Bytes        map[string]int64 `json:"bytes"`      // of live samples, by key of the representation
}

func (s Stats) clone() Stats {
	s.Bytes = maps.Clone(s.Bytes)
	return s
}
