package l3gpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
	"github.com/pipefs/pipefs/l3gpu/internal/device/devicetest"
	"github.com/pipefs/pipefs/l3gpu/internal/standin"
	"github.com/pipefs/pipefs/l3gpu/kernel"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/l3"
)

// quick is a Machine whose program is the processor's decoder, told what to do by the
// same tables: for tests of everything around the program. Unlike standin's it knows all
// numbers that a picture may become. Tests of what the program decodes use devicetest.VM,
// which executes it and takes a thousand times as long.
type quick struct{ *standin.Machine }

func newQuick() quick { return quick{standin.NewMachine()} }

func (m quick) Load(ptx string) (devicetest.Program, error) {
	_, err := m.Machine.Load(ptx)
	return m, err
}

var u32, u64 = binary.LittleEndian.Uint32, binary.LittleEndian.Uint64

func (m quick) Launch(_ string, l device.Launch) error {
	pictures, patches, statuses := m.At(u64(l.Params)), m.At(u64(l.Params[8:])), m.At(u64(l.Params[24:]))
	count := u32(l.Params[16:])
	warps := uint32(kernel.Threads / 32)
	if l.Block != [3]uint32{kernel.Threads, 1, 1} || l.Grid != [3]uint32{(count + warps - 1) / warps, 1, 1} {
		return fmt.Errorf("%d patches with a grid of %v blocks of %v threads", count, l.Grid, l.Block)
	}
	// The files, from their patches: a table does not say how long they are.
	ends := map[uint32]int{}
	for i := range count {
		r := patches[32*i:]
		version := pictures[96*u32(r)+59]
		for c := range 3 {
			end := int(u32(r[8+4*c:])) + int(u32(r[20+4*c:]))
			if version == 2 {
				end = (end+15)&^15 + 8
			}
			if version == 1 || c == 0 {
				ends[u32(r)] = max(ends[u32(r)], end)
			}
		}
	}
	for i, end := range ends {
		if m.decode(pictures[96*i:], end) != nil {
			binary.LittleEndian.PutUint32(statuses[4*i:], 1)
		}
	}
	return nil
}

func (m quick) decode(r []byte, end int) error {
	s, err := l3.Open(m.At(u64(r))[:end:end], transcode.Limits{})
	if err != nil {
		return err
	}
	n := Numbers{Type: Type(r[58])}
	for c := range s.Mode.Channels() {
		n.Scale = append(n.Scale, math.Float32frombits(u32(r[64+4*c:])))
		n.Bias = append(n.Bias, math.Float32frombits(u32(r[80+4*c:])))
	}
	t := l3.Target{Row: int(u64(r[16:])), Pixel: int(u64(r[24:])), Channel: int(u64(r[32:]))}
	// Pix has to begin before sample 0 where distances are negative.
	before := 0
	for _, d := range [][2]int{{t.Row, s.Height}, {t.Pixel, s.Width}, {t.Channel, s.Mode.Channels()}} {
		before -= min(0, d[0]*(d[1]-1))
	}
	t.Base, t.Pix = before, m.At(u64(r[8:])-uint64(before))
	return n.decode(s, t)
}
