package v1

import (
	"syscall"
	"testing"
	"time"
)

// cpuTime is what this process has used of processors: on a machine that is shared, the
// time that passes says less.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reportCPU reports the rate in bytes for each second of processor time.
func reportCPU(b *testing.B, size int, used time.Duration) {
	b.ReportMetric(float64(size)*float64(b.N)/used.Seconds()/1e6, "MB/cpu-s")
}
