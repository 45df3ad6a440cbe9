package fs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/ahead"
	"github.com/pipefs/pipefs/internal/epoch"
)

// A reader that chooses its samples itself, such as a Dataset of PyTorch, reads a batch of them as one file. It opens
// .pipefs/batches-NAME, a file of its own under a name that it makes up, asks by an ioctl for samples of a view, and reads
// them from that file as one array. Each ioctl puts other samples in the place of the last ones. The page cache would
// keep these: the file has to be read with O_DIRECT.

// askedPrefix is what the names of such files begin with, in .pipefs. They are not listed.
const askedPrefix = "batches-"

// askedCommand is the number of the ioctl, without the size of its argument: _IOWR('p', 0xa2, MESSAGE). It returns 1,
// and the argument is then an askedReply, which ends with a zero byte.
const askedCommand = 3<<30 | 'p'<<8 | 0xa2

// askedBytes is the size that such a file seems to have: the kernel asks for nothing behind the end of a file.
const askedBytes = 1 << 40

// askedVersion is that of the messages.
const askedVersion = 1

// askedHeader is the first line of a message, in JSON. Paths follow, each with a zero byte behind it.
type askedHeader struct {
	V     int    `json:"v"`
	View  string `json:"view"`  // below the root of the mount: .draw/SEED/EPOCH/VIEW
	Paths int    `json:"paths"` // so many follow, below the view
}

type askedReply struct {
	Samples int    `json:"samples,omitempty"` // so many of those that were asked for are in the file, the first ones
	Bytes   int64  `json:"bytes,omitempty"`   // of the file
	Error   string `json:"error,omitempty"`
	// Never: the samples of the view are in no file, whatever is asked for.
	Never bool `json:"never,omitempty"`
}

// asked is such a file.
type asked struct {
	mu   sync.Mutex
	file *epoch.File // nil: nothing was asked for
	by   uint32      // user
}

func askedSize(command uint32) (size int, ok bool) {
	return int(command >> 16 & ahead.MaxMessage), command&^uint32(ahead.MaxMessage<<16) == askedCommand
}

func (f *FS) lookupAsked(name string, out *fuse.EntryOut) {
	f.root.fillPath(path.Join(pipefsName, name), special{asked: &asked{}, size: askedBytes}, forever, out, func(*special) {})
}

// ask is the ioctl.
func (f *FS) ask(in *fuse.IoctlIn, size int, argument []byte, out *fuse.IoctlOut, reply []byte) fuse.Status {
	index, id := splitNode(in.NodeId)
	if index != 0 {
		return enotty
	}
	s := f.root.special(id)
	switch {
	case s == nil && id >= firstSpecial && f.journal.Resumes():
		return estale // of a daemon before this one
	case s == nil || s.asked == nil:
		return enotty
	case size != len(argument) || size != len(reply):
		return fuse.EINVAL
	}
	var told askedReply
	file, samples, err := f.batchOf(in, argument)
	if err == nil {
		told = askedReply{Samples: samples, Bytes: file.Size()}
		s.asked.mu.Lock()
		file, s.asked.file, s.asked.by = s.asked.file, file, in.Uid
		s.asked.mu.Unlock()
		if file != nil {
			file.Drop()
		}
	} else {
		told = askedReply{Error: err.Error(), Never: errors.Is(err, epoch.ErrNoBatch)}
	}
	text, err := json.Marshal(told)
	if err != nil || len(text) >= len(reply) {
		return fuse.EINVAL
	}
	out.Result = 1
	copy(reply, text)
	return fuse.OK
}

// batchOf returns the file of the samples that a message asks for.
func (f *FS) batchOf(in *fuse.IoctlIn, message []byte) (file *epoch.File, samples int, err error) {
	line, rest, _ := bytes.Cut(message, []byte{'\n'})
	var h askedHeader
	if err := json.Unmarshal(line, &h); err != nil {
		return nil, 0, fmt.Errorf("the first line of the message cannot be read: %w", err)
	}
	paths := strings.Split(string(rest), "\x00")
	switch {
	case h.V != askedVersion:
		return nil, 0, fmt.Errorf("the daemon knows version %d of batches, not %d: use the pipefs that mounted", askedVersion, h.V)
	case h.Paths < 1 || h.Paths >= len(paths): // each of them has a zero byte behind it
		return nil, 0, fmt.Errorf("the message says that it has %d paths, and has %d", h.Paths, len(paths)-1)
	}
	v, below, err := f.viewOf(h.View + "/")
	switch {
	case err != nil:
		return nil, 0, err
	case below != "" || v.pipeline.Undrawn():
		err = fmt.Errorf("%s is not the path of a view whose files stay what they are", h.View)
	}
	defer v.release(1)
	if err != nil {
		return nil, 0, err
	}
	ids := make([]uint32, h.Paths)
	r := readers{f: f, added: map[string]bool{}, mode: 0o444}
	for i, name := range paths[:h.Paths] {
		if ids[i], err = f.sampleOf(v, name); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", name, err)
		}
		if f.others {
			r.addPath(f.tree.path(ids[i]))
		}
	}
	if r.mode&0o004 == 0 && in.Uid != 0 && int(in.Uid) != os.Getuid() {
		return nil, 0, iofs.ErrPermission // some of them may be readable, one by one
	}
	return f.epochs.Asked(v.pipeline, ids)
}

// sampleOf returns the entry of a sample in a view.
func (f *FS) sampleOf(v *view, name string) (uint32, error) {
	id, _, _, err := f.entry(v, name)
	if errors.Is(err, errIsDir) || err == nil && !f.reg.IsSample(f.tree.path(id)) {
		err = errors.New("it is no sample")
	}
	if err == nil {
		for dir := path.Dir(f.tree.path(id)); dir != "."; dir = path.Dir(dir) {
			f.noteValidation(v, dir)
		}
	}
	return id, err
}

// readAsked is READ.
func (f *FS) readAsked(cancel <-chan struct{}, in *fuse.ReadIn, a *asked, n int) (fuse.ReadResult, fuse.Status) {
	a.mu.Lock()
	file, by := a.file, a.by
	a.mu.Unlock()
	switch {
	case in.Flags&unix.O_DIRECT == 0 || file == nil:
		return nil, fuse.EINVAL
	case in.Uid != by && in.Uid != 0:
		return nil, fuse.EACCES
	}
	return f.readEpoch(cancel, in, file, n)
}
