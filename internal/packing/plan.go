package packing

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"sync"

	"github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/store/vfs"
	"github.com/pipefs/pipefs/transcode"
)

// Header is what a plan says of itself. Nothing in it depends on when or where it was made.
type Header struct {
	Magic   string `json:"magic"`
	Version int    `json:"version"`
	// Dataset is the path or the URL of what is packed.
	Dataset string `json:"dataset"`
	Base    Base   `json:"base"`
	// Age of all packs of the plan.
	Age uint64 `json:"age"`
	// FirstSeq is the sequence number of the first entry.
	FirstSeq int64   `json:"first_seq"`
	Shards   int     `json:"shards"`
	Options  Options `json:"options"`
	// Steps and Decoders are the implementations that the result depends on, by name.
	Steps    map[string]string `json:"steps"`
	Decoders map[string]string `json:"decoders"`
	Totals
	// LongestBlock is what the entries of a shard take at most, in bytes.
	LongestBlock int64 `json:"longest_block"`
	// Rows is where the table of shards begins, and RowSums has the SHA-256 of each rowsTogether rows.
	Rows    int64    `json:"rows"`
	RowSums []string `json:"row_sums"`
}

// Base is the generation that a plan was made against; its name is empty where nothing was packed.
type Base struct {
	Generation string `json:"generation"`
	SHA256     string `json:"sha256"` // of its file
}

// Options are those of packing that the result depends on.
type Options struct {
	RecordImages int         `json:"record_images"`
	RecordBytes  int64       `json:"record_bytes"`
	PackBytes    int64       `json:"pack_bytes"`
	Order        store.Order `json:"order"`
	Seed         uint64      `json:"seed"`
	Originals    string      `json:"originals"`
	Scans        []int       `json:"scans"`
	Represent    string      `json:"represent,omitempty"`
	// L3Mode and L3Patch are how Represent is done.
	L3Mode   string           `json:"l3_mode"`
	L3Patch  int              `json:"l3_patch"`
	Limits   transcode.Limits `json:"limits"`
	NoFollow bool             `json:"no_follow,omitempty"`
}

// Totals counts what is to be packed.
type Totals struct {
	Files      int64 `json:"files"`
	Dirs       int64 `json:"dirs"`
	Tombstones int64 `json:"tombstones"`
	Bytes      int64 `json:"bytes"` // of files
	// Largest is the longest file, and Verbatim the longest one that is stored as it is, in bytes.
	Largest  int64 `json:"largest"`
	Verbatim int64 `json:"verbatim"`
}

// Entries is how many there are of all kinds.
func (t *Totals) Entries() int64 { return t.Files + t.Dirs + t.Tombstones }

// Row describes a shard.
type Row struct {
	Off, Len int64 // of the block, in bytes
	First    int64 // place of its first entry in the plan, from 0 on
	Entries  int64
	Bytes    int64 // of its files
	Sum      [sha256.Size]byte
}

const (
	planMagic    = "pipefsPL"
	planVersion  = 1
	headerMagic  = "pipefs plan"
	trailerSize  = 64
	rowSize      = 5*8 + sha256.Size
	rowsTogether = 1024
	// maxHeader is the longest header, in bytes, and tailBytes what is read at first.
	maxHeader = 8 << 20
	tailBytes = 64 << 10
	// MaxShards is how many shards a plan may have.
	MaxShards = 1 << 20
	// maxBlock is the longest block, in bytes.
	maxBlock = 4 << 30
)

// ErrPlan is the class of errors about a plan that is damaged, or that this pipefs cannot read.
var ErrPlan = errors.New("no usable plan")

// Plan is an open plan. It is safe for concurrent use.
type Plan struct {
	Header
	ID     store.ID
	Digest [sha256.Size]byte

	place blob.Objects
	info  blob.Info

	mu    sync.Mutex
	rows  []byte // those read last
	first int    // the first of them
}

// Open reads what a plan says of itself, in one request where its header is short.
func Open(ctx context.Context, place blob.Objects, id store.ID) (*Plan, error) {
	p := &Plan{ID: id, place: place}
	var err error
	if p.info, err = place.Stat(ctx, PlanName(id)); err != nil {
		return nil, err
	}
	tail := make([]byte, min(p.info.Size, tailBytes))
	if err := p.read(ctx, tail, p.info.Size-int64(len(tail))); err != nil {
		return nil, err
	}
	n, err := checkTrailer(tail)
	if err != nil {
		return nil, p.broken("%w", err)
	}
	if n > p.info.Size-trailerSize {
		return nil, p.broken("a header of %d bytes in a plan of %d", n, p.info.Size)
	}
	text := tail[:len(tail)-trailerSize]
	if n <= int64(len(text)) {
		text = text[int64(len(text))-n:]
	} else {
		text = make([]byte, n)
		if err := p.read(ctx, text, p.info.Size-trailerSize-n); err != nil {
			return nil, err
		}
	}
	p.Digest = sha256.Sum256(text)
	if !bytes.Equal(p.Digest[:len(id)], id[:]) {
		return nil, p.broken("its header is of plan %x", p.Digest[:len(id)])
	}
	if err := json.Unmarshal(text, &p.Header); err != nil {
		return nil, p.broken("%w", err)
	}
	return p, p.check(n)
}

// check says what is wrong with a header of n bytes.
func (p *Plan) check(n int64) error {
	rows := int64(p.Shards) * rowSize
	switch {
	case p.Magic != headerMagic:
		return p.broken("it is of something else")
	case p.Version != planVersion:
		return p.broken("its format is %d, and this pipefs reads %d; use a newer pipefs", p.Version, planVersion)
	case p.Shards < 1 || p.Shards > MaxShards || len(p.RowSums) != (p.Shards+rowsTogether-1)/rowsTogether:
		return p.broken("%d shards", p.Shards)
	case p.Rows < 0 || p.Rows != p.info.Size-trailerSize-n-rows:
		return p.broken("a table at %d", p.Rows)
	case p.Age == 0 || p.Age > store.MaxAge || p.FirstSeq < 0:
		return p.broken("packs of age %d", p.Age)
	}
	return nil
}

func (p *Plan) broken(format string, args ...any) error {
	return fmt.Errorf("%s: %w: %w; plan again", PlanName(p.ID), ErrPlan, fmt.Errorf(format, args...))
}

func (p *Plan) read(ctx context.Context, b []byte, off int64) error {
	return p.place.ReadAt(ctx, p.info.Name, p.info.Version, b, off)
}

// Row returns what the plan says of a shard.
func (p *Plan) Row(ctx context.Context, shard int) (Row, error) {
	if shard < 0 || shard >= p.Shards {
		return Row{}, fmt.Errorf("there is no shard %d: the plan has shards 0 to %d", shard, p.Shards-1)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if first := shard - shard%rowsTogether; p.rows == nil || p.first != first {
		b := make([]byte, min(rowsTogether, p.Shards-first)*rowSize)
		if err := p.read(ctx, b, p.Rows+int64(first)*rowSize); err != nil {
			return Row{}, err
		}
		if sum := sha256.Sum256(b); fmt.Sprintf("%x", sum) != p.RowSums[first/rowsTogether] {
			return Row{}, p.broken("the table of shards is damaged")
		}
		p.rows, p.first = b, first
	}
	r := decodeRow(p.rows[(shard-p.first)*rowSize:])
	if r.Off < 0 || r.Len < 0 || r.Len > maxBlock || r.Off > p.Rows-r.Len || r.First < 0 || r.Entries < 0 || r.Entries > r.Len || r.Bytes < 0 {
		return Row{}, p.broken("shard %d is in %d bytes at %d", shard, r.Len, r.Off)
	}
	return r, nil
}

// Block reads the entries of a shard; see [EachEntry].
func (p *Plan) Block(ctx context.Context, r Row) ([]byte, error) {
	b := make([]byte, r.Len)
	if err := p.read(ctx, b, r.Off); err != nil {
		return nil, err
	}
	if sha256.Sum256(b) != r.Sum {
		return nil, p.broken("the entries at %d are damaged", r.Off)
	}
	return b, nil
}

func appendRow(b []byte, r *Row) []byte {
	for _, n := range []int64{r.Off, r.Len, r.First, r.Entries, r.Bytes} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return append(b, r.Sum[:]...)
}

func decodeRow(b []byte) (r Row) {
	for i, n := range []*int64{&r.Off, &r.Len, &r.First, &r.Entries, &r.Bytes} {
		*n = int64(binary.LittleEndian.Uint64(b[8*i:]))
	}
	copy(r.Sum[:], b[5*8:])
	return r
}

// appendTrailer appends what ends a plan: the length and the digest of the header.
func appendTrailer(b []byte, header int64, digest [sha256.Size]byte) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(header))
	b = append(b, digest[:]...)
	b = binary.LittleEndian.AppendUint32(b, planVersion)
	b = append(b, make([]byte, 8)...)
	b = binary.LittleEndian.AppendUint32(b, index.Sum(b[at:]))
	return append(b, planMagic...)
}

// checkTrailer returns the length of the header.
func checkTrailer(b []byte) (int64, error) {
	if len(b) < trailerSize || string(b[len(b)-len(planMagic):]) != planMagic {
		return 0, errors.New("it has no trailer: it was cut short, or is something else")
	}
	b = b[len(b)-trailerSize:]
	n := int64(binary.LittleEndian.Uint64(b))
	switch {
	case index.Sum(b[:52]) != binary.LittleEndian.Uint32(b[52:]):
		return 0, errors.New("its trailer is damaged")
	case binary.LittleEndian.Uint32(b[40:]) != planVersion:
		return 0, fmt.Errorf("its format is %d, and this pipefs reads %d; use a newer pipefs", binary.LittleEndian.Uint32(b[40:]), planVersion)
	case n < 2 || n > maxHeader:
		return 0, fmt.Errorf("a header of %d bytes", n)
	}
	return n, nil
}

// Dir is the directory of plans in a store.
const Dir = "plans"

// dirOf is the directory of what belongs to a plan, relative to its store.
func dirOf(id store.ID) string { return fmt.Sprintf("%s/%x", Dir, id) }

// PlanName is the name of a plan's object, relative to its store.
func PlanName(id store.ID) string { return dirOf(id) + ".plan" }

// MarkerDir is the directory of a plan's markers.
func MarkerDir(id store.ID) string { return dirOf(id) + "/shards" }

// MarkerName is the name of the marker of a shard.
func MarkerName(id store.ID, shard int) string { return fmt.Sprintf("%s/%06d", MarkerDir(id), shard) }

// CommittedName is the name of the file that says that the packs of a plan count.
func CommittedName(id store.ID) string { return dirOf(id) + "/COMMITTED" }

// URL is where a plan of a store is, as users name it. The store is a path or a URL.
func URL(place string, id store.ID) string {
	return strings.TrimRight(place, "/") + "/" + PlanName(id)
}

var planURL = regexp.MustCompile(`^(.*)/` + Dir + `/([0-9a-f]{32})\.plan$`)

// SplitURL returns the store and the id in what URL returned.
func SplitURL(url string) (place string, id store.ID, err error) {
	m := planURL.FindStringSubmatch(url)
	if m == nil {
		return "", id, fmt.Errorf("%s is no plan: pipefs plan prints the name of the one that it makes, which ends with /%s/ID.plan", url, Dir)
	}
	return m[1], id, id.UnmarshalText([]byte(m[2]))
}

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

// ErrCommitted is the class of errors about a plan that is committed.
var ErrCommitted = errors.New("the plan is committed, and its packs are a part of the store")

// mostLost is how many packs of a shard, one after the other, may be missing before a later one.
const mostLost = 64

// Reset removes what shards first to last have put, so that they can be packed again, and returns how many
// objects that were. fsys is that of the store in dir. The error is of the class ErrCommitted where the
// plan is committed.
func (p *Plan) Reset(ctx context.Context, dir string, fsys vfs.FS, first, last int) (removed int, err error) {
	committed, err := store.PlanState(fsys, dir, p.ID, p.Base.Generation)
	if committed {
		return 0, fmt.Errorf("%s: %w", PlanName(p.ID), ErrCommitted)
	}
	if err != nil && !errors.Is(err, store.ErrStale) {
		return 0, err
	}
	if last >= p.Shards {
		return 0, fmt.Errorf("there is no shard %d: the plan has shards 0 to %d", last, p.Shards-1)
	}
	listed, err := p.list(ctx, dirOf(p.ID))
	if err != nil {
		return 0, err
	}
	there := func(name string) bool { _, is := listed[name]; return is }
	if there(CommittedName(p.ID)) {
		return 0, fmt.Errorf("%s: it is being committed, or a commit was interrupted: %w", PlanName(p.ID), fs.ErrExist)
	}
	remove := func(name string) error {
		if !there(name) {
			return nil
		}
		removed++
		return p.place.Delete(ctx, name)
	}
	for shard := first; shard <= last; shard++ {
		// Without its marker it is not done.
		if err := remove(MarkerName(p.ID, shard)); err != nil {
			return removed, err
		}
		for n, lost := uint64(0), 0; lost < mostLost; n++ {
			pack := store.ShardPack(p.ID, p.Digest, shard, p.Age, n)
			if lost++; there(pack.File()) || there(pack.SegmentFile()) {
				lost = 0
			}
			if err := errors.Join(remove(pack.File()), remove(pack.SegmentFile())); err != nil {
				return removed, err
			}
		}
	}
	return removed, nil
}
