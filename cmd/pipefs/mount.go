package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	pfs "github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/mixer"
)

// mountConfig is all that a mount can be told.
type mountConfig struct {
	mountd.Config
	given       string   // the source as the user wrote it
	lists       []string // values of -o
	foreground  bool
	dryRun      bool
	createStore bool
	nonempty    bool
	logFormat   string
	logLevel    string
	patience    time.Duration // until the mount answers
	shared      bool
	supervise   bool
	takeover    bool
	deaths      int           // within a minute, that end a supervised mount
	hung        time.Duration // of its daemon, before it is started again
	holder      int           // descriptor over which a holder is given its connection; 0 for none
	setuid      string        // name or number of a user; or ownerUser
}

const maxFidelity = mountd.MaxFidelity

// mountOptions are the options of a mount; each has a twin in -o unless it says
// otherwise.
func mountOptions(c *mountConfig) []*option {
	*c = mountConfig{Config: mountd.Default("", ""), logFormat: "text", logLevel: "info", patience: 2 * time.Minute}
	common := []*option{
		{name: "cache", arg: "page|daemon", def: "page", set: intoSwitch(func(daemon bool) {
			if c.Cache.Mode = pfs.PageCache; daemon {
				c.Cache.Mode = pfs.DaemonCache
			}
		}, "page", "daemon"),
			help: "where samples are cached: in the kernel's page cache, which is quickest for data that fits memory, or in the daemon, within --cache-bytes"},
		{name: "cache-bytes", arg: "SIZE", def: "256M", set: intoSize(&c.Cache.Bytes, 0),
			help: "memory that the daemon may use for samples; 0 keeps none. Where a cgroup limits memory, an eighth of that if it is less"},
		{name: "store", arg: "DIR", path: true, url: true, set: intoString(&c.Read.Store),
			help: "a store that pipefs pack made of DATASET, to read from, which may be a URL; or a directory in which earlier mounts kept what they prepared (see --create-store)"},
		{name: "list-view", arg: "VIEW", set: intoList(&c.Views.List),
			help: "list this view in MNT beside the usual ones; others can be entered all the same. May be repeated"},
		{name: "immutable", set: intoBool(&c.Read.Immutable),
			help: "the dataset does not change while it is mounted: nothing is watched, and no open is checked. For training from network file systems"},
		{name: "manifest", arg: "DIR", path: true, set: intoString(&c.Read.Manifest),
			help: "the list of the dataset's files that pipefs list wrote: nothing is listed. For datasets in buckets and on slow file servers; what is not in the list is not in the mount"},
		{name: "refresh", arg: "DURATION", def: "never", set: intoAge(&c.Read.Refresh),
			help: "of a store: look that often, such as 5m, whether there is a newer generation, and take it up while it is mounted. Of a dataset in a bucket: list it again when the list that was kept is older, now and while it is mounted; 0 lists it now. pipefs refresh MNT does both at any time"},
		{name: "allow-other", set: intoBool(&c.Kernel.AllowOther),
			help: "let other users in, as far as the permissions of the dataset's files let them (-o allow_other)"},
	}
	rare := []*option{
		{name: "foreground", short: "f", set: intoBool(&c.foreground), flagOnly: true,
			help: "stay in the foreground, log to the terminal, and tell systemd (Type=notify) when the mount answers"},
		{name: "o", short: "o", arg: "OPTION,…", set: intoList(&c.lists), flagOnly: true,
			help: "options as fstab has them: those below without their hyphens, KEY or KEY=VALUE (a comma in a value is written \\,), and the usual ones of mount(8), such as ro, nodev, _netdev, x-…, which are accepted"},
		{name: "create-store", set: intoBool(&c.createStore),
			help: "with --store: DIR is no store; keep there, instead of in ~/.cache/pipefs, what this mount prepares. It is made if need be"},
		{name: "store-max", arg: "SIZE", def: "what pipefs cache limit says, or with --create-store a tenth of the free space, at most 50GB", set: intoSize(&c.Keep.MaxBytes, 0),
			help: "how much this mount may keep on disk of what it prepares; when that is used up it serves without keeping; 0 keeps nothing"},
		{name: "dataset", arg: "DIR", path: true, set: intoString(&c.Read.Dataset),
			help: "where a STORE is mounted: its dataset, for originals that the store cannot give back"},
		{name: "fidelity", arg: "K", def: "10, all scans", set: intoInt(&c.Views.Scans, 1, maxFidelity),
			help: "where MNT/current points at first: scanK; pipefs fidelity moves it later"},
		{name: "seed", arg: "N", def: "another one at each mount, which the log tells", set: intoInt(&c.Views.Seed, 0, 1<<62),
			help: "of what MNT/VIEW draws where VIEW is random, such as rrc224-hflip-npy; paths below MNT/.draw name their seed"},
		{name: "force-random", set: intoBool(&c.Views.ForceRandom),
			help: "let random views show samples that have boxes or masks beside them too, which do not fit what is drawn"},
		{name: "on-error", arg: "fail|black", def: "fail", set: intoSwitch(func(black bool) { c.Views.OnError = mountd.OnError(black) }, "fail", "black"),
			help: "what a sample that cannot be made does to its batch below MNT/.epoch: the batch cannot be read, or the sample is black; the log names it, and pipefs stats counts it"},
		{name: "list", arg: "FILE", path: true, set: intoList(&c.Views.Lists),
			help: "a CSV file with a column path: the samples of an epoch, a line each, and their labels if it has a column label. Batches of them are below MNT/.epoch/…/VIEW/NAME, where NAME is that of FILE without its directory. May be repeated"},
		{name: "verify", arg: "always|once", def: "always", set: intoSwitch(func(once bool) { c.Read.VerifyOnce = once }, "always", "once"),
			help: "check the checksums of stored data at every read, or at the first"},
		{name: "no-background", set: intoBool(&c.Keep.NoBackground),
			help: "prepare nothing ahead of time"},
		{name: "no-follow", def: "for root with allow_other; --no-follow=false undoes it", set: intoBool(&c.Read.NoFollow),
			help: "refuse symbolic links that lead out of the dataset"},
		{name: "nonempty", set: intoBool(&c.nonempty),
			help: "mount over a directory that holds something"},
		{name: "noexec", set: intoBool(&c.Kernel.NoExec),
			help: "let no program be run from the mount; ro, nodev and nosuid go without saying"},
		{name: "workers", arg: "N", def: "one a core", set: intoInt(&c.Workers, 1, 4096),
			help: "samples that are computed at once"},
		{name: "gpu", arg: "auto|off|N", def: "auto", set: intoGPU(&c.GPU),
			help: "decode L3 on an NVIDIA GPU: auto looks for one when enough was decoded and uses it if that is faster; N is its number, and then it has to be there"},
		{name: "gpu-memory", arg: "SIZE", def: "256M", set: intoSize(&c.GPU.Memory, 1),
			help: "memory for --gpu, half of it on the GPU and half of it here; what the driver takes comes on top"},
		{name: "setuid", arg: "USER|owner", def: "who starts it; owner for root in fstab and mount(8)", set: intoString(&c.setuid),
			help: "mount as root, and run the daemon as USER, or as the owner of what is mounted, so that pictures are not decoded as root"},
		{name: "limit-read", arg: "RATE", def: "none", set: intoRate(&c.Read.BytesPerSecond),
			help: "for measurements: read files of the dataset and of stores at no more than RATE, such as 50MB/s, as a slow disk would; what the page cache holds of them is slowed down as well"},
		{name: "limit-reads", arg: "N", def: "none", set: intoInt(&c.Read.ReadsPerSecond, 1, 1e9),
			help: "for measurements: at no more than N reads a second"},
		{name: "disk-cache", arg: "DIR", path: true, def: "~/.cache/pipefs", set: intoString(&c.Remote.Dir),
			help: "of a URL: the directory in which what was read is kept for later epochs and mounts; pipefs cache limit bounds it together with what is prepared there"},
		{name: "disk-cache-size", arg: "SIZE", def: "what the limit of DIR has room for", set: intoSize(&c.Remote.Bytes, 0),
			help: "how much of packs and files may be kept there; 0 keeps none, and what is read again is fetched again"},
		{name: "log-file", arg: "FILE", path: true, def: "~/.local/state/pipefs/…, told when mounting", set: intoString(&c.LogFile),
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
	return slices.Concat(common, roleOptions(&c.Roles), remoteOptions(&c.Remote), rarely(rare...), rarely(mixOptions(c)...), superviseOptions(c), rarely(sharedOptions(c)...), limitOptions(&c.Limits))
}

func mountCommand(env *environ) *command {
	c := &mountConfig{}
	options := mountOptions(c)
	return &command{
		name: "mount", args: "DATASET|STORE MNT", min: 0, max: 2,
		brief: "mount a dataset or a store as a directory of views",
		about: "DATASET is mounted as it is: nothing has to be prepared, and nothing in it is touched. What its views need is made when it is first read, and kept in the background in ~/.cache/pipefs.\n" +
			"The command returns when the mount answers; the daemon goes on in the background until the mount is unmounted (pipefs umount, umount, fusermount3 -u) or it gets SIGTERM. It logs to a file whose name is told.",
		examples: []example{
			{"pipefs mount ~/imagenet ~/m", "then train from ~/m/scan5/train instead of ~/imagenet/train; ls ~/m lists the usual views"},
			{"pipefs mount -o images='**/depth/*.png',masks='**/labels/*.png' ~/scenes ~/m", "say what the PNG files of a dataset are"},
			{"pipefs mount s3://bucket/in.store ~/m", "a store that was packed ahead of time, in a bucket; credentials are found as the AWS tools find them, never given here. Beside its dataset: pipefs mount --store STORE DATASET MNT"},
			{"/data/imagenet /mnt/imagenet fuse.pipefs ro,allow_other,_netdev 0 0", "the same as a line of /etc/fstab"},
		},
		words:   []string{"dataset", "store", "view", "fidelity", "mask"},
		options: options,
		run: func(ctx context.Context, args []string) error {
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
			for _, list := range c.lists {
				if err := setTwins(options, list); err != nil {
					return err
				}
			}
			return runMount(ctx, env, c, options)
		},
	}
}

// mixOptions are those of representations and of the cache that keeps them.
func mixOptions(c *mountConfig) []*option {
	formats := mountd.MixFormats
	return []*option{
		{name: "mix", arg: "all|SHARE|adaptive", def: "all", set: intoMix(&c.Views.Mix),
			help: "how much to read of what pipefs materialize stored: all; a share such as 0.3 or 30%, with --cache page of the samples that are stored both ways and always the same ones, with --cache daemon of all reads; or adaptive, with --cache daemon, as much as keeps disk and decoder equally busy while training runs"},
		{name: "mix-format", arg: strings.Join(formats, "|"), def: "what pipefs tune found, or what is stored, or " + formats[0], set: intoChoice(&c.Views.Mix.Format, formats...),
			help: "what MNT/mix shows, under the files' own names: bmp or ppm, pixels of every sample, decoded by the mount where they are not materialized; or stored-bmp or stored-ppm, pixels where they are materialized, and the other files as they are for the loader to decode"},
		{name: "cache-policy", arg: strings.Join(mixer.CachePolicies, "|"), def: mixer.LRUCache, set: intoChoice(&c.Cache.Policy, mixer.CachePolicies...),
			help: "with --cache daemon, what stays within --cache-bytes: liquid keeps the hit ratio of shuffled epochs constant, at the share of the dataset that fits; minio keeps what was read first; lru what was read last"},
		{name: "direct", set: intoBool(&c.Cache.Direct),
			help: "with --cache daemon, read the packs of a store past the page cache (O_DIRECT): memory holds what --cache-bytes holds, and no second copy"},
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
