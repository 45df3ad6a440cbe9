package doctor

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// processors compares those that this process may use with those of the machine.
func (m *Machine) processors() []Finding {
	const about = "processors"
	all := listed(m.text("/sys/devices/system/cpu/online"))
	mine := listed(m.field("/proc/self/status", "Cpus_allowed_list"))
	if all == 0 || mine == 0 {
		return nil
	}
	mine = min(mine, all)
	limit, limited := m.Groups.CPULimit()
	do := "the daemon decodes beside the loader: give the job a processor or two more than the loader has workers (Slurm: --cpus-per-task, Docker: --cpus), or start fewer workers"
	switch {
	case limited && limit < float64(mine):
		return []Finding{note(about, do, "%s of the %d here may be used (the CPU limit of a cgroup)", trim(limit), all)}
	case mine < all:
		return []Finding{note(about, do, "%d of the %d here may be used (a cpuset, or taskset)", mine, all)}
	}
	return []Finding{ok(about, "all %d may be used", all)}
}

// listed counts the members of a list such as 0-3,8.
func listed(list string) (n int) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		if err != nil {
			return 0
		}
		b := a
		if isRange {
			if b, err = strconv.Atoi(last); err != nil {
				return 0
			}
		}
		n += b - a + 1
	}
	return n
}

func trim(v float64) string { return strconv.FormatFloat(math.Round(10*v)/10, 'f', -1, 64) }

// littleMemory is where a reader and the page cache have little beside a daemon.
const littleMemory = 1 << 30

// memory compares what this process may use with what the machine has.
func (m *Machine) memory() []Finding {
	const about = "memory"
	var total int64
	if _, err := fmt.Sscanf(m.field("/proc/meminfo", "MemTotal"), "%d kB", &total); err != nil {
		return nil
	}
	total *= 1024
	limit, limited := m.Groups.MemoryLimit()
	if !limited || limit >= total {
		return []Finding{ok(about, "%s, and no cgroup limits it", size(total))}
	}
	if limit < littleMemory {
		return []Finding{note(about, "allow the job more", "a cgroup allows %s: the loader, the daemon (an eighth for samples, see --cache-bytes, and 64 MB for batches of epoch views) and the page cache of what they read share it", size(limit))}
	}
	return []Finding{ok(about, "a cgroup allows %s of %s, for the loader, the daemon (%s for samples, see --cache-bytes) and the page cache of what they read", size(limit), size(total), size(min(256<<20, limit/8)))}
}

// step is the path of the cgroup of a step of Slurm.
var step = regexp.MustCompile(`/job_(\d+)/step_([^/\s]+)`)

// slurm says with what a daemon that is started here ends.
func (m *Machine) slurm() []Finding {
	const about = "Slurm"
	job, nodes := m.Getenv("SLURM_JOB_ID"), m.Getenv("SLURM_JOB_NUM_NODES")
	found := step.FindStringSubmatch(m.text("/proc/self/cgroup"))
	if found == nil {
		if job == "" {
			return nil
		}
		return []Finding{ok(about, "job %s, whose steps have no cgroups: a daemon that is started here ends with the job at the latest", job)}
	}
	everywhere := ""
	if n, err := strconv.Atoi(nodes); err == nil && n > 1 {
		everywhere = fmt.Sprintf(", once on each of the %d nodes (srun --ntasks-per-node=1 --overlap)", n)
	}
	switch job, name := found[1], found[2]; name {
	case "batch", "extern", "interactive":
		f := ok(about, "job %s: a daemon that is started here lives until the job ends, and all tasks on this node can read its mount", job)
		if everywhere != "" {
			f.Mark, f.Do = Note, "mount"+everywhere+", in a step that lasts as long as the training"
			f.Says += "; the other nodes cannot"
		}
		return []Finding{f}
	default:
		return []Finding{note(about, "mount in the batch script, before srun"+everywhere, "this process belongs to step %s of job %s: a daemon that is started here is killed when that step ends, and it shares the step's processors and memory", name, job)}
	}
}

// openFiles looks at the limit that --cache daemon meets.
func (m *Machine) openFiles() []Finding {
	const about = "open files"
	const few = 8192
	for line := range strings.Lines(m.text("/proc/self/limits")) {
		rest, is := strings.CutPrefix(line, "Max open files")
		if !is {
			continue
		}
		f := strings.Fields(rest) // soft, hard, unit. Programs in Go use the hard one.
		if len(f) < 2 {
			break
		}
		n, err := strconv.Atoi(f[1])
		switch {
		case err != nil: // unlimited
		case n < few:
			return []Finding{note(about, "ulimit -Hn 65536 as root, or LimitNOFILE=65536 in a unit of systemd", "a process may open %d: with --cache daemon about as many samples are kept, whatever --cache-bytes says", n)}
		}
		return []Finding{ok(about, "a process may open %s", f[1])}
	}
	return nil
}
