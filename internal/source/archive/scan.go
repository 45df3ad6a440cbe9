package archive

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pipefs/pipefs/internal/index"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/source/names"
)

const (
	formatVersion = 5
	indexID       = "members"
	// classDigits is how many digits the number of a class has, at least.
	classDigits = source.ClassDigits
	// maxClasses bounds the directories that are made for classes without a sample.
	maxClasses = source.MaxClasses
	// maxLabel is the longest name of a class in a path, in bytes.
	maxLabel = 200
	// maxTwice is how many names of two archives are told apart one by one; beyond it all are.
	maxTwice = 1_000_000
	// maxPath is the longest path of a member, in bytes, as for the system.
	maxPath = 4095
	// maxTold is how many of the members that are left out are named.
	maxTold = 1000
	// toldMembers is how often progress is told.
	toldMembers = 1000
)

// member is what a scan finds.
type member struct {
	path  string // ends with a slash for a directory
	key   string // of WebDataset, or empty
	class string // label of the key, or empty
	text  string // name of the class, or empty
	at    int64  // its place among the members of its archive: of two with one path, the later one counts
	why   string // it is left out; or empty
	link  string // the path that a link leads to, or empty
	hard  bool   // it leads to what had that path when the link was written
	entry
}

// Summary is what the index says of itself.
type Summary struct {
	Format int     `json:"format"`
	Shards []Shard `json:"shards"`
	// Scanned is when the scan began.
	Scanned time.Time `json:"scanned"`
	// Damaged are archives of which a part cannot be read, and why.
	Damaged []string `json:"damaged,omitempty"`
	// Columns are those whose values are files, of the shards that are Parquet files.
	Columns map[int][]int `json:"columns,omitempty"`
	// Splits are the directories of the rows of these.
	Splits []string `json:"splits,omitempty"`
	// Unlabelled is that the directory of this name is that of samples without a label.
	Unlabelled bool `json:"unlabelled"`
	// Located is that the places of all rows of Parquet files are known.
	Located bool `json:"located"`
	names.Counts
}

// Shard is one archive.
type Shard struct {
	Name     string          `json:"name"` // below the dataset that it is in
	Identity source.Identity `json:"identity"`
}

// scan looks through all archives, and sorts what is in them.
type scan struct {
	*Dataset
	digits   int
	stems    []string         // of the archives, as names of members begin with them
	labels   map[int64]string // names of numbered classes: of several, the first by alphabet
	named    bool             // all of labels are known
	twice    map[uint64]bool  // hashes of keys that two archives have
	allTwice bool
	tables   []*tableFile // of Parquet files
	atOnce   bool         // their rows are located as they are scanned

	mu       sync.Mutex
	sorter   *index.Sorter
	n        int64
	reached  []int64 // the offset of the last member, by archive
	bytes    int64   // about what the index takes
	left     []member
	leftMore int64
	damaged  []string
	max      int64 // the greatest number of a class, or -1
	// unlabelled is that a sample has the label -1.
	unlabelled bool
	buf, key   []byte
}

// write scans the archives into an index at a directory.
func (d *Dataset) write(ctx context.Context, at string) (*table, error) {
	s := &scan{Dataset: d, digits: classDigits, twice: map[uint64]bool{}, stems: stems(d.shards), labels: map[int64]string{}}
	began := time.Now()
	for {
		summary, err := s.once(ctx, at)
		if err != nil {
			return nil, fmt.Errorf("scan %s: %w", d.root, err)
		}
		if summary == nil {
			continue
		}
		d.log.Info("scanned", "archives", d.root, "members", summary.Objects, "bytes", summary.Bytes, "left_out", summary.LeftOut,
			"took", time.Since(began).Round(time.Millisecond))
		return d.openTable(at)
	}
}

// once scans, and writes the index unless names have to be given in another way; then there is no summary.
func (s *scan) once(ctx context.Context, at string) (_ *Summary, err error) {
	s.reached = make([]int64, len(s.shards))
	s.n, s.bytes, s.left, s.leftMore, s.damaged, s.max = 0, 0, nil, 0, nil, -1
	if s.sorter, err = index.NewSorter(""); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.sorter.Close()) }()
	summary := &Summary{Format: formatVersion, Shards: make([]Shard, len(s.shards)), Scanned: time.Now().Round(0)}
	if err := s.findTables(ctx); err != nil {
		return nil, err
	}
	err = s.classDirs(func(dir string) error { return s.sort(member{path: dir, entry: entry{codec: dirCodec}}) })
	if err != nil {
		return nil, err
	}
	group, scanning := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, name := range s.shards {
		group.Go(func() error {
			id, err := s.shard(scanning, i, name)
			summary.Shards[i] = Shard{name, id}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if digits := len(strconv.FormatInt(s.max, 10)); digits > s.digits {
		s.digits = digits
		return nil, nil
	}
	if s.n == 0 {
		why := ""
		switch {
		case len(s.damaged) > 0:
			why = ": " + s.damaged[0]
		case len(s.left) > 0:
			why = fmt.Sprintf(": %s: %s", s.left[0].path, s.left[0].why)
		}
		return nil, fmt.Errorf("there is no file in it%s", why)
	}
	for c := range s.max + 1 {
		if s.max >= maxClasses {
			break
		}
		for _, dir := range s.dirs() {
			if err := s.sort(member{path: path.Join(dir, s.number(c)) + "/", entry: entry{codec: dirCodec}}); err != nil {
				return nil, err
			}
		}
	}
	return s.index(ctx, at, summary)
}

// shard scans one archive, and returns its identity.
func (s *scan) shard(ctx context.Context, i int, name string) (source.Identity, error) {
	f, err := s.under.Open(name)
	if err != nil {
		return source.Identity{}, err
	}
	defer f.Close()
	if f.Identity.Size == 0 {
		return f.Identity, s.damage(name, errors.New("it is empty"))
	}
	var failed error // of emit, which is no fault of the archive
	guarded := func(m member) error {
		if failed = cmp.Or(failed, ctx.Err()); failed == nil {
			failed = s.emit(m)
		}
		return failed
	}
	switch k, kindErr := kindOf(f, name); {
	case kindErr != nil:
		return source.Identity{}, kindErr
	case k == parquetKind && s.tables[i] == nil, s.tables[i] != nil && f.Identity != s.tables[i].id:
		return source.Identity{}, fmt.Errorf("%s: %w", name, source.ErrChanged)
	case k == parquetKind && s.tables[i].File == nil: // told already
	case k == parquetKind:
		err = s.scanTable(ctx, i, f, guarded)
	case k == zipKind:
		err = scanZip(i, f, f.Identity.Size, guarded)
	case k == tarKind:
		err = scanTar(i, f, f.Identity.Size, guarded)
	case k == recordKind:
		err = scanRecords(i, f, f.Identity.Size, s.stems[i], guarded)
	default:
		err = errors.New("it begins neither as a tar, a zip, a Parquet nor an uncompressed TFRecord file")
	}
	if failed != nil {
		return source.Identity{}, failed
	}
	if err != nil {
		if cause := f.Verify(); cause != nil {
			return source.Identity{}, cause
		}
		return f.Identity, s.damage(name, err)
	}
	return f.Identity, f.Verify()
}

// damage takes note of an archive that cannot be read to its end.
func (s *scan) damage(name string, cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf("%s: %v", name, cause)
	s.log.Warn("an archive is damaged; what lies before the damage is shown", "archive", name, "cause", cause)
	s.damaged = append(s.damaged, text)
	return nil
}

// dirs are those that archives are shown in.
func (s *scan) dirs() (dirs []string) {
	for _, name := range s.shards {
		dirs = append(dirs, s.o.Dirs[name])
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// number is the directory of a numbered class while it is sorted: its name comes behind the number, see named.
func (s *scan) number(class int64) string {
	number := fmt.Sprintf("%0*d", s.digits, class)
	if s.named {
		return s.withName(number)
	}
	return number
}

// withName puts the name of a class behind its number.
func (s *scan) withName(number string) string {
	if class, err := strconv.ParseInt(number, 10, 64); err == nil && len(number) == s.digits && s.labels[class] != "" {
		return number + "-" + s.labels[class]
	}
	return number
}

// rename puts the name of its class into a path that was sorted without, below one of dirs.
func (s *scan) rename(sorted string, dirs []string) string {
	if s.named || len(s.labels) == 0 {
		return sorted
	}
	for _, dir := range dirs {
		if dir != "" {
			dir += "/"
		}
		rest, is := strings.CutPrefix(sorted, dir)
		if number, behind, below := strings.Cut(rest, "/"); is && below {
			if in := s.withName(number); in != number {
				return dir + in + "/" + behind
			}
		}
	}
	return sorted
}

// label takes note of the name of a class.
func (s *scan) label(class int64, text string) {
	text = labelOf(text)
	if last, known := s.labels[class]; text != "" && (known && text < last || !known && len(s.labels) < maxClasses) {
		s.labels[class] = text
	}
}

// stems are names of archives without their extensions, and with so much in front that no two are the same.
func stems(shards []string) []string {
	all := make([]string, len(shards))
	for _, stem := range []func(string) string{func(name string) string { return stemOf(path.Base(name)) }, stemOf, func(name string) string { return name }} {
		seen := map[string]bool{}
		for i, name := range shards {
			all[i] = strings.ReplaceAll(stem(name), "/", "-")
			seen[all[i]] = true
		}
		if len(seen) == len(shards) {
			break
		}
	}
	return all
}

// stemOf is a name up to its first dot; names such as x.tfrecord-00000-of-00010 lose the extension only.
func stemOf(name string) string {
	dir, base := path.Split(name)
	if at := recordExt.FindStringIndex(base); at != nil {
		return dir + base[:at[0]] + strings.TrimPrefix(base[at[0]:], recordExt.FindStringSubmatch(base)[1])
	}
	if dot := strings.IndexByte(base, '.'); dot > 0 {
		base = base[:dot]
	}
	return dir + base
}

// emit takes what is found in an archive.
func (s *scan) emit(m member) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.class != "" {
		in := safe(m.class) + "/"
		if c, err := strconv.ParseInt(m.class, 10, 64); err == nil {
			if c < 0 {
				in, s.unlabelled = Unlabelled+"/", true
			} else {
				s.max = max(s.max, c)
				s.label(c, m.text)
				in = s.number(c) + "/"
			}
		}
		m.path = in + m.path
	}
	if dir := s.o.Dirs[s.shards[m.shard]]; dir != "" && m.path != "/" && s.tables[m.shard] == nil { // rows are there already
		m.path = dir + "/" + m.path
	}
	if m.codec != dirCodec && (s.allTwice || s.twice[sameKey(m.path)]) {
		at := strings.LastIndexByte(m.path, '/') + 1
		m.path = m.path[:at] + s.stems[m.shard] + "-" + m.path[at:]
	}
	if why := names.Unfit(strings.TrimSuffix(m.path, "/")); m.why == "" && m.path != "/" {
		if m.why = why; len(m.path) > maxPath {
			m.why = fmt.Sprintf("its path has %d bytes", len(m.path))
		}
	}
	if m.why != "" {
		s.leaveOut(m)
		return nil
	}
	if m.path == "/" { // the root, which is there
		return nil
	}
	s.reached[m.shard] = max(s.reached[m.shard], m.offset)
	if s.n++; s.o.Progress != nil && s.n%toldMembers == 0 {
		s.o.Progress(s.n, s.share())
	}
	return s.sort(m)
}

// share is which share of all bytes was scanned.
func (s *scan) share() float64 {
	var reached, all int64
	for i, n := range s.reached {
		reached, all = reached+n, all+s.attrs[i].Size
	}
	return float64(reached) / float64(max(all, 1))
}

func (s *scan) leaveOut(m member) {
	if len(s.left) < maxTold {
		s.left = append(s.left, m)
		return
	}
	s.leftMore++
}

func safe(label string) string { return source.SafeName(label) }

// labelOf is the name of a class as a directory has it behind the number.
func labelOf(text string) string {
	if text = safe(text); len(text) > maxLabel {
		text = strings.ToValidUTF8(text[:maxLabel], "")
	}
	return text
}

// sameKey is a hash of the key that a path has, so that all members of a sample get one name.
func sameKey(path string) uint64 {
	key, _ := keyOf(path)
	return hash(key)
}

func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, text)
	return h.Sum64()
}

// sort passes a member to the sorter: by path, archive, and place in it.
func (s *scan) sort(m member) error {
	s.key = append(append(s.key[:0], m.path...), 0)
	s.key = binary.BigEndian.AppendUint32(s.key, uint32(m.shard))
	s.key = binary.BigEndian.AppendUint64(s.key, uint64(m.at))
	s.buf = m.append(s.buf[:0])
	s.bytes += int64(len(s.key) + len(s.buf))
	return s.sorter.Add(s.key, s.buf)
}

const sortSuffix = 1 + 4 + 8 // bytes of a key behind the path

// index writes what was sorted. Where two archives have one name, it takes note of that, and there is no summary.
func (s *scan) index(ctx context.Context, at string, summary *Summary) (*Summary, error) {
	w, err := names.Create(ctx, at, indexID, s.root, s.bytes, s.log)
	if err != nil {
		return nil, err
	}
	for _, m := range s.left {
		w.LeaveOut(m.path, m.why)
	}
	w.LeftOut += s.leftMore
	known, dirs := len(s.twice), s.dirs()
	var last sorted
	write := func() error {
		if last.path == "" {
			return nil
		}
		return w.Add(s.rename(last.path, dirs), last.value, last.size)
	}
	err = s.sorter.Each(func(key, value []byte) error {
		next, err := readSorted(key, value)
		if err != nil {
			return err
		}
		if next.path == last.path {
			switch {
			case strings.HasSuffix(next.path, "/"):
				return nil
			case next.shard == last.shard:
				w.LeaveOut(last.path, "a later member of its archive has the same name")
			case known == 0 && !s.allTwice:
				if s.twice[sameKey(next.path)] = true; len(s.twice) > maxTwice {
					s.allTwice = true
				}
				return nil
			default:
				w.LeaveOut(next.path, "another archive has a member of this name, also where the name of the archive is in front of it")
				return nil
			}
		} else if err := write(); err != nil {
			return err
		}
		last = next
		return nil
	})
	if err == nil {
		err = write()
	}
	if errors.Is(err, names.ErrOrder) && !s.named { // with their names, directories sort otherwise among files beside them
		s.named = true
		return nil, w.Abort()
	}
	if err != nil || len(s.twice) != known {
		return nil, errors.Join(err, w.Abort())
	}
	summary.Damaged, summary.Counts, summary.Columns, summary.Located = s.damaged, w.Counts, map[int][]int{}, true
	summary.Unlabelled = s.unlabelled
	for i, t := range s.tables {
		if t != nil && t.File != nil {
			summary.Columns[i], summary.Located, summary.Unlabelled = t.columns, s.atOnce, true
			summary.Splits = append(summary.Splits, t.split)
		}
	}
	slices.Sort(summary.Splits)
	summary.Splits = slices.Compact(summary.Splits)
	return summary, w.Finish(summary)
}
