// Package fakecuda takes the place of NVIDIA's library and of the program of package kernel
// in tests that run where there is no GPU. The processor's decoder does the program's work.
//
// # Nouns
//
// The library is a libcuda.so.1 of our own, compiled from testdata by the C compiler. A
// process that is given its environment finds it instead of NVIDIA's. It has the memory,
// the handles and the rules of a GPU, and asks a machine to run the kernels. The machine is
// in the test's process: it sees the same memory, and reads the same tables that the GPU
// would have read.
package fakecuda

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pipefs/pipefs/l3gpu/internal/device"
	"github.com/pipefs/pipefs/l3gpu/internal/sim/devicetest"
	"github.com/pipefs/pipefs/l3gpu/kernel"
)

//go:embed testdata/libcuda.c
var source []byte

// Compile writes the library to path.
func Compile(path string) error {
	cc := exec.Command("cc", "-shared", "-fPIC", "-O1", "-pthread", "-Wall", "-x", "c", "-o", path, "-")
	cc.Stdin = bytes.NewReader(source)
	if out, err := cc.CombinedOutput(); err != nil {
		return fmt.Errorf("no library in the place of libcuda; is there a C compiler (gcc)? %w\n%s", err, out)
	}
	return nil
}

// Library compiles the library and starts a machine for it, for the length of the test.
// It returns the environment of processes that are to find it, and a counter of launches.
func Library(t testing.TB) (environment []string, launches *atomic.Int64) {
	t.Helper()
	dir := t.TempDir()
	if err := Compile(filepath.Join(dir, "libcuda.so.1")); err != nil {
		t.Fatal(err)
	}
	// Sockets need short paths.
	short, err := os.MkdirTemp("/tmp", "pf")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(short, "machine")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	launches = new(atomic.Int64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			answer := "+"
			if err := serve(conn); err != nil {
				t.Errorf("a launch: %v", err)
				answer = "-"
			}
			launches.Add(1)
			_, _ = conn.Write([]byte(answer))
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
		os.RemoveAll(short)
	})
	return []string{"LD_LIBRARY_PATH=" + dir, "PIPEFS_STUB_MACHINE=" + socket}, launches
}

// area is memory of the process that asked.
type area struct {
	at uint64
	b  []byte
}

// serve does one launch: "PID KERNEL 8 words ADDRESS:SIZE:FD …".
func serve(conn net.Conn) error {
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	words := strings.Fields(line)
	if len(words) < 10 || !strings.HasPrefix(words[1], "l3v") {
		return fmt.Errorf("%q", line)
	}
	var params []byte
	for _, w := range words[2:10] {
		n, err := strconv.ParseUint(w, 10, 64)
		if err != nil {
			return err
		}
		params = binary.LittleEndian.AppendUint64(params, n)
	}
	var areas []area
	defer func() {
		for _, a := range areas {
			_ = syscall.Munmap(a.b)
		}
	}()
	for _, w := range words[10:] {
		a, err := open(words[0], w)
		if err != nil {
			return err
		}
		areas = append(areas, a)
	}
	return Launch(params, func(address uint64) []byte {
		for _, a := range areas {
			if address >= a.at && address < a.at+uint64(len(a.b)) {
				return a.b[address-a.at:]
			}
		}
		return nil
	})
}

func open(pid, word string) (a area, err error) {
	parts := strings.Split(word, ":")
	if len(parts) != 3 {
		return a, errors.New(word)
	}
	if a.at, err = strconv.ParseUint(parts[0], 10, 64); err != nil {
		return a, err
	}
	size, err := strconv.Atoi(parts[1])
	if err != nil {
		return a, err
	}
	f, err := os.OpenFile("/proc/"+pid+"/fd/"+parts[2], os.O_RDWR, 0)
	if err != nil {
		return a, err
	}
	defer f.Close()
	a.b, err = syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	return a, err
}

// Machine is a devicetest.Machine, for tests within one process.
type Machine struct {
	next   uint64
	memory map[uint64][]byte
}

// NewMachine returns one without memory.
func NewMachine() *Machine { return &Machine{next: 1 << 32, memory: map[uint64][]byte{}} }

// Load implements [devicetest.Machine].
func (m *Machine) Load(ptx string) (devicetest.Program, error) {
	if !strings.Contains(ptx, ".version") {
		return nil, errors.New("no PTX")
	}
	return m, nil
}

// Has implements [devicetest.Program].
func (m *Machine) Has(name string) bool { return strings.HasPrefix(name, "l3v") }

// Launch implements [devicetest.Program].
func (m *Machine) Launch(_ string, l device.Launch) error {
	var p kernel.Params
	if err := read(l.Params, &p); err != nil {
		return err
	}
	count, warps := p.Count, uint32(kernel.Threads/32)
	if l.Block != kernel.Threads || l.Grid != (count+warps-1)/warps {
		return fmt.Errorf("%d patches with a grid of %v blocks of %v threads", count, l.Grid, l.Block)
	}
	return Launch(l.Params, m.at)
}

// Alloc implements [devicetest.Machine].
func (m *Machine) Alloc(size int64) (uint64, error) {
	at := m.next
	m.next += uint64(size) + 1<<30
	m.memory[at] = make([]byte, size)
	return at, nil
}

// Free implements [devicetest.Machine].
func (m *Machine) Free(at uint64) error {
	if _, ok := m.memory[at]; !ok {
		return errors.New("no such memory")
	}
	delete(m.memory, at)
	return nil
}

// at is memory from an address to its end, or nil.
func (m *Machine) at(address uint64) []byte {
	for begin, b := range m.memory {
		if address >= begin && address < begin+uint64(len(b)) {
			return b[address-begin:]
		}
	}
	return nil
}

func (m *Machine) within(at uint64, n int) ([]byte, error) {
	b := m.at(at)
	if len(b) < n {
		return nil, errors.New("memory of nobody")
	}
	return b[:n], nil
}

// Write implements [devicetest.Machine].
func (m *Machine) Write(at uint64, b []byte) error {
	to, err := m.within(at, len(b))
	copy(to, b)
	return err
}

// Read implements [devicetest.Machine].
func (m *Machine) Read(at uint64, b []byte) error {
	from, err := m.within(at, len(b))
	copy(b, from)
	return err
}
