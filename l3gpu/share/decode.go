package share

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pipefs/pipefs/l3gpu"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

const (
	maxPictures = 4096 // of a batch
	maxPath     = 4096 // bytes
	// apart is where pictures begin that share a slot with others of another shape.
	apart = 256
)

// batchRequest is a request for a batch that was checked.
type batchRequest struct {
	paths     []string
	planar    bool
	dtype     string
	mean, std []float64
}

// parseRequest checks all that can be checked before a file is read.
func parseRequest(r *Request) (w batchRequest, err error) {
	w = batchRequest{paths: r.Paths, dtype: r.Dtype, mean: r.Mean, std: r.Std, planar: r.Layout == "CHW"}
	if n := len(r.Paths); n < 1 || n > maxPictures {
		return w, fmt.Errorf("a batch of %d pictures: there may be 1 to %d", n, maxPictures)
	}
	if r.Layout != "HWC" && r.Layout != "CHW" {
		return w, fmt.Errorf("layout %q: HWC or CHW", r.Layout)
	}
	float := r.Dtype == "float32" || r.Dtype == "float16"
	if !float && r.Dtype != "" && r.Dtype != "uint8" && r.Dtype != "uint16" {
		return w, fmt.Errorf("dtype %q: uint8, uint16, float32, float16, or none", r.Dtype)
	}
	for _, list := range [][]float64{r.Mean, r.Std} {
		if len(list) > 0 && !float || len(list) > 4 {
			return w, fmt.Errorf("mean and std are for float32 and float16, and for each of 4 channels at most")
		}
	}
	for _, n := range append(append([]float64{}, r.Mean...), r.Std...) {
		if math.IsNaN(n) || math.IsInf(n, 0) {
			return w, errors.New("mean and std have to be finite")
		}
	}
	for _, n := range r.Std {
		if math.Abs(n) < 1e-30 {
			return w, errors.New("std has to be other than 0")
		}
	}
	return w, nil
}

// item is a picture of a batch under way.
type item struct {
	samples *l3.Samples
	placed  l3gpu.Placed
	size    int64
	dtype   string
	err     error
}

// decode decodes a batch into a slot of the client.
func (c *client) decode(ctx context.Context, r *Request) *Reply {
	w, err := parseRequest(r)
	if err != nil {
		return failed(KindRequest, "%v", err)
	}
	slot := c.seat.empty()
	if slot == nil {
		return failed(KindSlots, "all %d slots of this process are in use: release a batch before asking for the next one", SlotsEach)
	}
	items := c.server.read(ctx, w.paths)
	var good []*item
	for i := range items {
		it := &items[i]
		if it.err == nil {
			it.err = w.plan(it)
		}
		if it.err == nil {
			good = append(good, it)
		}
	}
	if ctx.Err() != nil {
		return failed(KindRequest, "%v", ctx.Err())
	}
	if total, all := arrange(good), c.server.o.SlotBytes; total > all {
		return failed(KindLarge, "a batch of %d pictures takes %d bytes, and a slot has %d: ask for fewer at once, or mount with --gpu-memory times %d", len(good), total, all, (total+all-1)/all)
	}
	if len(good) > 0 {
		if reply := c.fill(ctx, slot, good); reply != nil {
			return reply
		}
	}
	return c.reply(slot, &w, items)
}

// plan sets what a picture becomes.
func (w *batchRequest) plan(it *item) error {
	s := it.samples
	channels, depth := s.Mode.Channels(), s.Mode.Depth()
	it.placed = l3gpu.Placed{Samples: s, Planar: w.planar}
	stored := fmt.Sprintf("uint%d", depth)
	switch w.dtype {
	case "float32":
		it.placed.Type = l3gpu.Float32
	case "float16":
		it.placed.Type = l3gpu.Float16
	case "", stored:
	default:
		return transcode.Errorf(transcode.ErrUnsupported, "samples of %d bits, dtype is %s: float32 and float16 take both", depth, w.dtype)
	}
	if it.dtype = w.dtype; it.dtype == "" {
		it.dtype = stored
	}
	if it.placed.Type != l3gpu.Stored {
		mean, err := each(w.mean, channels, 0)
		if err != nil {
			return err
		}
		std, err := each(w.std, channels, 1)
		if err != nil {
			return err
		}
		// In double precision and rounded once, as pipefs_gpu.py does.
		top := float64(uint32(1)<<depth - 1)
		for i := range channels {
			it.placed.Scale = append(it.placed.Scale, float32(1/(top*std[i])))
			it.placed.Bias = append(it.placed.Bias, float32(-mean[i]/std[i]))
		}
	}
	var err error
	it.size, err = it.placed.Size()
	return err
}

// each is a number for each channel.
func each(list []float64, channels int, none float64) ([]float64, error) {
	switch {
	case len(list) == 0:
		list = []float64{none}
	case len(list) != 1 && len(list) != channels:
		return nil, transcode.Errorf(transcode.ErrUnsupported, "%d channels, and mean or std is for %d", channels, len(list))
	}
	all := make([]float64, channels)
	for i := range all {
		all[i] = list[min(i, len(list)-1)]
	}
	return all, nil
}

// arrange gives each picture its place, and returns where they end. Those of one shape
// and type lie one after another.
func arrange(items []*item) (end int64) {
	same := true
	for _, it := range items {
		first := items[0]
		a, b := first.samples, it.samples
		same = same && a.Width == b.Width && a.Height == b.Height && a.Mode == b.Mode && first.dtype == it.dtype
	}
	for _, it := range items {
		it.placed.Offset = end
		end += it.size
		if !same {
			end = (end + apart - 1) / apart * apart
		}
	}
	return end
}

// fill decodes into a slot, and waits until that is done.
func (c *client) fill(ctx context.Context, slot *slot, good []*item) *Reply {
	if err := slot.prepare(c.gpu, c.server.o.SlotBytes); err != nil {
		return failed(KindGPU, "memory to share: %v", err)
	}
	pictures := make([]l3gpu.Placed, len(good))
	for i, it := range good {
		pictures[i] = it.placed
	}
	errs, err := c.gpu.DecodePlaced(ctx, slot.tensor, pictures)
	if err != nil {
		return failed(KindGPU, "%v", err)
	}
	for i, err := range errs {
		good[i].err = err
	}
	return nil
}

// reply gives the client a slot with its batch.
func (c *client) reply(slot *slot, w *batchRequest, items []item) *Reply {
	slot.generation = c.server.generation.Add(1)
	c.server.seats.use(c.seat)
	reply := &Reply{Slot: c.seat.number(slot), Generation: slot.generation, Handle: slot.handle[:]}
	if slot.tensor == nil {
		reply.Handle = nil // not one picture was decoded
	}
	st := &c.server.stats
	st.batches.Add(1)
	for i := range items {
		it := &items[i]
		if it.err != nil {
			st.failed.Add(1)
			reply.Pictures = append(reply.Pictures, Picture{Error: it.err.Error(), Kind: kindOf(it.err)})
			continue
		}
		st.pictures.Add(1)
		st.bytes.Add(it.size)
		s := it.samples
		shape := []int{s.Height, s.Width, s.Mode.Channels()}
		if w.planar {
			shape = []int{s.Mode.Channels(), s.Height, s.Width}
		}
		reply.Pictures = append(reply.Pictures, Picture{Offset: it.placed.Offset, Shape: shape, Dtype: it.dtype})
	}
	return reply
}

// errUnread is a file that could not be read.
type errUnread struct{ error }

func (e errUnread) Unwrap() error { return e.error }

func kindOf(err error) string {
	var unread errUnread
	switch {
	case errors.As(err, &unread):
		return KindUnreadable
	case errors.Is(err, transcode.ErrTruncated):
		return KindTruncated
	case errors.Is(err, transcode.ErrUnsupported):
		return KindUnsupported
	}
	return KindDamaged
}

// read reads and parses the files of a batch, some at once. Together they may have
// twice as many bytes as a slot, which L3 files of what fits there never have.
func (s *Server) read(ctx context.Context, paths []string) []item {
	items := make([]item, len(paths))
	var room, next atomic.Int64
	room.Store(2*s.o.SlotBytes + 1<<20)
	var work sync.WaitGroup
	for range min(s.o.Workers, len(paths)) {
		work.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(paths)); i = next.Add(1) - 1 {
				items[i] = s.readOne(ctx, paths[i], &room)
			}
		})
	}
	work.Wait()
	return items
}

func (s *Server) readOne(ctx context.Context, name string, room *atomic.Int64) (it item) {
	if err := checkPath(name); err != nil {
		return item{err: errUnread{err}}
	}
	b, err := s.o.Read(ctx, name, func(size int64) error {
		if left := room.Add(-size); left < 0 {
			room.Add(size)
			return fmt.Errorf("a file of %d bytes, where %d are left for those of the batch: ask for fewer at once, or mount with more --gpu-memory", size, left+size)
		}
		return nil
	})
	if err != nil {
		return item{err: errUnread{err}}
	}
	it.samples, it.err = l3.Open(b, s.o.Limits)
	return it
}

// checkPath refuses what no file of a view has as its path.
func checkPath(name string) error {
	if len(name) > maxPath || name == "" || strings.HasPrefix(name, "/") || strings.ContainsRune(name, 0) || path.Clean(name) != name || name == ".." || strings.HasPrefix(name, "../") || strings.HasPrefix(name, ".pipefs") {
		return errors.New("a path is relative to the mount, such as l3/cats/7.l3, without . and .. and links")
	}
	return nil
}
