package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pipefs/pipefs/internal/cgroup"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/l3gpu"
)

// TestMain: the test's program is pipefs that cannot mount, for the trial.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "mount" || os.Args[1] == "umount") {
		fmt.Fprintln(os.Stderr, "pipefs: no mount today")
		os.Exit(32)
	}
	os.Exit(m.Run())
}

// other is a machine on which all is well for user ann.
type other struct {
	*Machine
	t   *testing.T
	env map[string]string
}

func machine(t *testing.T) *other {
	m := &other{t: t, env: map[string]string{}}
	root := t.TempDir()
	m.Machine = &Machine{
		Root: root, UID: 1000, User: "ann",
		Getenv:     func(name string) string { return m.env[name] },
		FUSE:       func() error { return nil },
		Fusermount: func() (string, error) { return "/usr/bin/fusermount3", nil },
		Inotify:    func() error { return nil },
		FileSystem: func(string) (mounts.FileSystem, error) { return mounts.FileSystem{Name: "ext4", Local: true}, nil },
		Free:       func(string) (int64, error) { return 100e9, nil },
		Probe:      func(string) error { return nil },
		Cache:      func() (string, int64, error) { return "/home/ann/.cache/pipefs", 10e9, nil },
		Sockets:    func() (string, error, error) { return "/run/user/1000/pipefs/x.sock", nil, nil },
		Vectorised: true,
		GPU:        func() (string, error) { return "", l3gpu.ErrNoDriver },
		Watch:      func(string) error { return nil },
		Trial:      func(context.Context) error { return nil },
	}
	m.env["XDG_RUNTIME_DIR"] = "/run/user/1000"
	m.file("/proc/sys/kernel/osrelease", "6.14.0-29-generic")
	m.file("/proc/self/status", "Name:\tpipefs\nNoNewPrivs:\t0\nCpus_allowed_list:\t0-7\n")
	m.file("/sys/devices/system/cpu/online", "0-7")
	m.file("/proc/meminfo", "MemTotal:       65837120 kB\n")
	m.file("/proc/self/limits", "Max processes             1 2 processes\nMax open files            1024                 1048576              files\n")
	m.file("/proc/sys/fs/inotify/max_user_watches", "65536")
	m.file("/proc/sys/fs/inotify/max_user_instances", "128")
	m.file("/etc/fuse.conf", "# mount_max = 1\nuser_allow_other\n")
	return m
}

func (m *other) file(path, text string) {
	m.t.Helper()
	name := filepath.Join(m.Root, path)
	testenv.Must(m.t, os.MkdirAll(filepath.Dir(name), 0o755))
	testenv.Must(m.t, os.WriteFile(name, []byte(text+"\n"), 0o644))
}

// group puts the machine's process into a group of version 2.
func (m *other) group(name string, limits map[string]string) {
	root := filepath.Join(m.Root, "cgroup")
	m.file("/cgroup/cgroup.controllers", "cpu memory")
	m.file("/proc/self/cgroup", "0::"+name)
	for file, text := range limits {
		m.file(filepath.Join("/cgroup", name, file), text)
	}
	m.Groups = cgroup.System{Mounts: []*mounts.Mount{{FSType: "cgroup2", Mountpoint: root}}, Self: filepath.Join(m.Root, "proc/self/cgroup")}
}

func (m *other) mount(kind, point string, uid int) {
	m.Mounts = append(m.Mounts, &mounts.Mount{FSType: kind, Mountpoint: point, VFSOptions: fmt.Sprintf("ro,user_id=%d", uid)})
}

// TestWell: a machine without fault gets no advice.
func TestWell(t *testing.T) {
	m := machine(t)
	m.Dataset = t.TempDir()
	found := m.Look(context.Background())
	if len(found) < 12 {
		t.Errorf("%d findings only", len(found))
	}
	for _, f := range found {
		if f.Mark != OK || f.Do != "" || f.Says == "" || f.About == "" || f.Fatal != nil {
			t.Errorf("%+v", f)
		}
	}
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(m *other)
		about   string
		mark    Mark
		says    string
		do      string
		prevent bool // every mount
	}{
		{"a kernel that is too old", func(m *other) { m.file("/proc/sys/kernel/osrelease", "5.4.0-200") }, "kernel", Problem, "made for 5.6", "boot Linux 5.6", false},
		{"without passthrough", func(m *other) { m.file("/proc/sys/kernel/osrelease", "5.15.0") }, "kernel", Note, "no passthrough (6.9), nor huge pages", "--cache page", false},
		{"without huge pages", func(m *other) { m.file("/proc/sys/kernel/osrelease", "6.9.1") }, "kernel", OK, "huge pages for --cache daemon (6.14)", "", false},
		{"a new major version", func(m *other) { m.file("/proc/sys/kernel/osrelease", "10.0-rc1") }, "kernel", OK, "everything that pipefs uses", "", false},
		{"an unknown version", func(m *other) { m.file("/proc/sys/kernel/osrelease", "x") }, "kernel", Note, "does not tell", "", false},

		{"no device", func(m *other) { m.FUSE = func() error { return errors.New("there is no /dev/fuse: modprobe fuse") } }, "mounting", Problem, "modprobe", "", true},
		{"no device: no trial", func(m *other) { m.FUSE = func() error { return errors.New("no") } }, "trial", Note, "nothing was mounted", "mend", true},
		{"root", func(m *other) { m.UID = 0 }, "mounting", OK, "root may mount", "", false},
		{"a user namespace", func(m *other) { m.Fusermount = func() (string, error) { return "", errors.New("none") } }, "mounting", OK, "without fusermount3", "", false},
		{"nobody else", func(m *other) { m.file("/etc/fuse.conf", "#user_allow_other") }, "other users", OK, "needs the line user_allow_other", "", false},
		{"no fuse.conf", func(m *other) { testenv.Must(m.t, os.Remove(filepath.Join(m.Root, "/etc/fuse.conf"))) }, "other users", OK, "only user ann", "", false},
		{"as many mounts as users may have", func(m *other) {
			m.file("/etc/fuse.conf", "mount_max = 2")
			m.mount("fuse.sshfs", "/a", 1)
			m.mount("fuse", "/b", 2)
		}, "mounts", Problem, "there are 2 FUSE mounts", "mount_max = 4", true},
		{"nearly as many", func(m *other) { m.file("/etc/fuse.conf", "mount_max=3"); m.mount("fuse.x", "/a", 1) }, "mounts", Note, "1 FUSE mounts, and users may have 3", "pipefs mounts", false},
		{"mount_max that is no number", func(m *other) { m.file("/etc/fuse.conf", "mount_max = many") }, "mounts", Note, "no number", "", false},

		{"a cpuset", func(m *other) { m.file("/proc/self/status", "Cpus_allowed_list:\t2-3,6") }, "processors", Note, "3 of the 8", "--cpus-per-task", false},
		{"a CPU limit", func(m *other) { m.group("/job", map[string]string{"cpu.max": "250000 100000"}) }, "processors", Note, "2.5 of the 8 here may be used (the CPU limit", "workers", false},
		{"a CPU limit that does not bind", func(m *other) { m.group("/job", map[string]string{"cpu.max": "1600000 100000"}) }, "processors", OK, "all 8", "", false},
		{"a memory limit", func(m *other) { m.group("/job", map[string]string{"memory.max": "16000000000"}) }, "memory", OK, "16 GB of 67.4 GB", "", false},
		{"little memory", func(m *other) { m.group("/job", map[string]string{"memory.max": "536870912"}) }, "memory", Note, "allows 536 MB", "allow the job more", false},
		{"a step of Slurm", func(m *other) {
			m.group("/system.slice/slurmstepd.scope/job_42/step_0/user/task_3", nil)
		}, "Slurm", Note, "step 0 of job 42", "mount in the batch script, before srun", false},
		{"a step of version 1", func(m *other) {
			m.file("/proc/self/cgroup", "9:cpuset:/\n4:memory:/slurm/uid_1000/job_42/step_1/task_0")
		}, "Slurm", Note, "step 1 of job 42", "batch script", false},
		{"a step on many nodes", func(m *other) {
			m.group("/slurm/job_42/step_0", nil)
			m.env["SLURM_JOB_NUM_NODES"] = "4"
		}, "Slurm", Note, "step 0", "once on each of the 4 nodes", false},
		{"the batch script", func(m *other) { m.group("/slurmstepd.scope/job_42/step_batch/user/task_special", nil) }, "Slurm", OK, "until the job ends", "", false},
		{"the batch script of many nodes", func(m *other) {
			m.group("/slurmstepd.scope/job_42/step_batch/user", nil)
			m.env["SLURM_JOB_NUM_NODES"] = "2"
		}, "Slurm", Note, "the other nodes cannot", "2 nodes (srun", false},
		{"Slurm without cgroups", func(m *other) { m.env["SLURM_JOB_ID"] = "7" }, "Slurm", OK, "job 7", "", false},
		{"few files", func(m *other) { m.file("/proc/self/limits", "Max open files            1024      4096      files") }, "open files", Note, "may open 4096", "ulimit", false},
		{"any number of files", func(m *other) { m.file("/proc/self/limits", "Max open files  unlimited  unlimited  files") }, "open files", OK, "unlimited", "", false},

		{"a dataset that is missing", func(m *other) { m.Dataset = filepath.Join(m.Root, "none") }, "dataset", Problem, "does not exist", "name a directory", true},
		{"a dataset that is a file", func(m *other) { m.Dataset = filepath.Join(m.Root, "/etc/fuse.conf") }, "dataset", Problem, "is not a directory", "is a directory of images", true},
		{"a dataset that may not be read", func(m *other) {
			m.Dataset = m.Root
			m.FileSystem = func(string) (mounts.FileSystem, error) { return mounts.FileSystem{}, fs.ErrPermission }
		}, "dataset", Problem, "permission denied", "readable for user ann", true},
		{"a dataset on NFS", func(m *other) {
			m.Dataset = m.Root
			m.FileSystem = func(string) (mounts.FileSystem, error) { return mounts.FileSystem{Name: "NFS"}, nil }
		}, "dataset", Note, "not local (NFS)", "--immutable", false},
		{"no inotify instance left", func(m *other) { m.Inotify = func() error { return unix.EMFILE } }, "watching", Note, "no inotify instance left of 128", "max_user_instances=512", false},
		{"no inotify", func(m *other) {
			testenv.Must(m.t, os.Remove(filepath.Join(m.Root, "/proc/sys/fs/inotify/max_user_watches")))
		}, "watching", Note, "no inotify", "--immutable", false},
		{"too many directories", func(m *other) {
			m.Dataset = m.Root
			m.Watch = func(string) error { return errors.New("it has more than 32768 directories") }
		}, "watching", Note, "more than 32768", "max_user_watches=262144", false},

		{"a cache that cannot be made", func(m *other) { m.Cache = func() (string, int64, error) { return "", 0, fs.ErrPermission } }, "cache", Note, "keep nothing", "XDG_CACHE_HOME", false},
		{"a cache in /tmp", func(m *other) { m.Cache = func() (string, int64, error) { return "/tmp/pipefs-1000", 1e9, nil } }, "cache", Note, "home directory cannot be written", "XDG_CACHE_HOME", false},
		{"a cache on a network", func(m *other) {
			m.FileSystem = func(string) (mounts.FileSystem, error) { return mounts.FileSystem{Name: "Lustre"}, nil }
		}, "cache", Note, "on no local disk (Lustre)", "--create-store", false},
		{"a cache without room", func(m *other) { m.Free = func(string) (int64, error) { return 5e8, nil } }, "cache", Note, "500 MB free", "XDG_CACHE_HOME", false},
		{"a cache limit of nothing", func(m *other) { m.Cache = func() (string, int64, error) { return "/c", 0, nil } }, "cache", Note, "keep nothing", "pipefs cache limit default", false},
		{"no place for sockets", func(m *other) { m.Sockets = func() (string, error, error) { return "", nil, fs.ErrPermission } }, "sockets", Problem, "permission", "XDG_RUNTIME_DIR", true},
		{"somebody has the place for sockets", func(m *other) {
			m.Sockets = func() (string, error, error) {
				return "/tmp/pipefs-1000.1/x.sock", errors.New("/tmp/pipefs-1000 belongs to user 5; remove it"), nil
			}
		}, "sockets", Note, "belongs to user 5", "", false},
		{"a runtime directory that cannot be used", func(m *other) {
			m.Sockets = func() (string, error, error) { return "/tmp/pipefs-1000/x.sock", nil, nil }
		}, "sockets", Note, "XDG_RUNTIME_DIR=/run/user/1000 cannot be used", "unset", false},

		{"no AVX2", func(m *other) { m.Vectorised = false }, "JPEG", Note, "no assembly", "pipefs materialize", false},
		{"a GPU", func(m *other) { m.GPU = func() (string, error) { return "NVIDIA H200", nil } }, "GPU", OK, "NVIDIA H200", "", false},
		{"a driver without its library", func(m *other) { m.file("/proc/driver/nvidia/version", "NVRM") }, "GPU", Note, "library cannot be opened", "--gpus all", false},
		{"a GPU that fails", func(m *other) { m.GPU = func() (string, error) { return "", errors.New("cuInit: 999") } }, "GPU", Note, "999", "nvidia-smi", false},

		{"a dead mount", func(m *other) {
			m.mount(mounts.Type, "/mnt/a", 1000)
			m.Probe = func(string) error { return unix.ENOTCONN }
		}, "dead mounts", Note, "the daemon of /mnt/a is gone", "pipefs umount /mnt/a", false},
		{"a mount that hangs", func(m *other) {
			m.mount(mounts.Type, "/mnt/a", 1000)
			m.Probe = func(string) error { return mounts.ErrHung }
		}, "dead mounts", Note, "does not answer", "--lazy /mnt/a", false},
		{"a dead mount of somebody else", func(m *other) {
			m.mount(mounts.Type, "/mnt/a", 1001)
			m.Probe = func(string) error { return unix.ENOTCONN }
		}, "dead mounts", OK, "none", "", false},
		{"the trial fails", func(m *other) { m.Trial = func(context.Context) error { return errors.New("no answer") } }, "trial", Problem, "no answer", "", true},
	} {
		m := machine(t)
		c.change(m)
		found := m.Look(context.Background())
		var said []Finding
		for _, f := range found {
			if f.About == c.about {
				said = append(said, f)
			}
		}
		if len(said) != 1 || said[0].Mark != c.mark || !strings.Contains(said[0].Says, c.says) || !strings.Contains(said[0].Do, c.do) || (c.do == "") != (said[0].Do == "") {
			t.Errorf("%s: %+v", c.name, said)
		}
		if (Fatal(found) != nil) != c.prevent {
			t.Errorf("%s: prevents mounting: %v", c.name, Fatal(found))
		}
	}
}

// TestTrial: what the program says is told, and nothing is left.
func TestTrial(t *testing.T) {
	program, err := os.Executable()
	testenv.Must(t, err)
	err = trial(context.Background(), program)
	if err == nil || !strings.Contains(err.Error(), "no mount today") || !errors.As(err, new(*exec.ExitError)) {
		t.Error(err)
	}
}
