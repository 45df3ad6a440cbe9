package mountd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// errPartial stands for the names that a walk leaves out, if it may list some only.
var errPartial = errors.New("not all is listed")

// Listing is the names of a tree.
type Listing struct {
	Samples []string // what the extension says may be one
	Others  int      // files that are none
	Dirs    int      // the root not counted
	Partial bool     // not all could be listed
	Archive string   // the first of the other files that is an archive by its name
	// Annotations are other files that may have boxes: the first few of each extension.
	Annotations []string
}

// mostAnnotations is how many files of each extension may be looked at for boxes.
const mostAnnotations = 8

// walk yields all that is below the root, with whole paths as names, and the errors of
// directories that cannot be read.
func (s *Source) walk() iter.Seq2[source.Entry, error] {
	return func(yield func(source.Entry, error) bool) {
		var walk func(dir string) bool
		dirs := 0
		walk = func(dir string) bool {
			if dirs++; s.peek && dirs >= peekDirs {
				return dirs > peekDirs || yield(source.Entry{Name: dir}, errPartial)
			}
			entries, err := s.Tree.List(dir)
			if err == nil && s.peek && len(entries) >= peekNames {
				err = errPartial
			}
			if err != nil && !yield(source.Entry{Name: dir}, err) {
				return false
			}
			for _, e := range entries {
				e.Name = path.Join(dir, e.Name)
				if !yield(e, nil) || e.Dir && !walk(e.Name) {
					return false
				}
			}
			return true
		}
		walk("")
	}
}

// List walks the whole tree. Directories that cannot be read are left out, and leftOut is told
// why; nil is not.
func (s *Source) List(ctx context.Context, leftOut func(error)) (l Listing, err error) {
	annotations := map[string]int{}
	for e, err := range s.walk() {
		switch {
		case ctx.Err() != nil:
			return l, ctx.Err()
		case errors.Is(err, errPartial):
			l.Partial = true
		case err != nil && e.Name == "":
			return l, err
		case err != nil:
			l.Partial = true
			if leftOut != nil {
				leftOut(err)
			}
		case e.Dir:
			l.Dirs++
		case s.Registry.IsSample(e.Name):
			l.Samples = append(l.Samples, e.Name)
		default:
			l.Others++
			if l.Archive == "" && source.Archive(e.Name, "") != "" {
				l.Archive = e.Name
			}
			if ext := strings.ToLower(path.Ext(e.Name)); slices.Contains(serve.AnnotationExtensions, ext) && annotations[ext] < mostAnnotations {
				annotations[ext]++
				l.Annotations = append(l.Annotations, e.Name)
			}
		}
	}
	return l, nil
}

// samples yields the paths of all samples. Directories that cannot be read are left out.
func (s *Source) samples() iter.Seq[string] {
	return func(yield func(string) bool) {
		for e, err := range s.walk() {
			if err == nil && !e.Dir && s.Registry.IsSample(e.Name) && !yield(e.Name) {
				return
			}
		}
	}
}

// CountFiles counts the files of a tree in the background, and tells found how many there are.
// What it returns waits until that has ended.
func CountFiles(ctx context.Context, tree source.Tree, found func(files int)) func() {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s := &Source{Tree: tree, Registry: codecs.Default(transcode.Limits{})}
		if l, err := s.List(ctx, nil); err == nil {
			found(len(l.Samples) + l.Others)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// PeekDataset lists the first directories of a dataset on this machine. It is not ok if there is
// none that can be listed as far as that, or if there is a store.
func PeekDataset(ctx context.Context, dir string) (l Listing, ok bool) {
	if is, err := store.Is(dir); err != nil || is {
		return l, false
	}
	if _, _, is := archivesAt(dir); is {
		return l, false // they are scanned when they are mounted
	}
	d, err := source.Open(dir, source.Options{Names: peekNames})
	if err != nil {
		return l, false
	}
	defer d.Close()
	s := &Source{Tree: d, Registry: codecs.Default(transcode.Limits{}), peek: true}
	l, err = s.List(ctx, nil)
	return l, err == nil && !l.Partial
}

// Sample is what the header of a sample tells, or a store.
type Sample struct {
	Path  string
	Size  int64 // of the original, bytes
	Info  transcode.Info
	Fault string // why no codec can read it; empty otherwise
	// Unread is why every view shows it unchanged, where it is not broken: nobody
	// taught us its flavour, or it is over a limit. Empty otherwise.
	Unread string
	// Stored is set where the sample comes from a store.
	Stored *store.Sample
}

// Look reads the header of a sample, or what a store knows of it. The error is one
// of reading; that a header makes no sense is a fault.
func (s *Source) Look(name string) (Sample, error) {
	if s.Store != nil {
		stored, err := s.Store.Lookup(name)
		if err != nil {
			return Sample{}, err
		}
		seen := Sample{Path: name, Size: stored.Source.Size, Info: stored.Info, Fault: stored.Fault, Stored: &stored}
		switch {
		case serve.Unread(seen.Fault):
			seen.Unread, seen.Fault = seen.Fault, ""
		case seen.Fault == "" && seen.Info == (transcode.Info{}):
			seen.Unread = "when it was packed, no codec read it, or it was over a limit"
		}
		return seen, nil
	}
	f, err := s.Dataset.Open(name)
	if err != nil {
		return Sample{}, err
	}
	defer f.Close()
	f.Scattered()
	info, err := s.Registry.Probe(f, f.Identity.Size)
	seen := Sample{Path: name, Size: f.Identity.Size, Info: info}
	switch {
	case err == nil:
	case errors.Is(err, transcode.ErrUnsupported):
		seen.Unread = err.Error()
	case errors.Is(err, transcode.ErrBad), errors.Is(err, transcode.ErrTruncated):
		seen.Fault = err.Error()
	default:
		return Sample{}, err
	}
	return seen, nil
}

// Faults are the first samples of a store, by path, that no codec reads, and whether there are more.
func (s *Source) Faults(most int) (found []Sample, more bool) {
	for name := range s.samples() {
		seen, err := s.Look(name)
		if err != nil || seen.Fault == "" && seen.Unread == "" {
			continue
		}
		if len(found) == most {
			return found, true
		}
		found = append(found, seen)
	}
	return found, false
}

// LookAll looks at samples, several at once, and hands what it sees to each, several at once,
// too, and in no particular order. A sample that cannot be read is told to each with its
// error as fault.
func (s *Source) LookAll(ctx context.Context, names []string, each func(Sample)) error {
	var work errgroup.Group
	// reading headers waits for the disk more than it computes
	work.SetLimit(4 * runtime.GOMAXPROCS(0))
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		work.Go(func() error {
			seen, err := s.Look(name)
			if err != nil {
				seen = Sample{Path: name, Fault: err.Error()}
			}
			each(seen)
			return nil
		})
	}
	_ = work.Wait() // none of them fails
	return ctx.Err()
}

// Check decodes samples, several at once, and returns those that cannot be, in their order. each is
// called after each.
func (s *Source) Check(ctx context.Context, names []string, each func()) (bad []serve.BadSample, err error) {
	causes := make([]error, len(names))
	var work errgroup.Group
	work.SetLimit(2 * runtime.GOMAXPROCS(0)) // some read while others are decoded
	for i, name := range names {
		if ctx.Err() != nil {
			break
		}
		work.Go(func() error {
			defer each()
			var a source.Attr
			if a, causes[i] = s.Tree.Stat(name); causes[i] == nil {
				causes[i] = s.Server.Check(ctx, serve.File{Path: name, Identity: a.Identity})
			}
			return nil
		})
	}
	_ = work.Wait() // none of them fails
	for i, cause := range causes {
		if cause != nil {
			bad = append(bad, serve.BadSample{Path: names[i], Cause: cause.Error()})
		}
	}
	return bad, ctx.Err()
}

// Split returns all parts of a sample, as kind makes them: those that a store
// holds, or of a dataset's file what it would hold.
func (s *Source) Split(ctx context.Context, kind *transcode.Kind, name string) (transcode.Split, error) {
	if s.Store == nil {
		f, err := s.Dataset.Open(name)
		if err != nil {
			return transcode.Split{}, err
		}
		defer f.Close()
		if err := s.Registry.Limits().CheckFile(f.Identity.Size); err != nil {
			return transcode.Split{}, err
		}
		src, err := f.ReadAll()
		if err != nil {
			return transcode.Split{}, err
		}
		return s.Registry.Split(ctx, kind, src, false)
	}
	sample, err := s.Store.Lookup(name)
	if err != nil {
		return transcode.Split{}, err
	}
	// A store may have been packed with fewer parts, under a key of its own.
	at := slices.IndexFunc(sample.Representations, func(rep store.Representation) bool {
		return strings.HasPrefix(rep.Key, kind.Name+"@")
	})
	if at < 0 {
		return transcode.Split{}, errors.New("the store does not hold it scan by scan")
	}
	rep := &sample.Representations[at]
	if len(rep.Levels) == 0 || slices.Min(rep.Levels) == 0 {
		return transcode.Split{}, errors.New("the store's " + rep.Key + " has an empty level: run pipefs pack again")
	}
	reader, err := s.Store.Reader(*rep, 0)
	if err != nil {
		return transcode.Split{}, err
	}
	defer reader.Close()
	split := transcode.Split{Data: make([]byte, reader.Size()-int64(len(rep.Tail))), Levels: rep.Levels, Tail: rep.Tail}
	if _, err := io.ReadFull(io.NewSectionReader(reader, 0, reader.Size()), split.Data); err != nil {
		return transcode.Split{}, err
	}
	end := 0
	for _, p := range rep.Parts {
		end += int(p.Len)
		split.Ends = append(split.Ends, end)
	}
	return split, nil
}

// What is looked at for absolute paths, each time that something is mounted: a few small
// files at the top of the dataset.
const (
	listNames = 10_000 // of the directory
	listFiles = 16
	listBytes = 1 << 20
)

// inPath is what goes on with a path, rather than to end it.
const inPath = `0-9A-Za-z./_~@%+\x{80}-\x{10FFFF}-`

// PathsInto names the lists of samples at the top of a dataset that hold one of the paths,
// or a path below it, and the line of the first: train.txt:1.
func PathsInto(dataset string, paths ...string) (found []string) {
	for i, p := range paths {
		paths[i] = regexp.QuoteMeta(p)
	}
	into := regexp.MustCompile(`(?m)(?:^|[^` + inPath + `]|file://)(?:` + strings.Join(paths, "|") + `)(?:/|[^` + inPath + `]|$)`)
	dir, err := os.Open(dataset)
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(listNames) // what there is of it
	names = slices.DeleteFunc(names, func(name string) bool {
		return !slices.Contains([]string{".txt", ".csv", ".tsv", ".json", ".jsonl", ".yaml", ".yml"}, strings.ToLower(filepath.Ext(name)))
	})
	slices.Sort(names)
	for _, name := range names[:min(len(names), listFiles)] {
		path := filepath.Join(dataset, name)
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Size() > listBytes {
			continue
		}
		text, err := os.ReadFile(path)
		if at := into.FindIndex(text); err == nil && at != nil {
			found = append(found, fmt.Sprintf("%s:%d", name, 1+bytes.Count(text[:at[0]+1], []byte("\n"))))
		}
	}
	return found
}
