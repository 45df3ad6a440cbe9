package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/l3gpu"
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

// jpeg says how JPEG files are decoded.
func (m *Machine) jpeg() []Finding {
	const about = "JPEG"
	if m.Vectorised {
		return []Finding{ok(about, "decoded with assembly for this processor")}
	}
	return []Finding{note(about, "use a processor with AVX2 where decoding is the bottleneck, or store decoded views: pipefs materialize", "pipefs has no assembly for this processor: decoding takes several times as long")}
}

// gpu says whether L3 files can be decoded on one.
func (m *Machine) gpu() []Finding {
	const about = "GPU"
	name, err := m.GPU()
	switch {
	case err == nil:
		return []Finding{ok(about, "%s: L3 files are decoded there where that is faster", name)}
	case errors.Is(err, l3gpu.ErrNoDriver) && !m.exists("/dev/nvidiactl") && !m.exists("/proc/driver/nvidia/version"):
		return []Finding{ok(about, "none; only views of L3 files could use one")}
	case errors.Is(err, l3gpu.ErrNoDriver):
		return []Finding{note(about, "in a container give it the driver's libraries (docker run --gpus all); else install the driver's libcuda.so.1", "there is an NVIDIA driver in the kernel, but its library cannot be opened (%v): L3 files are decoded by the processor", err)}
	}
	return []Finding{note(about, "see whether nvidia-smi works here, and what CUDA_VISIBLE_DEVICES says", "%v: L3 files are decoded by the processor", err)}
}

// trial tells how the trial went. It is not made where it cannot succeed.
func (m *Machine) trial(ctx context.Context, pointless bool) Finding {
	const about = "trial"
	if pointless {
		return note(about, "mend the problem above, and run this again", "nothing was mounted")
	}
	began := time.Now()
	if err := m.Trial(ctx); err != nil {
		return fatal(about, fmt.Errorf("mounting two small pictures failed: %w", err), "")
	}
	return ok(about, "two small pictures were mounted, read in two views, and unmounted, in %v", time.Since(began).Round(time.Millisecond))
}

// patience is how long mounting, reading and unmounting may take together.
const patience = 30 * time.Second

// trial mounts two small pictures as a user does, reads them and unmounts them. Nothing of
// it stays.
func trial(ctx context.Context, program string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// not os.TempDir: sockets need short paths
	dir, err := os.MkdirTemp("/tmp", "pipefs-doctor-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	dataset, mnt := filepath.Join(dir, "dataset"), filepath.Join(dir, "mnt")
	run := func(args ...string) error {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = append(cmd.Environ(), "XDG_CACHE_HOME="+dir, "XDG_STATE_HOME="+dir, "XDG_RUNTIME_DIR="+dir)
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("pipefs %s: %s (%w)", args[0], strings.TrimSpace(string(said)), err)
		}
		return nil
	}
	picture := append([]byte("P6\n2 2\n255\n"), "pipefspipefs"...)
	for _, name := range []string{"a.ppm", "b.ppm"} {
		if err := errors.Join(os.MkdirAll(dataset, 0o700), os.MkdirAll(mnt, 0o700), os.WriteFile(filepath.Join(dataset, name), picture, 0o600)); err != nil {
			return err
		}
	}
	if err := run("mount", "--ready-timeout", "20s", "--store-max", "0", dataset, mnt); err != nil {
		return err
	}
	defer func() {
		// A mount that somebody looks at all the time is busy: it need not be.
		if e := run("umount", mnt); e != nil {
			if lazy := mounts.Unmount(mnt, true); lazy != nil {
				err = errors.Join(err, e, lazy)
			}
		}
	}()
	original, err := os.ReadFile(filepath.Join(mnt, "original/a.ppm"))
	if err != nil {
		return err
	}
	if !bytes.Equal(original, picture) {
		return errors.New("original/ shows other bytes than the dataset has")
	}
	bmp, err := os.ReadFile(filepath.Join(mnt, "bmp/b.bmp"))
	if err == nil && !bytes.HasPrefix(bmp, []byte("BM")) {
		err = errors.New("bmp/ shows a file that is no BMP")
	}
	return err
}
