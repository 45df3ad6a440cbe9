package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("l3: ")
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == "generate":
		err = generate(os.Args[2])
	case len(os.Args) == 2 && os.Args[1] == "measure":
		err = measure(os.Stdin, os.Stdout)
	default:
		err = fmt.Errorf("usage: l3 generate DIR | l3 measure")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// request is a line that asks for something, answer the line that follows.
type request struct {
	Do, Way  string
	PPM, PNG []string
	Passes   int
}

type answer struct {
	Ways    []*way  `json:"ways,omitempty"`
	Seconds float64 `json:"seconds"`
}

// measure answers requests until there are no more.
func measure(r io.Reader, w io.Writer) error {
	// Garbage is collected between the measurements.
	debug.SetGCPercent(-1)
	var s set
	out := json.NewEncoder(w)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var q request
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return err
		}
		var a answer
		var err error
		if q.Do == "load" {
			s, err = load(q.PPM, q.PNG)
			a.Ways = s.ways
		} else {
			a.Seconds, err = s.measure(q)
		}
		if err != nil {
			return err
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	return lines.Err()
}

// measure returns the CPU seconds that the passes of a way take.
func (s *set) measure(q request) (float64, error) {
	for _, w := range s.ways {
		if w.Name != q.Way {
			continue
		}
		pass := w.decode
		if q.Do == "encode" {
			pass = w.encode
		}
		runtime.GC()
		before := cpu()
		for range q.Passes {
			if err := pass(s); err != nil {
				return 0, fmt.Errorf("%s: %w", w.Name, err)
			}
		}
		return cpu() - before, nil
	}
	return 0, fmt.Errorf("there is no way %q", q.Way)
}

// cpu is the time that this process has used so far, in seconds.
func cpu() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		log.Fatal(err)
	}
	return float64(t.Nano()) / 1e9
}
