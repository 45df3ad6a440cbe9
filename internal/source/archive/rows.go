package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pipefs/pipefs/internal/source/names"
	"github.com/pipefs/pipefs/internal/source/parquet"
)

// A Parquet file says the names and labels of its rows in small columns, but nowhere how long its pictures are: that takes
// reading all of it. So an index has the names first. Whoever asks for the attributes of a file waits until its group of
// rows is read. All groups are read behind, and then the index is written again, with all places.

// rows are the places of values that the index of a table does not know.
type rows struct {
	*Dataset
	shards []Shard

	mu     sync.Mutex
	files  map[int]*once[*tableRows] // by shard
	groups map[groupKey]*once[[]parquet.Value]
}

type groupKey struct{ shard, group, column int }

// tableRows is a Parquet file, and where its groups begin.
type tableRows struct {
	*parquet.File
	first []int64
}

// once is made by the first that asks; all others wait.
type once[T any] struct {
	sync.Once
	value T
	err   error // damage
}

// failing keeps the error of a source, which is no damage of a file.
type failing struct {
	io.ReaderAt
	err error
}

func (f *failing) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.ReaderAt.ReadAt(b, off)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

// get makes a value once; a failure to read is no value.
func get[K comparable, T any](r *rows, all map[K]*once[T], key K, make func() (T, error, error)) (T, error) {
	r.mu.Lock()
	o := all[key]
	if o == nil {
		o = &once[T]{}
		all[key] = o
	}
	r.mu.Unlock()
	var failed error
	o.Do(func() {
		if o.value, o.err, failed = make(); failed != nil {
			o.err = failed
			r.mu.Lock()
			delete(all, key)
			r.mu.Unlock()
		}
	})
	return o.value, o.err
}

// read opens a shard as it was scanned.
func (r *rows) read(shard int, f func(in io.ReaderAt) error) (damage, failed error) {
	in, err := r.under.OpenAs(r.shards[shard].Name, r.shards[shard].Identity)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	from := &failing{ReaderAt: in}
	damage = f(from)
	return damage, cmp.Or(from.err, in.Verify())
}

func (r *rows) file(shard int) (*tableRows, error) {
	return get(r, r.files, shard, func() (*tableRows, error, error) {
		t := &tableRows{}
		damage, failed := r.read(shard, func(in io.ReaderAt) (err error) {
			t.File, err = parquet.Read(in, r.shards[shard].Identity.Size)
			return err
		})
		if damage == nil && failed == nil {
			first := int64(0)
			for _, g := range t.Groups {
				t.first = append(t.first, first)
				first += g.Rows
			}
		}
		return t, damage, failed
	})
}

// group locates the values of a column in a group, as far as it is not damaged.
func (r *rows) group(f *tableRows, key groupKey) ([]parquet.Value, error) {
	return get(r, r.groups, key, func() (values []parquet.Value, damage, failed error) {
		damage, failed = r.read(key.shard, func(in io.ReaderAt) (err error) {
			values, err = f.Locate(in, key.group, key.column)
			return err
		})
		return values, damage, failed
	})
}

// find completes an entry whose place is not known.
func (r *rows) find(e *entry) error {
	name := r.shards[e.shard].Name
	f, err := r.file(e.shard)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	g, there := slices.BinarySearch(f.first, e.row)
	if !there {
		g--
	}
	for g >= 0 && g+1 < len(f.first) && f.first[g+1] <= e.row { // groups without rows
		g++
	}
	if g < 0 || e.row-f.first[g] >= f.Groups[g].Rows || e.column >= int64(len(f.Columns)) {
		return errEntry
	}
	values, err := r.group(f, groupKey{e.shard, g, int(e.column)})
	at := e.row - f.first[g]
	switch {
	case at >= int64(len(values)):
		return fmt.Errorf("%s: row %d: %w", name, e.row, err)
	case values[at].Null:
		return fmt.Errorf("%s: row %d has no bytes", name, e.row)
	}
	e.locate(&values[at])
	return nil
}

// locate completes an entry.
func (e *entry) locate(v *parquet.Value) {
	e.codec, e.offset, e.packed, e.size = pageCodec, v.Offset, int64(v.Packed), int64(v.Size)
	e.inflated, e.place, e.compression = int64(v.Inflated), int64(v.Place), v.Codec
}

// startBehind locates all rows of the table, unless they are. The caller has no lock.
func (d *Dataset) startBehind() {
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel = cancel
	d.locating.Go(func() {
		if err := d.locateAll(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("the places of rows of Parquet files are not kept: they are looked for when a file is read", "of", d.root, "cause", err)
		}
	})
}

func (d *Dataset) stopBehind() {
	d.cancel()
	d.locating.Wait()
}

func (d *Dataset) locateAll(ctx context.Context) error {
	d.mu.RLock()
	t := d.table
	d.mu.RUnlock()
	if t.Located {
		return nil
	}
	group, locating := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for shard := range t.Shards {
		if len(t.Columns[shard]) == 0 {
			continue
		}
		f, err := t.rows.file(shard)
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		for g := range f.Groups {
			for _, column := range t.Columns[shard] {
				group.Go(func() error {
					if locating.Err() != nil {
						return locating.Err()
					}
					key := groupKey{shard, g, column}
					if _, err := t.rows.group(f, key); err != nil {
						d.log.Warn("a group of rows is damaged; its files behind the damage cannot be read", "of", t.Shards[shard].Name, "group", g, "cause", err)
					}
					return nil
				})
			}
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	known := func() (*table, error) {
		k, err := d.known()
		if k != nil && !k.Located {
			return nil, k.Close()
		}
		return k, err
	}
	next, err := names.Kept(ctx, d.keptDir(), d.log, known, func(at string) (*table, error) { return t.locate(ctx, d, at) })
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.table = next
	return t.Close()
}

// locate writes the index again, with the places of all rows but damaged ones.
func (t *table) locate(ctx context.Context, d *Dataset, at string) (*table, error) {
	w, err := names.Create(ctx, at, indexID, d.root, 2*t.Size(), d.log)
	if err != nil {
		return nil, err
	}
	var b []byte
	err = t.Walk(nil, func(key, value []byte) error {
		e, err := parse(value, t.Shards)
		if err != nil {
			return err
		}
		if e.codec == rowCodec {
			_ = t.rows.find(&e) // what is damaged is looked for again when it is read
		}
		b = e.append(b[:0])
		return w.Add(string(key), b, e.size)
	})
	if err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	s := t.Summary
	w.LeftOut = t.LeftOut
	s.Counts, s.Located = w.Counts, true
	if err := w.Finish(&s); err != nil {
		return nil, err
	}
	return d.openTable(at)
}
