package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	pfs "github.com/pipefs/pipefs/fs"
	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/mixer"
)

// mountConfig is all that a mount can be told.
type mountConfig struct {
	// The supervisor and the daemon are handed what is exported, as JSON.
	mountd.Config
	LogFormat string
	LogLevel  string
	Patience  time.Duration // until the mount answers
	Supervise bool
	Deaths    int           // within a minute, that end a supervised mount
	Hung      time.Duration // of its daemon, before it is started again
	SetUID    string        // name or number of a user; or ownerUser

	given       string // the source as the user wrote it
	followGiven bool   // --no-follow
	seedGiven   bool   // --seed
	foreground  bool
	dryRun      bool
	createStore bool
	nonempty    bool
	shared      bool
	takeover    bool
	holder      int // descriptor over which a holder is given its connection; 0 for none
}

// mountOptions are the options of a mount; each has a twin in -o unless it says
// otherwise.
func mountOptions(c *mountConfig) []cli.Flag {
	*c = mountConfig{Config: mountd.Default("", ""), LogFormat: "text", LogLevel: "info", Patience: 2 * time.Minute}
	common := []cli.Flag{
		opt("cache", "page|daemon", "page", intoSwitch(func(daemon bool) {
			if c.Cache.Mode = pfs.PageCache; daemon {
				c.Cache.Mode = pfs.DaemonCache
			}
		}, "page", "daemon"), "where samples are cached: in the kernel's page cache, which is quickest for data that fits memory, or in the daemon, within --cache-bytes"),
		opt("cache-bytes", "SIZE", "256M", intoSize(&c.Cache.Bytes, 0), "memory that the daemon may use for samples; 0 keeps none. Where a cgroup limits memory, an eighth of that if it is less"),
		opt("store", "DIR", "", placeOrURL(intoString(&c.Read.Store)), "a store that pipefs pack made of DATASET, to read from, which may be a URL; or a directory in which earlier mounts kept what they prepared (see --create-store)"),
		opt("list-view", "VIEW", "", intoList(&c.Views.List), "list this view in MNT beside the usual ones; others can be entered all the same. May be repeated"),
		&cli.BoolFlag{Name: "immutable", Destination: &c.Read.Immutable, Usage: "the dataset does not change while it is mounted: nothing is watched, and no open is checked. For training from network file systems"},
		opt("manifest", "DIR", "", place(intoString(&c.Read.Manifest)), "the list of the dataset's files that pipefs list wrote: nothing is listed. For datasets in buckets and on slow file servers; what is not in the list is not in the mount"),
		opt("refresh", "DURATION", "never", intoAge(&c.Read.Refresh), "of a store: look that often, such as 5m, whether there is a newer generation, and take it up while it is mounted. Of a dataset in a bucket: list it again when the list that was kept is older, now and while it is mounted; 0 lists it now. pipefs refresh MNT does both at any time"),
		&cli.BoolFlag{Name: "allow-other", Destination: &c.Kernel.AllowOther, Usage: "let other users in, as far as the permissions of the dataset's files let them (-o allow_other)"},
	}
	rare := []cli.Flag{
		&cli.BoolFlag{Name: "foreground", Aliases: []string{"f"}, Destination: &c.foreground, Usage: "stay in the foreground, log to the terminal, and tell systemd (Type=notify) when the mount answers"},
		opt("o", "OPTION,…", "", func(string) error { return nil }, "options as fstab has them: those below without their hyphens, KEY or KEY=VALUE (a comma in a value is written \\,), and the usual ones of mount(8), such as ro, nodev, _netdev, x-…, which are accepted"),
		&cli.BoolFlag{Name: "create-store", Destination: &c.createStore, Usage: "with --store: DIR is no store; keep there, instead of in ~/.cache/pipefs, what this mount prepares. It is made if need be"},
		opt("store-max", "SIZE", "what pipefs cache limit says, or with --create-store a tenth of the free space, at most 50GB", intoSize(&c.Keep.MaxBytes, 0), "how much this mount may keep on disk of what it prepares; when that is used up it serves without keeping; 0 keeps nothing"),
		opt("dataset", "DIR", "", place(intoString(&c.Read.Dataset)), "where a STORE is mounted: its dataset, for originals that the store cannot give back"),
		opt("fidelity", "K", "10, all scans", intoInt(&c.Views.Scans, 1, mountd.MaxFidelity), "where MNT/current points at first: scanK; pipefs fidelity moves it later"),
		opt("seed", "N", "another one at each mount, which the log tells", noted(&c.seedGiven, intoInt(&c.Views.Seed, 0, 1<<62)), "of what MNT/VIEW draws where VIEW is random, such as rrc224-hflip-npy; paths below MNT/.draw name their seed"),
		&cli.BoolFlag{Name: "force-random", Destination: &c.Views.ForceRandom, Usage: "let random views show samples that have boxes or masks beside them too, which do not fit what is drawn"},
		opt("on-error", "fail|black", "fail", intoSwitch(func(black bool) { c.Views.OnError = mountd.OnError(black) }, "fail", "black"), "what a sample that cannot be made does to its batch below MNT/.epoch: the batch cannot be read, or the sample is black; the log names it, and pipefs stats counts it"),
		opt("list", "FILE", "", place(intoList(&c.Views.Lists)), "a CSV file with a column path: the samples of an epoch, a line each, and their labels if it has a column label. Batches of them are below MNT/.epoch/…/VIEW/NAME, where NAME is that of FILE without its directory. May be repeated"),
		opt("verify", "always|once", "always", intoSwitch(func(once bool) { c.Read.VerifyOnce = once }, "always", "once"), "check the checksums of stored data at every read, or at the first"),
		&cli.BoolFlag{Name: "no-background", Destination: &c.Keep.NoBackground, Usage: "prepare nothing ahead of time"},
		&cli.BoolFlag{Name: "no-follow", Destination: &c.Read.NoFollow, Action: func(*cli.Context, bool) error { c.followGiven = true; return nil }, DefaultText: "for root with allow_other; --no-follow=false undoes it", Usage: "refuse symbolic links that lead out of the dataset"},
		&cli.BoolFlag{Name: "nonempty", Destination: &c.nonempty, Usage: "mount over a directory that holds something"},
		&cli.BoolFlag{Name: "noexec", Destination: &c.Kernel.NoExec, Usage: "let no program be run from the mount; ro, nodev and nosuid go without saying"},
		opt("workers", "N", "one a core", intoInt(&c.Workers, 1, 4096), "samples that are computed at once"),
		opt("gpu", "auto|off|N", "auto", intoGPU(&c.GPU), "decode L3 on an NVIDIA GPU: auto looks for one when enough was decoded and uses it if that is faster; N is its number, and then it has to be there"),
		opt("gpu-memory", "SIZE", "256M", intoSize(&c.GPU.Memory, 1), "memory for --gpu, half of it on the GPU and half of it here; what the driver takes comes on top"),
		opt("setuid", "USER|owner", "who starts it; owner for root in fstab and mount(8)", intoString(&c.SetUID), "mount as root, and run the daemon as USER, or as the owner of what is mounted, so that pictures are not decoded as root"),
		opt("limit-read", "RATE", "none", intoRate(&c.Read.BytesPerSecond), "for measurements: read files of the dataset and of stores at no more than RATE, such as 50MB/s, as a slow disk would; what the page cache holds of them is slowed down as well"),
		opt("limit-reads", "N", "none", intoInt(&c.Read.ReadsPerSecond, 1, 1e9), "for measurements: at no more than N reads a second"),
		opt("disk-cache", "DIR", "~/.cache/pipefs", place(intoString(&c.Remote.Dir)), "of a URL: the directory in which what was read is kept for later epochs and mounts; pipefs cache limit bounds it together with what is prepared there"),
		opt("disk-cache-size", "SIZE", "what the limit of DIR has room for", intoSize(&c.Remote.Bytes, 0), "how much of packs and files may be kept there; 0 keeps none, and what is read again is fetched again"),
		opt("log-file", "FILE", "~/.local/state/pipefs/…, told when mounting", place(intoString(&c.LogFile)), "where to log"),
		opt("log-format", "text|json", "text", intoChoice(&c.LogFormat, "text", "json"), "how to log"),
		opt("log-level", "debug|info|warn|error", "info", intoChoice(&c.LogLevel, "debug", "info", "warn", "error"), "how much to log"),
		opt("ready-timeout", "DURATION", "2m", intoDuration(&c.Patience), "how long to wait for the mount to answer before giving up"),
		&cli.BoolFlag{Name: "dry-run", Destination: &c.dryRun, Usage: "check everything that can be checked, and mount nothing"},
	}
	flags := slices.Concat(common, roleOptions(&c.Roles), remoteOptions(&c.Remote), rarely(rare...), rarely(mixOptions(c)...), superviseOptions(c), rarely(sharedOptions(c)...), limitOptions(&c.Limits))
	return fromEnv(flags, "allow-other", "cache", "cache-bytes", "disk-cache", "disk-cache-size", "endpoint", "gpu", "log-format", "log-level", "region", "store-max", "workers")
}

func mountCommand(env *environ) *cli.Command {
	c := &mountConfig{}
	return &cli.Command{
		Name: "mount", ArgsUsage: "DATASET|STORE MNT", Category: everyday, Usage: "mount a dataset or a store as a directory of views",
		Description: "DATASET is mounted as it is: nothing has to be prepared, and nothing in it is touched. What its views need is made when it is first read, and kept in the background in ~/.cache/pipefs.\n" +
			"The command returns when the mount answers; the daemon goes on in the background until the mount is unmounted (pipefs umount, umount, fusermount3 -u) or it gets SIGTERM. It logs to a file whose name is told.",
		UsageText: `# then train from ~/m/scan5/train instead of ~/imagenet/train; ls ~/m lists the usual views
pipefs mount ~/imagenet ~/m
# say what the PNG files of a dataset are
pipefs mount -o images='**/depth/*.png',masks='**/labels/*.png' ~/scenes ~/m
# a store that was packed ahead of time, in a bucket; credentials are found as the AWS tools find them, never given here. Beside its dataset: pipefs mount --store STORE DATASET MNT
pipefs mount s3://bucket/in.store ~/m
# the same as a line of /etc/fstab
/data/imagenet /mnt/imagenet fuse.pipefs ro,allow_other,_netdev 0 0`,
		Flags: mountOptions(c),
		Action: takes(0, 2, func(ctx context.Context, args []string) error {
			switch n := len(args); {
			case c.takeover && n == 1:
				return takeOver(ctx, env, args[0])
			case c.takeover:
				return exit.Errorf(exit.Usage, "mount --takeover takes the directory of a mount and nothing else: pipefs mount --takeover MNT")
			case n == 2:
				c.Dir = args[1]
			case n == 1 && !c.shared:
				return exit.Errorf(exit.Usage, "mount takes 2 arguments, not 1: name an empty directory to mount on as well, as in: mkdir -p ~/m && pipefs mount %s ~/m", shellWord(args[0]))
			case n == 0:
				return exit.Errorf(exit.Usage, "mount takes 2 arguments, not 0: pipefs mount DATASET|STORE MNT\n(pipefs mount --help shows examples)")
			}
			c.Source, c.given = args[0], args[0]
			return runMount(ctx, env, c)
		}),
	}
}

// mixOptions are those of representations and of the cache that keeps them.
func mixOptions(c *mountConfig) []cli.Flag {
	formats := mountd.MixFormats
	return []cli.Flag{
		opt("mix", "all|SHARE|adaptive", "all", intoMix(&c.Views.Mix), "how much to read of what pipefs materialize stored: all; a share such as 0.3 or 30%, with --cache page of the samples that are stored both ways and always the same ones, with --cache daemon of all reads; or adaptive, with --cache daemon, as much as keeps disk and decoder equally busy while training runs"),
		opt("mix-format", strings.Join(formats, "|"), "what pipefs tune found, or what is stored, or "+formats[0], intoChoice(&c.Views.Mix.Format, formats...), "what MNT/mix shows, under the files' own names: bmp or ppm, pixels of every sample, decoded by the mount where they are not materialized; or stored-bmp or stored-ppm, pixels where they are materialized, and the other files as they are for the loader to decode"),
		opt("cache-policy", strings.Join(mixer.CachePolicies, "|"), mixer.LRUCache, intoChoice(&c.Cache.Policy, mixer.CachePolicies...), "with --cache daemon, what stays within --cache-bytes: liquid keeps the hit ratio of shuffled epochs constant, at the share of the dataset that fits; minio keeps what was read first; lru what was read last"),
		&cli.BoolFlag{Name: "direct", Destination: &c.Cache.Direct, Usage: "with --cache daemon, read the packs of a store past the page cache (O_DIRECT): memory holds what --cache-bytes holds, and no second copy"},
	}
}

// noted remembers that a value was given.
func noted(given *bool, set func(string) error) func(string) error {
	return func(s string) error {
		*given = true
		return set(s)
	}
}

// intoSwitch takes one of two words, of which the second one sets the switch.
func intoSwitch(set func(bool), off, on string) func(string) error {
	return func(s string) error {
		err := intoChoice(new(string), off, on)(s)
		if err == nil {
			set(s == on)
		}
		return err
	}
}

func intoMix(p *mountd.Mix) func(string) error {
	return func(s string) (err error) {
		p.Adaptive, p.Share = s == "adaptive", 1
		if s == "adaptive" || s == "all" {
			return nil
		}
		if p.Share, err = parseShare(s); err != nil {
			return fmt.Errorf("%q: want all, adaptive, or a share such as 0.3 or 30%%", s)
		}
		return nil
	}
}

// intoGPU sets which GPU is used: auto, off or a number.
func intoGPU(p *mountd.GPU) func(string) error {
	return func(s string) error {
		n, err := strconv.Atoi(s)
		p.Off, p.Force, p.Device = s == "off", err == nil, n
		if s != "auto" && s != "off" && (err != nil || n < 0) {
			return fmt.Errorf("%q is not auto, off or the number of a GPU, from 0", s)
		}
		return nil
	}
}
