package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	pfs "github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/cachedir"
	"github.com/pipefs/pipefs/internal/daemon"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
)

// mountConfig is all that a mount can be told. Paths are absolute.
type mountConfig struct {
	source, dir string // what is mounted, and where
	given       string // source as the user wrote it
	twins       []string
	foreground  bool
	dryRun      bool
	cache       string
	cacheBytes  int64
	mix         mixConfig
	caching     cacheConfig
	store       string
	createStore bool
	storeMax    int64 // bytes; -1: a default by free space
	dataset     string
	listViews   []string
	roles       transcode.Roles
	fidelity    int
	verify      string
	noBack      bool
	noFollow    bool
	immutable   bool
	allowOther  bool
	nonempty    bool
	noexec      bool
	logFile     string
	logFormat   string
	logLevel    string
	workers     int
	gpu         string
	gpuMemory   int64
	gpuShare    int // processes
	limits      transcode.Limits
	limitRead   int64 // bytes a second; 0: none
	limitReads  int64 // reads a second; 0: none
	patience    time.Duration
	setuid      string        // name or number of a user; or ownerUser
	premount    *pfs.Premount // what is mounted already
}

const (
	maxFidelity = 10
	notice      = 5 * time.Second // until the user is told what takes so long
)

// mountOptions are the options of a mount; each has a twin in -o unless it says
// otherwise.
func mountOptions(c *mountConfig) []*option {
	*c = mountConfig{cache: "page", fidelity: maxFidelity, verify: "always", logFormat: "text", logLevel: "info",
		cacheBytes: serve.DefaultCacheBytes, storeMax: -1, patience: 2 * time.Minute}
	options := []*option{
		{name: "foreground", short: "f", set: intoBool(&c.foreground), flagOnly: true,
			help: "stay in the foreground, log to the terminal, and tell systemd (Type=notify) when the mount answers"},
		{name: "o", short: "o", arg: "OPTION,…", set: intoList(&c.twins), flagOnly: true,
			help: "options as fstab has them: those below without their hyphens, KEY or KEY=VALUE (a comma in a value is written \\,), and the usual ones of mount(8), such as ro, nodev, _netdev, x-…, which are accepted"},
		{name: "cache", arg: "page|daemon", def: "page", set: intoChoice(&c.cache, "page", "daemon"),
			help: "where samples are cached: in the kernel's page cache, which is quickest for data that fits memory, or in the daemon, within --cache-bytes"},
		{name: "cache-bytes", arg: "SIZE", def: "256M", set: intoSize(&c.cacheBytes, 0),
			help: "memory that the daemon may use for samples; 0 keeps none"},
		{name: "store", arg: "DIR", path: true, set: intoString(&c.store),
			help: "a store that pipefs pack made of DATASET, to read from; or a directory in which earlier mounts kept what they prepared (see --create-store)"},
		{name: "create-store", set: intoBool(&c.createStore),
			help: "with --store: DIR is no store; keep there, instead of in ~/.cache/pipefs, what this mount prepares. It is made if need be"},
		{name: "store-max", arg: "SIZE", def: "what pipefs cache limit says, or with --create-store a tenth of the free space, at most 50GB", set: intoSize(&c.storeMax, 0),
			help: "how much this mount may keep on disk of what it prepares; when that is used up it serves without keeping; 0 keeps nothing"},
		{name: "dataset", arg: "DIR", path: true, set: intoString(&c.dataset),
			help: "where a STORE is mounted: its dataset, for originals that the store cannot give back"},
		{name: "list-view", arg: "VIEW", set: intoList(&c.listViews),
			help: "list this view in MNT beside the usual ones; others can be entered all the same. May be repeated"},
		{name: "fidelity", arg: "K", def: "10, all scans", set: intoInt(&c.fidelity, 1, maxFidelity),
			help: "where MNT/current points at first: scanK; pipefs fidelity moves it later"},
		{name: "verify", arg: "always|once", def: "always", set: intoChoice(&c.verify, "always", "once"),
			help: "check the checksums of stored data at every read, or at the first"},
		{name: "no-background", set: intoBool(&c.noBack),
			help: "prepare nothing ahead of time"},
		{name: "immutable", set: intoBool(&c.immutable),
			help: "the dataset does not change while it is mounted: nothing is watched, and no open is checked. For training from network file systems"},
		{name: "no-follow", def: "for root with allow_other; --no-follow=false undoes it", set: intoBool(&c.noFollow),
			help: "refuse symbolic links that lead out of the dataset"},
		{name: "allow-other", set: intoBool(&c.allowOther),
			help: "let other users in, as far as the permissions of the dataset's files let them (-o allow_other)"},
		{name: "nonempty", set: intoBool(&c.nonempty),
			help: "mount over a directory that holds something"},
		{name: "noexec", set: intoBool(&c.noexec),
			help: "let no program be run from the mount; ro, nodev and nosuid go without saying"},
		{name: "workers", arg: "N", def: "one a core", set: intoInt(&c.workers, 1, 4096),
			help: "samples that are computed at once"},
		{name: "gpu", arg: "auto|off|N", def: "auto", set: intoGPU(&c.gpu),
			help: "decode L3 on an NVIDIA GPU: auto looks for one when enough was decoded and uses it if that is faster; N is its number, and then it has to be there"},
		{name: "gpu-memory", arg: "SIZE", def: "256M", set: intoSize(&c.gpuMemory, 1),
			help: "memory for --gpu, half of it on the GPU and half of it here; what the driver takes comes on top"},
		{name: "gpu-share", arg: "N", def: "0", set: intoInt(&c.gpuShare, 0, maxShare),
			help: "decode L3 for up to N other processes into memory of the GPU that they open, for which half of --gpu-memory is set aside; MNT/.pipefs/gpu/pipefs_gpu_shared.py is how they ask"},
		{name: "setuid", arg: "USER|owner", def: "who starts it; owner for root in fstab and mount(8)", set: intoString(&c.setuid),
			help: "mount as root, and run the daemon as USER, or as the owner of what is mounted, so that pictures are not decoded as root"},
		{name: "limit-read", arg: "RATE", def: "none", set: intoRate(&c.limitRead),
			help: "for measurements: read files of the dataset and of stores at no more than RATE, such as 50MB/s, as a slow disk would; what the page cache holds of them is slowed down as well"},
		{name: "limit-reads", arg: "N", def: "none", set: intoInt(&c.limitReads, 1, 1e9),
			help: "for measurements: at no more than N reads a second"},
		{name: "log-file", arg: "FILE", path: true, def: "~/.local/state/pipefs/…, told when mounting", set: intoString(&c.logFile),
			help: "where to log"},
		{name: "log-format", arg: "text|json", def: "text", set: intoChoice(&c.logFormat, "text", "json"),
			help: "how to log"},
		{name: "log-level", arg: "debug|info|warn|error", def: "info", set: intoChoice(&c.logLevel, "debug", "info", "warn", "error"),
			help: "how much to log"},
		{name: "ready-timeout", arg: "DURATION", def: "2m", set: intoDuration(&c.patience),
			help: "how long to wait for the mount to answer before giving up"},
		{name: "dry-run", set: intoBool(&c.dryRun), flagOnly: true,
			help: "check everything that can be checked, and mount nothing"},
	}
	options = append(options, roleOptions(&c.roles)...)
	options = append(options, mixOptions(&c.mix)...)
	options = append(options, cacheOptions(&c.caching)...)
	return append(options, limitOptions(&c.limits)...)
}

func mountCommand(env *environ) *command {
	c := &mountConfig{}
	options := mountOptions(c)
	return &command{
		name: "mount", args: "DATASET|STORE MNT", min: 2, max: 2,
		brief: "mount a dataset or a store as a directory of views",
		about: "DATASET is mounted as it is: nothing has to be prepared, and nothing in it is touched. What its views need is made when it is first read, and kept in the background in ~/.cache/pipefs.\n" +
			"The command returns when the mount answers; the daemon goes on in the background until the mount is unmounted (pipefs umount, umount, fusermount3 -u) or it gets SIGTERM. It logs to a file whose name is told.",
		examples: []example{
			{"pipefs mount ~/imagenet ~/m", "then train from ~/m/scan5/train instead of ~/imagenet/train; ls ~/m lists the usual views"},
			{"pipefs mount -o images='**/depth/*.png',masks='**/labels/*.png' ~/scenes ~/m", "say what the PNG files of a dataset are"},
			{"pipefs mount --store /data/in.store ~/imagenet ~/m", "read from a store that was packed ahead of time, shared with other mounts"},
			{"/data/imagenet /mnt/imagenet fuse.pipefs ro,allow_other,_netdev 0 0", "the same as a line of /etc/fstab"},
		},
		words:   []string{"dataset", "store", "view", "fidelity", "mask"},
		options: options,
		run: func(ctx context.Context, args []string) error {
			c.source, c.given, c.dir = args[0], args[0], args[1]
			for _, list := range c.twins {
				if err := setTwins(options, list); err != nil {
					return err
				}
			}
			return runMount(ctx, env, c, options)
		},
	}
}

func runMount(ctx context.Context, env *environ, c *mountConfig, options []*option) error {
	if err := c.takePremount(); err != nil {
		return err
	}
	// Where another process waits for this one, or was this one, it has checked everything.
	if parent := daemon.Waiting(); parent != nil || c.premount != nil {
		err := serveAsUser(ctx, env, c, options, parent)
		if err != nil {
			parent.Fail(classify(err))
		}
		return err
	}
	if os.Geteuid() == 0 && c.allowOther && !lookup(options, "no-follow").IsSet() {
		if err := lookup(options, "no-follow").give("true"); err != nil {
			return err
		}
	}
	if err := c.resolve(); err != nil {
		return err
	}
	dead, err := c.check(env)
	if err != nil {
		return err
	}
	user, err := c.user()
	if err != nil {
		return err
	}
	c.notes(env.stderr, user)
	if user != nil {
		c.tellUser(env.stderr, user)
	}
	if c.dryRun {
		return nil
	}
	if dead {
		if err := clearDead(env, c); err != nil {
			return err
		}
	}
	if c.foreground {
		return serveAsUser(ctx, env, c, options, nil)
	}
	return background(ctx, env, c, options)
}

// serveAsUser is the daemon, which gives up root first if it is told to.
func serveAsUser(ctx context.Context, env *environ, c *mountConfig, options []*option, parent *daemon.Parent) error {
	user, err := c.user()
	switch {
	case err != nil:
		return err
	case user != nil:
		return c.become(user, options, parent)
	}
	err = runDaemon(ctx, env, c, parent)
	if err != nil && c.premount != nil {
		err = errors.Join(err, mounts.Unmount(c.dir, true))
	}
	return err
}

// resolve makes the two paths what the kernel will call them.
func (c *mountConfig) resolve() error {
	err := statSource(c.source)
	if err == nil {
		c.source, err = mounts.Resolve(c.source)
	}
	if err != nil {
		return exit.With(exit.Mount, err)
	}
	dir, err := mounts.Resolve(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return exit.Errorf(exit.Mount, "the mount directory %s does not exist; make it first: mkdir -p %s", c.dir, c.dir)
	}
	c.dir = dir
	return exit.With(exit.Mount, err)
}

// check refuses what cannot work, before anything is started. It reports whether
// a dead mount is in the way.
func (c *mountConfig) check(env *environ) (dead bool, err error) {
	r := registry(transcode.Limits{})
	for _, spec := range c.listViews {
		if _, err := r.Parse(spec); err != nil {
			return false, err
		}
	}
	if err := c.caching.check(c.cache); err != nil {
		return false, err
	}
	if err := c.mix.check(c.cache); err != nil {
		return false, err
	}
	if err := c.checkShare(); err != nil {
		return false, err
	}
	if err := c.checkStore(); err != nil {
		return false, err
	}
	if err := mounts.Apart(c.dir, c.source); err != nil {
		return false, err
	}
	if c.allowOther {
		if err := mounts.CheckAllowOther(); err != nil {
			return false, err
		}
	}
	dead, err = mounts.Check(c.dir, c.nonempty)
	if err != nil {
		return false, err
	}
	at := c.dir
	if dead {
		at = "" // clearDead looks at the directory: until then the dead mount hides it
	}
	if err := mounts.CheckFUSE(at); err != nil {
		return dead, err
	}
	return dead, c.checkRoles(env)
}

// checkStore refuses a --store that is not what its name says: a mistyped path would
// be made, and read from as if it were prepared.
func (c *mountConfig) checkStore() error {
	if c.store == "" {
		if c.createStore {
			return exit.Errorf(exit.Usage, "--create-store goes with --store DIR, the directory in which to keep what the mount prepares")
		}
		return nil
	}
	is, err := store.Is(c.store)
	if err != nil {
		return exit.With(exit.Mount, fmt.Errorf("--store: %w", err))
	}
	mounted, err := store.Is(c.source)
	switch {
	case err != nil:
		return exit.With(exit.Mount, err)
	case is && mounted:
		return exit.Errorf(exit.Usage, "--store %s: %s is a store itself, and a mount reads from one; leave --store out, or mount the dataset", c.store, c.source)
	case is && c.createStore:
		return exit.Errorf(exit.Usage, "--create-store: %s is a store already; leave --create-store out to read from it", c.store)
	case is, c.createStore, cachedir.Kept(c.store):
		return nil
	}
	what := "is no store"
	if _, err := os.Lstat(c.store); errors.Is(err, fs.ErrNotExist) {
		what = "does not exist"
	}
	return exit.Errorf(exit.Mount, "--store %s %s; pipefs pack makes one (a directory in which to keep what this mount prepares is made by --create-store)", c.store, what)
}

// checkRoles looks through the dataset only if there is something to look for.
func (c *mountConfig) checkRoles(env *environ) error {
	if !c.roles.Given() {
		return nil
	}
	s, err := openSource(env, c.source)
	if err != nil {
		return exit.With(exit.Mount, err)
	}
	defer s.close()
	return s.checkRoles(registry(c.limits), c.roles)
}

// clearDead takes away what a crashed daemon left behind.
func clearDead(env *environ, c *mountConfig) error {
	// more than one, if earlier ones were mounted over each other
	for range 16 {
		if err := mounts.Unmount(c.dir, true); err != nil {
			return exit.With(exit.Mount, fmt.Errorf("a dead mount is in the way: %w", err))
		}
		fmt.Fprintf(env.stderr, "pipefs: %s held a dead mount, whose daemon was gone; unmounted it\n", c.dir)
		dead, err := mounts.Check(c.dir, c.nonempty)
		if err != nil {
			return err
		}
		if !dead {
			return mounts.CheckFUSE(c.dir)
		}
	}
	return exit.Errorf(exit.Mount, "%s holds more than 16 dead mounts; unmount them first: umount -l %s", c.dir, c.dir)
}
