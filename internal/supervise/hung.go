package supervise

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// looks is how often the supervisor looks at a daemon before it takes it for hung.
const looks = 12

// hung tells when the mount has not answered for Config.Hung, while the daemon did nothing at
// all: it was stopped, or all its threads wait for each other. One that computes is not hung,
// however long it takes, and is asked nothing. What it tells is worked, which then has to be the same.
func (s *Supervisor) hung(done <-chan struct{}) <-chan string {
	if s.c.Hung <= 0 {
		return nil
	}
	found := make(chan string)
	go func() {
		ticker := time.NewTicker(s.c.Hung / looks)
		defer ticker.Stop()
		answered := make(chan struct{}, 1)
		asked := false // and not answered yet
		before, times := "", 0
		for {
			select {
			case <-done:
				return
			case <-answered:
				asked = false
				continue
			case <-ticker.C:
			}
			now := s.worked()
			idle := now == before && now != ""
			before = now
			switch {
			case !idle:
				times = 0
			case !asked:
				asked, times = true, 0
				go func() {
					s.look()
					answered <- struct{}{}
				}()
			default:
				times++
			}
			if times == looks {
				times = 0
				select {
				case found <- now:
				case <-done:
					return
				}
			}
		}
	}()
	return found
}

// look has the daemon answer a request. An error is an answer: a process that may not look at
// the mount cannot tell whether it hangs.
func (s *Supervisor) look() {
	var st unix.Statx_t
	_ = unix.Statx(unix.AT_FDCWD, s.c.Dir, unix.AT_STATX_FORCE_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, &st)
}

// worked names the daemon and the processor time that it has used; nothing where there is none.
func (s *Supervisor) worked() string {
	child := s.running()
	if child == nil {
		return ""
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child.PID))
	if err != nil {
		return ""
	}
	// Behind the name, which may hold anything, utime and stime are the 12th and 13th field.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return ""
	}
	return fmt.Sprintf("%d %s %s", child.PID, fields[11], fields[12])
}
