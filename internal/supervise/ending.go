package supervise

import (
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/pipefs/pipefs/internal/mounts"
)

// A mount that shall end is waited for so long while it is busy, and open files are served
// so long after a lazy unmount: together less than what Docker, Kubernetes and Slurm give a
// process before they kill it, which would leave a dead mount behind.
const (
	untilLazy = 2 * time.Second
	// Lingering is how long open files are served after that.
	Lingering = time.Second
	// UntilDone is how long a mount that nobody uses may take to end.
	UntilDone = 5 * time.Second
)

// Ending is how a mount ends.
type Ending struct {
	Dir   string
	Place mounts.Place
	Done  <-chan struct{} // closed when the mount is gone and its last request is answered
	Log   *slog.Logger
}

// Run takes the mount away: patiently, then lazily, and at once when asked a second time.
// Then it waits until the last open file is closed. It returns false where the mount cannot
// be taken away, or requests are still under way.
func (e *Ending) Run(again <-chan os.Signal) bool {
	left, ok := e.unmount(again)
	return ok && e.outlast(left, again)
}

// unmount returns how long what is left may take to end; ok is false where the mount
// cannot be taken away.
func (e *Ending) unmount(again <-chan os.Signal) (left time.Duration, ok bool) {
	patience := time.NewTimer(untilLazy)
	defer patience.Stop()
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	because := ""
	for told := false; because == ""; {
		err := e.Place.Unmount(false)
		if err == nil {
			return UntilDone, true
		}
		if !told && !errors.Is(err, mounts.ErrBusy) {
			told = true
			e.Log.Warn("unmounting", "cause", err)
		}
		select {
		case <-e.Done:
			return UntilDone, true
		case <-retry.C:
		case <-patience.C:
			because = "it stayed busy"
		case <-again:
			because = "a second signal"
		}
	}
	for _, p := range mounts.Users(e.Dir, 5) {
		e.Log.Warn("the mount is busy", "pid", p.PID, "program", p.Name, "uses", p.Uses)
	}
	if err := e.Place.Unmount(true); err != nil {
		e.Log.Error("unmounting lazily", "cause", err)
		return 0, false
	}
	e.Log.Warn("unmounted lazily: files that are open can be read a little longer", "because", because, "seconds", Lingering.Seconds())
	return Lingering, true
}

// outlast waits until the last open file is closed. It returns false where that takes
// too long, or a signal comes first.
func (e *Ending) outlast(left time.Duration, again <-chan os.Signal) bool {
	select {
	case <-e.Done:
		e.Log.Info("unmounted", "mount", e.Dir)
		return true
	case <-time.After(left):
	case <-again:
	}
	e.Log.Warn("ending while files are open: their readers get an error", "mount", e.Dir)
	return false
}

// Unseen is closed when nobody is left who could see the mount: a namespace whose last
// process ends would otherwise live on with the daemon, and the daemon with it. processes
// are those of the mount itself.
func (e *Ending) Unseen(processes func() []int) <-chan struct{} {
	alone := make(chan struct{})
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		// Twice: the first process may be about to be replaced by the next.
		for times := 0; times < 2; {
			select {
			case <-e.Done:
				return
			case <-tick.C:
			}
			if times++; e.Place.Seen(processes()...) {
				times = 0
			}
		}
		close(alone)
	}()
	return alone
}
