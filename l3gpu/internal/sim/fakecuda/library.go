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
