package mountd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime/pprof"
	"time"

	"github.com/pipefs/pipefs/internal/control"
)

// pprof takes a profile of this process: one of runtime/pprof, or "cpu", which takes that many seconds.
func (m *Mount) pprof(name string, seconds int) ([]byte, error) {
	var b bytes.Buffer
	if name != "cpu" {
		p := pprof.Lookup(name)
		if p == nil {
			return nil, fmt.Errorf("there is no profile %q", name)
		}
		format := 0
		if name == "goroutine" {
			format = 2 // text, with what each waits for
		}
		err := p.WriteTo(&b, format)
		return b.Bytes(), err
	}
	if err := pprof.StartCPUProfile(&b); err != nil {
		return nil, err
	}
	select {
	case <-time.After(time.Duration(min(max(seconds, 1), control.MaxProfile)) * time.Second):
	case <-m.until.Done():
	}
	pprof.StopCPUProfile()
	return b.Bytes(), nil
}

// settings is the configuration of the mount.
func (m *Mount) settings() (json.RawMessage, error) { return json.Marshal(m.config) }
