package serve

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// knownInfo remembers what a header told, and of which version of the file.
type knownInfo struct {
	identity source.Identity
	info     transcode.Info
	fault    error
}

// info returns what the header of a sample tells, from what is nearest: the store,
// memory, the overlay, the file.
func (p *Server) info(f File, v transcode.Pipeline, stored *store.Sample) (transcode.Info, error) {
	if stored != nil {
		if Unread(stored.Fault) {
			return transcode.Info{}, nil
		}
		if stored.Fault != "" {
			return transcode.Info{}, fmt.Errorf("%w: %s", errFault, stored.Fault)
		}
		return stored.Info, nil
	}
	p.mu.Lock()
	known, ok := p.infos.get(f.Path)
	p.mu.Unlock()
	if ok && known.identity == f.Identity {
		return known.info, known.fault
	}
	known = knownInfo{identity: f.Identity}
	if known.info, ok = p.keptInfo(f, v); ok {
		p.know(f.Path, known)
		return known.info, nil
	}
	if err := p.probe(f, &known); err != nil {
		return transcode.Info{}, err
	}
	if known.fault == nil || isFault(known.fault) {
		p.know(f.Path, known)
	}
	return known.info, known.fault
}

func (p *Server) know(name string, known knownInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.infos.put(name, known, 0)
	if known.fault == nil {
		p.typical[strings.ToLower(path.Ext(name))] = known.info
	}
}

// probe reads the header from the dataset. An error is one of reading.
func (p *Server) probe(f File, known *knownInfo) error {
	file, err := p.openDataset(f)
	if err != nil {
		return err
	}
	defer file.Close()
	// With the system's read-ahead: the rest is read next, mostly, and takes longer
	// where it has to begin on the second page.
	known.info, known.fault = p.o.Registry.Probe(file, f.Identity.Size)
	if err := file.Verify(); err != nil {
		return err
	}
	if errors.Is(known.fault, transcode.ErrUnsupported) {
		// A flavour that nobody taught us, or over a limit: no step applies.
		p.log.Info("the sample appears unchanged in every view", "sample", f.Path, "cause", known.fault)
		known.info, known.fault = transcode.Info{}, nil
	}
	return nil
}

// keptInfo returns what the overlay knows of a sample of which it keeps this view.
// The source is not touched then: it is elsewhere on the disk, and what is kept is
// often shorter than what would be read of the source to find its header.
//
// What the view is kept under depends on the header in turn. Samples of one kind
// mostly have the same, so the name is guessed from the last one with the extension;
// what the record itself says then counts, and has to lead to that name.
func (p *Server) keptInfo(f File, v transcode.Pipeline) (info transcode.Info, ok bool) {
	if p.o.Overlay == nil {
		return info, false
	}
	p.mu.Lock()
	typical, ok := p.typical[strings.ToLower(path.Ext(f.Path))]
	p.mu.Unlock()
	if !ok {
		return info, false
	}
	limits := p.o.Registry.Limits()
	for _, key := range p.keptAs(f, v, typical) {
		info, ok := p.o.Overlay.Info(f.Path, store.Identity(f.Identity), key)
		// A picture may be over the limits of today.
		if ok && limits.CheckSize(info.Width, info.Height) == nil && limits.CheckFile(f.Identity.Size) == nil && slices.Contains(p.keptAs(f, v, info), key) {
			return info, true
		}
	}
	return transcode.Info{}, false
}

// keptAs are the keys under which the overlay may keep a view of a sample with that
// header.
func (p *Server) keptAs(f File, v transcode.Pipeline, info transcode.Info) (keys []string) {
	plan := p.o.Registry.Plan(v, info, p.o.Roles.Of(f.Path))
	if plan.Unchanged() {
		return nil
	}
	head, scans := plan.Head()
	if scans {
		keys = append(keys, transcode.SplitKey(head.Kind))
	}
	if !scans || plan.Len() > 1 {
		keys = append(keys, plan.Key())
	}
	return keys
}

// Unread reports whether a fault that a store holds says that the sample was no picture
// of a known kind, or over a limit: it is shown unchanged, as one of a dataset is.
func Unread(fault string) bool {
	return strings.HasPrefix(fault, transcode.ErrUnsupported.Error()+": ") ||
		strings.HasPrefix(fault, transcode.ErrBad.Error()+": begins with ") // of version 1
}

// isFault reports whether an error is about the sample's bytes, and so will be
// the same the next time.
func isFault(err error) bool {
	return errors.Is(err, transcode.ErrBad) || errors.Is(err, transcode.ErrTruncated) || errors.Is(err, transcode.ErrUnsupported)
}
