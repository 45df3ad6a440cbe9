// Command limit puts a process into a cgroup with a slower disk and less memory, says so
// by a line, and takes it out again at the end of its standard input.
//
//	limit --disk 400 --memory 2000 --process PID DIR
//
// DIR is on the disk. It needs root.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/pipefs/pipefs/internal/cgroup"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "limit:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	disk := flag.Int64("disk", 0, "MB/s that are read from the disk; 0 is no limit")
	memory := flag.Int64("memory", 0, "MB of memory, page cache included; 0 is no limit")
	process := flag.Int("process", 0, "who is limited, with all that it starts from then on")
	flag.Parse()
	group, err := cgroup.Enter(flag.Arg(0), cgroup.Limits{BytesPerSecond: *disk * 1e6, Memory: *memory * 1e6})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, group.Close()) }()
	if err := group.Add(*process); err != nil {
		return err
	}
	fmt.Println(group)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
