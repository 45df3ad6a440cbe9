package epoch

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	iofs "io/fs"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/pipefs/pipefs/internal/account"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/transcode"
)

// View is an epoch view.
type View struct {
	of       *Views
	path     Path
	pipeline transcode.Pipeline
	counters *account.View   // of all views of this pipeline
	array    transcode.Array // of each sample
	fixed    bool            // there are files of pixels: array is that of every sample
	asked    bool            // it is no epoch: somebody asked for just these samples
	dropped  bool            // and nobody will read them; guarded by maker.mu
	mask     transcode.Array // of the mask of each sample, if it is masked
	masked   bool
	unmasked error // why it is not, although some samples have masks
	epoch    *epoch
	share    share

	ahead ahead
	read  atomic.Bool // its last batch was
	// masksRead: somebody reads the masks.
	masksRead atomic.Bool
	// settled are the batches of which is known what takes the place of samples that cannot be made,
	// and instead are these, by batch and place; guarded by maker.mu.
	settled map[int]bool
	instead map[[2]int]int
	early   int // so many of its batches are made ahead of who reads the epoch before it; guarded by maker.mu
}

// headerSize is the length of what precedes the values of an array, in bytes.
const headerSize = transcode.ArrayHeaderSize

// The names of files: that of the one that tells what the view holds, and what the names of a batch's files end with.
const (
	IndexName    = "index.json"
	pixelsSuffix = ".npy"
	labelsSuffix = ".labels.npy"
	madeSuffix   = ".made.npy"
	masksSuffix  = ".masks.npy"
	pathsSuffix  = ".paths.txt"
	listSuffix   = ".list"
)

// File of an epoch view. It never changes.
type File struct {
	view  *View
	batch int    // noBatch of IndexName
	masks bool   // of the pixels of a batch: those of the masks
	data  []byte // of a file that is no batch of pixels
}

const noBatch = -1

// Names yields the names of all files, in order.
func (w *View) Names(yield func(string) bool) {
	suffixes := []string{labelsSuffix, listSuffix, pathsSuffix}
	if w.fixed {
		suffixes = []string{labelsSuffix, pixelsSuffix, pathsSuffix}
		if w.blackens() {
			suffixes = slices.Insert(suffixes, 1, madeSuffix)
		}
		if w.masked {
			suffixes = slices.Insert(suffixes, len(suffixes)-2, masksSuffix)
		}
	}
	for k := range w.share.batches() {
		for _, suffix := range suffixes {
			if !yield(batchName(k) + suffix) {
				return
			}
		}
	}
	yield(IndexName)
}

func batchName(k int) string { return fmt.Sprintf("%06d", k) }

// File returns the file of that name. The error is [io/fs.ErrNotExist] where there is none.
func (w *View) File(name string) (*File, error) {
	if name == IndexName {
		data, err := w.index()
		return &File{view: w, batch: noBatch, data: data}, err
	}
	stem, suffix, _ := strings.Cut(name, ".")
	k, err := strconv.Atoi(stem)
	if batchName(k) != stem || k < 0 || k >= w.share.batches() {
		return nil, iofs.ErrNotExist
	}
	f := &File{view: w, batch: k}
	switch suffix = "." + suffix; {
	case suffix == pixelsSuffix && w.fixed:
	case suffix == masksSuffix && w.masked:
		f.masks = true
		w.masksRead.Store(true)
	case suffix == masksSuffix && w.unmasked != nil:
		err = w.unmasked
	case suffix == labelsSuffix:
		f.data = w.labels(k)
	case suffix == madeSuffix && w.blackens():
		f.data, err = w.made(k)
	case suffix == pathsSuffix:
		f.data, err = w.lines(k, func(_ int, path string) (string, error) { return path, nil })
	case suffix == listSuffix && !w.fixed:
		f.data, err = w.lines(k, func(i int, path string) (string, error) {
			listed, err := w.epoch.list.tree.Listed(w.pipeline, path)
			return w.pipelineOf(i).Path() + "/" + listed, err
		})
	case strings.HasSuffix(suffix, columnSuffix) && len(suffix) > len(columnSuffix):
		f.data, err = w.column(k, suffix[1:len(suffix)-len(columnSuffix)])
	default:
		return nil, iofs.ErrNotExist
	}
	return f, err
}

// Size of the file in bytes.
func (f *File) Size() int64 {
	if f.data != nil {
		return int64(len(f.data))
	}
	n := f.view.share.size(f.batch)
	if f.masks {
		return f.view.bytes(n) - f.view.pixelBytes(n)
	}
	return f.view.pixelBytes(n)
}

// pixelBytes is the size of the array of n pictures, and bytes that of a batch: with that of their masks.
func (w *View) pixelBytes(n int) int64 { return headerSize + int64(n)*w.array.Bytes() }

func (w *View) bytes(n int) int64 {
	size := w.pixelBytes(n)
	if w.masked {
		size += headerSize + int64(n)*w.mask.Bytes()
	}
	return size
}

// Same reports whether two files are one: of one view, with the same bytes.
func (f *File) Same(g *File) bool {
	return f.view == g.view && f.batch == g.batch && f.masks == g.masks && bytes.Equal(f.data, g.data)
}

// Name of a file of pixels.
func (f *File) Name() string {
	if f.masks {
		return batchName(f.batch) + masksSuffix
	}
	return batchName(f.batch) + pixelsSuffix
}

// View is the epoch view that the file is of.
func (f *File) View() *View { return f.view }

// Counters are those of all views that make the same of samples.
func (w *View) Counters() *account.View { return w.counters }

// Samples yields the paths of the samples that the file tells of.
func (f *File) Samples(yield func(string) bool) {
	if f.batch == noBatch {
		return
	}
	for i := range f.view.share.size(f.batch) {
		if !yield(f.view.epoch.list.path(f.view.sample(f.batch, i))) {
			return
		}
	}
}

// Given reports whether the view is of a table that is not in the dataset.
func (w *View) Given() bool { _, given := w.of.o.Tables[w.path.Of]; return given }

// Stat returns the attributes of the directory or table that the view is of.
func (w *View) Stat() (source.Attr, error) { return w.of.stat(w.path.Of) }

// Digest names all that the files of the view hold: views with equal digests, of one path and
// at any time, have equal files.
func (w *View) Digest() string {
	h := sha256.New()
	fmt.Fprintln(h, 2, w.path, w.of.o.Registry.Digest(w.pipeline), w.epoch.list.identity())
	if w.masked || w.unmasked != nil {
		fmt.Fprintln(h, w.of.o.Roles.Pairs, w.mask, w.unmasked)
	}
	if on := w.of.o.Server.OnError(); on != serve.Fail {
		fmt.Fprintln(h, on)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Name is the path of the view below the root of the mount; of samples that were asked for that of the view which they are of.
func (w *View) Name() string {
	if w.asked {
		return w.path.View
	}
	return w.path.String()
}

// Path says what the view is.
func (w *View) Path() Path { return w.path }

// sample is the place in the list of the i-th sample of a batch.
func (w *View) sample(k, i int) int {
	return int(w.epoch.order[w.share.at(k*w.share.batch+i)])
}

// header is what precedes the values of an array of n samples.
func header(of *transcode.Array, n int) []byte {
	return transcode.AppendArrayHeader(nil, transcode.DType(of.Type, of.Mode), append([]int{n}, of.Shape...)...)
}

// labels is the file of the labels of a batch.
func (w *View) labels(k int) []byte {
	n := w.share.size(k)
	b := transcode.AppendArrayHeader(nil, "<i8", n)
	for i := range n {
		b = binary.LittleEndian.AppendUint64(b, uint64(w.epoch.list.label(w.sample(k, i))))
	}
	return b
}

// blackens reports whether samples that cannot be made are black.
func (w *View) blackens() bool { return w.fixed && w.of.o.Server.OnError() == serve.Black }

// made is the file that tells which samples of a batch could be made.
func (w *View) made(k int) ([]byte, error) {
	samples, err := w.settle(k)
	b := transcode.AppendArrayHeader(nil, "|b1", len(samples))
	for _, i := range samples {
		if i == black {
			b = append(b, 0)
		} else {
			b = append(b, 1)
		}
	}
	return b, err
}

// lines is a file of a line for each sample of a batch, made of its path in the dataset.
// A line cannot hold a newline: it is written as \n.
func (w *View) lines(k int, line func(i int, path string) (string, error)) ([]byte, error) {
	var b []byte
	samples := make([]int, w.share.size(k))
	for i := range samples {
		samples[i] = w.sample(k, i)
	}
	if w.of.o.Server.OnError() == serve.Replace {
		var err error
		if samples, err = w.settle(k); err != nil {
			return nil, err
		}
	}
	for _, sample := range samples {
		text, err := line(sample, w.epoch.list.path(sample))
		if err != nil {
			return nil, err
		}
		b = append(append(b, strings.ReplaceAll(text, "\n", `\n`)...), '\n')
	}
	return b, nil
}

// index is the content of index.json.
type index struct {
	View      string `json:"view"`
	Directory string `json:"directory"` // of the dataset, whose samples these are; or the table whose rows they are
	Seed      uint64 `json:"seed"`
	Epoch     uint64 `json:"epoch"`
	World     int    `json:"world"`
	Rank      int    `json:"rank"`
	// Samples there are; From of them were read before, and SamplesOfRank are read by this rank, those that it
	// repeats counted.
	Samples       int  `json:"samples"`
	From          int  `json:"from"`
	SamplesOfRank int  `json:"samples_of_rank"`
	Batches       int  `json:"batches"`
	Batch         int  `json:"batch"`      // samples of each
	LastBatch     int  `json:"last_batch"` // samples of the last one
	Drop          bool `json:"drop"`
	// Padded: so many samples are read twice, of all ranks together; PaddedOfRank by this one, the last samples of
	// its last batch. Dropped: so many are read by none.
	Padded       int `json:"padded"`
	PaddedOfRank int `json:"padded_of_rank"`
	Dropped      int `json:"dropped"`
	// Beside: so many samples lie beside the directories of the classes, and are left out.
	Beside int `json:"beside_classes"`
	// Shape and DType are those of a batch that is not the last one; null where the samples
	// are not all of one size, and the batches are lists of files.
	Shape []int   `json:"shape"`
	DType *string `json:"dtype"`
	// MasksShape and MasksDType are those of the masks of a batch; null where there are none.
	MasksShape []int    `json:"masks_shape"`
	MasksDType *string  `json:"masks_dtype"`
	Classes    []string `json:"classes"`
	// List is the SHA-256 of the paths of all samples, each with a newline behind it; of the rows of a
	// table, with a tab and the label before that.
	List string `json:"list_sha256"`
	// Changed: the dataset has other samples by now than this epoch, which was begun before.
	Changed bool `json:"dataset_changed"`
}

func (w *View) index() ([]byte, error) {
	l, s := w.epoch.list, w.share
	x := index{
		View: w.path.View, Directory: w.path.Of, Seed: w.path.Seed, Epoch: w.path.Epoch, World: s.world, Rank: s.rank,
		Samples: len(l.ids), From: s.from, SamplesOfRank: s.len(), Batches: s.batches(), Batch: s.batch, Drop: s.drop,
		Padded: s.padded(), PaddedOfRank: s.paddedOfRank(), Dropped: s.dropped(), Beside: l.beside, Classes: append([]string{}, l.classes...),
		List: l.sum(), Changed: w.of.changed(w.epoch),
	}
	if x.Batches > 0 {
		x.LastBatch = s.size(x.Batches - 1)
	}
	if w.fixed {
		x.Shape, x.DType = shape(&w.array, s.batch)
	}
	if w.masked {
		x.MasksShape, x.MasksDType = shape(&w.mask, s.batch)
	}
	data, err := json.MarshalIndent(x, "", " ")
	return append(data, '\n'), err
}

// shape is that of an array of n samples, and the name of its type.
func shape(of *transcode.Array, n int) ([]int, *string) {
	name := dtypeNames[of.Type]
	if of.Mode == transcode.ModeBit {
		name = "bool"
	}
	return append([]int{n}, of.Shape...), &name
}

// dtypeNames are NumPy's.
var dtypeNames = [...]string{transcode.Uint8: "uint8", transcode.Uint16: "uint16", transcode.Float32: "float32"}
