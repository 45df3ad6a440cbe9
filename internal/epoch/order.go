package epoch

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/transcode"
)

// order is the permutation of n samples in an epoch: which of the list comes when.
//
// The generator is that of the draws, with a domain that no step has. The shuffle is that
// of Fisher and Yates, from the end.
//
// With a window the order is quasi-random: blocks of samples that follow each other in the list are
// shuffled, and then the samples of so many blocks in turn as make a window.
func order(seed, epoch uint64, n, window int) []uint32 {
	domain := fmt.Sprintf("order of %d samples", n)
	if window != 0 {
		domain = fmt.Sprintf("order of %d samples in windows of %d", n, window)
	}
	random := transcode.Draw{Seed: seed, Epoch: epoch}.Random(domain)
	if window == 0 || window >= n {
		samples := upTo(n)
		shuffle(random, samples)
		return samples
	}
	blocks := upTo((n + blockSize - 1) / blockSize)
	shuffle(random, blocks)
	samples := make([]uint32, 0, n)
	for _, b := range blocks {
		for i := int(b) * blockSize; i < min((int(b)+1)*blockSize, n); i++ {
			samples = append(samples, uint32(i))
		}
	}
	for part := range slices.Chunk(samples, window) {
		shuffle(random, part)
	}
	return samples
}

// blockSize is how many samples of a list follow each other in a quasi-random order before it is cut up:
// 32 photographs of 100 KB are read from a disk about as fast as many.
const blockSize = 32

// upTo is the numbers below n.
func upTo(n int) []uint32 {
	numbers := make([]uint32, n)
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	return numbers
}

func shuffle(random *transcode.Random, samples []uint32) {
	for i := len(samples) - 1; i > 0; i-- {
		j := random.Upto(i)
		samples[i], samples[j] = samples[j], samples[i]
	}
}

// share is what one rank gets of n samples, and in what batches.
type share struct {
	n, world, rank, batch int
	from                  int // places of the order that were read before, by any ranks
	drop                  bool
}

// len is the number of samples of the rank, those of a last batch that is dropped not
// counted.
func (s share) len() int {
	left := s.n - s.from
	if !s.drop {
		return (left + s.world - 1) / s.world
	}
	return left / s.world / s.batch * s.batch
}

// batches is their number.
func (s share) batches() int { return (s.len() + s.batch - 1) / s.batch }

// size is the number of samples of a batch.
func (s share) size(batch int) int { return min(s.batch, s.len()-batch*s.batch) }

// at is the place in the order of the i-th sample of the rank.
func (s share) at(i int) int { return (s.from + i*s.world + s.rank) % s.n }

// padded is how many places of all ranks together repeat a sample, and dropped how many
// samples no rank gets. The rank itself pads its last place, or nothing.
func (s share) padded() int  { return max(s.from+s.len()*s.world-s.n, 0) }
func (s share) dropped() int { return max(s.n-s.from-s.len()*s.world, 0) }

func (s share) paddedOfRank() int {
	if s.rank >= s.world-s.padded() {
		return 1
	}
	return 0
}

// Tree is the dataset's tree as far as names go.
type Tree interface {
	// Version is a number that changes whenever names in the tree do. All directories are
	// looked at for it, unless they were a moment ago.
	Version() (uint64, error)
	// Members are those of a directory, by name. Where it is not there the error is
	// [io/fs.ErrNotExist].
	Members(dir string) ([]Member, error)
	// Path of the member with that ID, also where it went since.
	Path(id uint32) string
	// Listed is the path under which a view lists a file.
	Listed(p transcode.Pipeline, path string) (string, error)
}

// Member is a file or directory.
type Member struct {
	Name string
	ID   uint32
	Dir  bool
}

// list is a list of samples. It never changes.
type list struct {
	tree    Tree
	version uint64
	dir     string
	ids     []uint32
	classes []string
	ends    []int // of each class in ids
	beside  int   // samples that lie beside the classes, which are left out
	// masks are those of the samples, if all have one. unmasked is why there are none, if some do.
	masks    []uint32
	unmasked error

	// Of the rows of a table:
	stamp   source.Identity // of the table
	labels  []int64         // of each sample, instead of ends
	repeats []uint32        // how many rows before have the same sample; nil: none has

	columns columns

	byLabelOnce sync.Once
	byLabel     map[int64][]uint32 // samples, of a table

	digestOnce, stateOnce sync.Once
	digest                string
	state                 [sha256.Size]byte
}

// newList lists what ImageFolder lists. Samples of a directory in which there are no
// directories are of no class, and so are those of the directory unlabelled, which is behind all classes.
func (v *Views) newList(version uint64, dir, unlabelled string) (*list, error) {
	l := &list{tree: v.tree, version: version, dir: dir}
	members, err := v.tree.Members(dir)
	if err != nil {
		return nil, fmt.Errorf("the directory %q of the dataset: %w", dir, err)
	}
	var top []uint32
	for _, m := range members {
		switch {
		case m.Dir:
			if err := l.add(v.isSample, path.Join(dir, m.Name)); err != nil {
				return nil, err
			}
			if m.Name != unlabelled {
				l.classes = append(l.classes, m.Name)
				l.ends = append(l.ends, len(l.ids))
			}
		case v.isSample(dir, m.Name):
			top = append(top, m.ID)
		}
	}
	if len(l.classes) == 0 && len(l.ids) == 0 {
		l.ids, top = top, nil
	}
	l.beside = len(top)
	l.ids = slices.Clip(l.ids)
	return l, nil
}

func (v *Views) isSample(dir, name string) bool {
	return v.o.Registry.IsSample(name) && (len(v.o.Roles.Pairs) == 0 || !v.isMask(path.Join(dir, name)))
}

// add adds the samples below a class, directory by directory in the order of their paths.
func (l *list) add(isSample func(dir, name string) bool, class string) error {
	type found struct {
		dir string
		ids []uint32
	}
	var all []found
	var walk func(dir string) error
	walk = func(dir string) error {
		members, err := l.tree.Members(dir)
		if errors.Is(err, iofs.ErrNotExist) {
			return nil // it went since its parent was listed
		} else if err != nil {
			return err
		}
		here := found{dir: dir}
		for _, m := range members {
			if m.Dir {
				if err := walk(path.Join(dir, m.Name)); err != nil {
					return err
				}
			} else if isSample(dir, m.Name) {
				here.ids = append(here.ids, m.ID)
			}
		}
		all = append(all, here)
		return nil
	}
	if err := walk(class); err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b found) int { return strings.Compare(a.dir, b.dir) })
	for _, f := range all {
		l.ids = append(l.ids, f.ids...)
	}
	return nil
}

// noClass is the label of a sample that is in no class.
const noClass = -1

// label is the index of the class of the i-th sample.
func (l *list) label(i int) int64 {
	switch {
	case l.labels != nil:
		return l.labels[i]
	case len(l.ends) == 0 || i >= l.ends[len(l.ends)-1]:
		return noClass
	}
	return int64(sort.SearchInts(l.ends, i+1))
}

// path is that of the i-th sample in the dataset.
func (l *list) path(i int) string { return l.tree.Path(l.ids[i]) }

// repeat is how many rows before the i-th have the same sample.
func (l *list) repeat(i int) uint32 {
	if l.repeats == nil {
		return 0
	}
	return l.repeats[i]
}

// same reports whether two lists of one directory or table are equal.
func (l *list) same(m *list) bool {
	return slices.Equal(l.ids, m.ids) && slices.Equal(l.classes, m.classes) && slices.Equal(l.labels, m.labels) &&
		slices.Equal(l.masks, m.masks) && fmt.Sprint(l.unmasked) == fmt.Sprint(m.unmasked)
}

// identity tells lists of one mount apart: all that batches hold of them but the samples.
func (l *list) identity() [sha256.Size]byte {
	l.stateOnce.Do(func() {
		h := sha256.New()
		fmt.Fprintf(h, "%q %d %d", l.classes, l.ends, len(l.ids))
		b := make([]byte, 0, 4*len(l.ids)+4*len(l.masks)+8*len(l.labels))
		for _, id := range slices.Concat(l.ids, l.masks) {
			b = binary.LittleEndian.AppendUint32(b, id)
		}
		for _, label := range l.labels {
			b = binary.LittleEndian.AppendUint64(b, uint64(label))
		}
		h.Write(b)
		h.Sum(l.state[:0])
	})
	return l.state
}

// sum tells lists apart: the SHA-256 of all paths, each with a newline behind it, and of rows
// of a table with a tab and the label before that.
func (l *list) sum() string {
	l.digestOnce.Do(func() {
		h := sha256.New()
		w := bufio.NewWriter(h) // a hash takes all
		for i := range l.ids {
			_, _ = w.WriteString(l.path(i))
			if l.labels != nil {
				fmt.Fprintf(w, "\t%d", l.labels[i])
			}
			_ = w.WriteByte('\n')
		}
		_ = w.Flush()
		l.digest = hex.EncodeToString(h.Sum(nil))
	})
	return l.digest
}

// Samples is the list of the samples below a directory of the dataset, as ImageFolder of
// torchvision lists them. It never changes.
type Samples struct{ list *list }

// Samples returns the current list of a directory; "" is all of the dataset.
func (v *Views) Samples(dir string) (*Samples, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	l, err := v.newest(dir)
	if err != nil {
		return nil, err
	}
	return &Samples{l}, nil
}

// Len is the number of samples.
func (s *Samples) Len() int { return len(s.list.ids) }

// Path of a sample in the dataset.
func (s *Samples) Path(i int) string { return s.list.path(i) }

// Same reports whether both are one list.
func (s *Samples) Same(other *Samples) bool { return s.list == other.list }

// Digest tells lists apart: the SHA-256 of all paths, each with a newline behind it, in
// hexadecimal digits.
func (s *Samples) Digest() string { return s.list.sum() }
