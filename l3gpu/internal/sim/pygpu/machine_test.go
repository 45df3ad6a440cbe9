package pygpu

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/ptxvm"
	"github.com/pipefs/pipefs/l3gpu/kernel"
)

// The requests of fake_gpu.py: a byte, two numbers and a payload.
const (
	opAlloc = iota + 1
	opFree
	opWrite
	opRead
	opFill
	opLaunch
	opLoad
)

// The build that fake_gpu.py says it needs.
var module = sync.OnceValues(func() (*ptxvm.Module, error) {
	ptx, err := kernel.Hopper()
	if err != nil {
		return nil, err
	}
	return ptxvm.Parse(string(ptx))
})

// machine is a GPU for another process: memory, and kernels that are interpreted.
type machine struct {
	device  *ptxvm.Device
	program *ptxvm.Program
}

// startMachine returns the file by which a child speaks to a new machine.
func startMachine(t *testing.T) *os.File {
	t.Helper()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	testenv.Must(t, err)
	ours, theirs := os.NewFile(uintptr(ends[0]), "machine"), os.NewFile(uintptr(ends[1]), "child")
	conn, err := net.FileConn(ours)
	ours.Close()
	testenv.Must(t, err)
	m := &machine{device: ptxvm.NewDevice(ptxvm.Options{Workers: 2})}
	done := make(chan error, 1)
	go func() { done <- m.serve(conn) }()
	t.Cleanup(func() {
		theirs.Close()
		conn.Close()
		if err := <-done; err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return theirs
}

func (m *machine) serve(conn net.Conn) error {
	r := bufio.NewReader(conn)
	for {
		var head struct {
			Op      uint8
			A, B, N uint64
		}
		if err := binary.Read(r, binary.LittleEndian, &head); err != nil {
			return err
		}
		payload := make([]byte, head.N)
		if _, err := io.ReadFull(r, payload); err != nil {
			return err
		}
		answer, err := m.do(head.Op, head.A, head.B, payload)
		reply := []byte{0}
		if err != nil {
			reply[0], answer = 1, []byte(err.Error())
		}
		reply = binary.LittleEndian.AppendUint64(reply, uint64(len(answer)))
		if _, err := conn.Write(append(reply, answer...)); err != nil {
			return err
		}
	}
}

func (m *machine) do(op uint8, a, b uint64, payload []byte) ([]byte, error) {
	switch op {
	case opAlloc:
		at, err := m.device.Alloc(int(a), int(b))
		return ptxvm.U64(at), err
	case opFree:
		return nil, m.device.Free(a)
	case opWrite:
		return nil, m.device.Write(a, payload)
	case opRead:
		p := make([]byte, b)
		return p, m.device.Read(a, p)
	case opFill:
		return nil, m.device.Fill(a, payload[0], int(b))
	case opLaunch:
		return nil, m.launch(payload)
	case opLoad:
		if ptx, err := kernel.Hopper(); err != nil || !bytes.Equal(payload, ptx) {
			return nil, fmt.Errorf("another program than the one embedded, of %d bytes", len(payload))
		}
		parsed, err := module()
		if err != nil {
			return nil, err
		}
		m.program, err = m.device.Load(parsed)
		return nil, err
	}
	return nil, fmt.Errorf("request %d", op)
}

// launch runs a kernel, with the parameters of kernel's doc.go.
func (m *machine) launch(payload []byte) error {
	name, rest, _ := bytes.Cut(payload, []byte{0})
	var l struct {
		Blocks, Threads   uint32
		Pictures, Patches uint64
		Count, _          uint32
		Statuses          uint64
	}
	if err := binary.Read(bytes.NewReader(rest), binary.LittleEndian, &l); err != nil {
		return err
	}
	if m.program == nil {
		return errors.New("a launch before there is a program")
	}
	params, err := m.program.Pack(string(name), ptxvm.U64(l.Pictures), ptxvm.U64(l.Patches), ptxvm.U32(l.Count), ptxvm.U64(l.Statuses))
	if err != nil {
		return err
	}
	_, err = m.program.Launch(string(name), l.Blocks, l.Threads, params)
	return err
}
