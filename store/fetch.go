package store

import "github.com/pipefs/pipefs/store/vfs"

// Fetch lets the system begin to read all of the representation, which is read soon. It is only advice.
func (r *Reader) Fetch() {
	for i := 0; i < len(r.parts); {
		k, off, end := r.packs[i], r.parts[i].Off, r.parts[i].Off
		for ; i < len(r.parts) && r.packs[i] == k && r.parts[i].Off == end; i++ {
			end += r.parts[i].Len
		}
		f, err := k.acquire()
		if err != nil {
			return // the read itself will say so
		}
		if a, ok := f.(vfs.Advised); ok {
			_, piece := a.Ahead()
			for ; off < end; off += piece {
				a.Fetch(off, min(piece, end-off))
			}
		}
		k.release()
	}
}
