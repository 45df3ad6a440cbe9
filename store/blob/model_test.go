package blob_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/blob"
)

// Random operations, with everything that goes wrong on the way, against a model. A soak
// makes them 100,000.
func TestRandomOperations(t *testing.T) {
	s := testenv.S3(t)
	login(t, s)
	operations, hung := 2000, 0.001
	if testenv.Soak() {
		operations = 100_000
	}
	way := testenv.Way{Refused: 0.02, Reset: 0.02, AnswerLost: 0.03, Truncated: 0.03}
	p := testenv.Distance(t, s.Endpoint, testenv.Way{Fault: func(*http.Request) testenv.Fault {
		if rand.Float64() < hung {
			return testenv.Hung
		}
		return way.Draw()
	}})
	directory, err := blob.OpenDirectory(t.TempDir())
	testenv.Must(t, err)
	for _, c := range []struct {
		name       string
		place      blob.Objects
		operations int
	}{
		{"Bucket", bucket(t, p.Endpoint, "s3://"+s.Bucket+"/m", blob.Options{Timeout: time.Second, Patience: patience}), operations},
		{"Directory", directory, operations},
	} {
		t.Run(c.name, func(t *testing.T) {
			const workers = 8
			var group sync.WaitGroup
			for w := range workers {
				seed := testenv.Seed(t) + uint64(w)
				m := &model{
					t: t, o: c.place, dir: fmt.Sprintf("w%d/", w), r: rand.New(rand.NewPCG(seed, 0)),
					now: map[string]blob.Version{}, held: map[blob.Version]string{},
				}
				group.Go(func() {
					for i := range c.operations / workers {
						if !m.step() {
							t.Logf("worker %d, operation %d, seed %d", w, i, seed)
							return
						}
					}
				})
			}
			group.Wait()
		})
	}
}

// patience is that of the place; hang is when an operation has not kept to it.
const patience, hang = time.Minute, 2 * time.Minute

// model is what a directory of a place must hold, which has one writer.
type model struct {
	t    *testing.T
	o    blob.Objects
	dir  string
	r    *rand.Rand
	now  map[string]blob.Version // by name
	held map[blob.Version]string // what was ever there
	all  []blob.Version
}

// step does one operation. It returns false if that is wrong.
func (m *model) step() bool {
	ctx, cancel := context.WithTimeout(m.t.Context(), hang)
	defer cancel()
	name := fmt.Sprintf("%s%d/%d", m.dir, m.r.IntN(2), m.r.IntN(4))
	version, there := m.now[name]
	ok := true
	check := func(what string, err, class error) bool {
		ok = errors.Is(err, class)
		if !ok {
			m.t.Errorf("%s %s at %q: %v, want %v", what, name, version, err, class)
		}
		return ok && err == nil
	}
	switch m.r.IntN(8) {
	case 0:
		data := m.data()
		v, err := m.o.PutIfAbsent(ctx, name, strings.NewReader(data), int64(len(data)))
		class := error(nil)
		if there {
			class = blob.ErrExists
		}
		if check("put", err, class) {
			m.wrote(name, v, data)
		}
	case 1, 2:
		at := m.version(version)
		data := m.data()
		v, err := m.o.PutIfMatch(ctx, name, at, []byte(data))
		class := error(nil)
		if at != version {
			class = blob.ErrChanged
		}
		if check(fmt.Sprintf("replace version %q of", at), err, class) {
			m.wrote(name, v, data)
		}
	case 3:
		if check("delete", m.o.Delete(ctx, name), nil) {
			delete(m.now, name)
		}
	case 4:
		i, err := m.o.Stat(ctx, name)
		if !there {
			check("stat", err, fs.ErrNotExist)
		} else if check("stat", err, nil) && (i.Version != version || i.Size != int64(len(m.held[version]))) {
			m.t.Errorf("stat %s: %+v, want %q", name, i, version)
			ok = false
		}
	case 5:
		ok = m.lists(ctx)
	default:
		ok = m.reads(ctx, name, m.version(cmp.Or(version, "none")), check)
	}
	if ctx.Err() != nil {
		m.t.Errorf("%s: not done within %v", name, hang)
	}
	return ok
}

// version is mostly the one that is there.
func (m *model) version(now blob.Version) blob.Version {
	if m.r.IntN(4) > 0 || len(m.all) == 0 {
		return now
	}
	return m.all[m.r.IntN(len(m.all))]
}

func (m *model) data() string {
	b := make([]byte, m.r.IntN(1<<m.r.IntN(17)))
	for i := range b {
		b[i] = byte(m.r.Uint32())
	}
	return string(b)
}

func (m *model) wrote(name string, v blob.Version, data string) {
	m.now[name], m.held[v] = v, data
	m.all = append(m.all, v)
}

func (m *model) reads(ctx context.Context, name string, v blob.Version, check func(string, error, error) bool) bool {
	now, there := m.now[name]
	data := m.held[now]
	off := m.r.IntN(len(data) + 2)
	b := make([]byte, 1+m.r.IntN(len(data)+1))
	err := m.o.ReadAt(ctx, name, v, b, int64(off))
	switch {
	case !there:
		check("read", err, fs.ErrNotExist)
	case v != now:
		check("read another version of", err, blob.ErrChanged)
	case off+len(b) > len(data):
		check("read beyond", err, io.ErrUnexpectedEOF)
	case check("read", err, nil) && string(b) != data[off:][:len(b)]:
		m.t.Errorf("%s: wrong bytes", name)
		return false
	}
	return !m.t.Failed()
}

func (m *model) lists(ctx context.Context) bool {
	var got, want []string
	for page, err := range m.o.List(ctx, m.dir, true) {
		if err != nil {
			m.t.Errorf("list: %v", err)
			return false
		}
		for _, i := range page {
			got = append(got, fmt.Sprint(i.Name, " ", i.Version, " ", i.Size))
		}
	}
	for name, v := range m.now {
		want = append(want, fmt.Sprint(name, " ", v, " ", len(m.held[v])))
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		m.t.Errorf("list: %q, want %q", got, want)
		return false
	}
	return true
}
