package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	pfs "github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/internal/supervise"
	"github.com/pipefs/pipefs/mixer"
)

func mountCommand(env *environ) *cli.Command {
	c := &mountConfig{}
	return &cli.Command{
		Name: "mount", ArgsUsage: "DATASET|STORE MNT", Category: everyday, Usage: "mount a dataset or a store as a directory of views",
		Description: "A dataset needs no preparation and is never written to. Views are made when they are first read, and kept in ~/.cache/pipefs. The command returns when the mount is ready; a daemon serves it until pipefs umount.\n" +
			"[env]: the environment can set the flag, such as PIPEFS_CACHE_BYTES for --cache-bytes. A flag wins over -o, and -o over the environment. pipefs(1) also describes rarely needed flags.",
		UsageText: `pipefs mount ~/imagenet ~/m               # then train from ~/m/resize256-bmp/train
pipefs mount s3://bucket/in.store ~/m     # a packed store; credentials as for the AWS tools
pipefs mount --masks '**/labels/*.png' ~/scenes ~/m
/data/imagenet /mnt/imagenet fuse.pipefs ro,allow_other,_netdev 0 0     # in /etc/fstab`,
		Flags: mountFlags(c),
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

// mountFlags are the flags of a mount. Those that -o does not take are in flagOnly.
func mountFlags(c *mountConfig) []cli.Flag {
	*c = mountConfig{Config: mountd.Default("", ""), LogFormat: "text", LogLevel: "info", Patience: 2 * time.Minute}
	noFollow := &cli.BoolFlag{Name: "no-follow", Destination: &c.Read.NoFollow, Usage: "refuse links that leave the dataset (default: for root with --allow-other)",
		Action: func(*cli.Context, bool) error { c.followGiven = true; return nil }}
	source := slices.Concat([]cli.Flag{
		opt("store", "DIR", "", placeOrURL(intoString(&c.Read.Store)), "read from this store of DATASET, or keep prepared data there"),
		opt("dataset", "DIR", "", place(intoString(&c.Read.Dataset)), "with a STORE: name its dataset, for missing originals"),
		classesFlag(&c.Read.Classes),
		opt("manifest", "DIR", "", place(intoString(&c.Read.Manifest)), "use the file list that pipefs list wrote"),
		opt("refresh", "DURATION", "never", intoAge(&c.Read.Refresh), "look for newer data at this interval, such as 5m"),
		&cli.BoolFlag{Name: "immutable", Destination: &c.Read.Immutable, Usage: "assume that the dataset does not change, and skip all checks"},
		noFollow,
	}, roleFlags(&c.Roles), []cli.Flag{pairFlag(&c.Roles)}, remoteFlags(&c.Remote), limitFlags(&c.Limits), hide(true,
		&cli.BoolFlag{Name: "metadata", Destination: &c.Read.Metadata, Usage: "show the columns of Parquet files as SPLIT/metadata.jsonl in each view"},
		opt("limit-read", "RATE", "none", intoRate(&c.Read.BytesPerSecond), "emulate a slow disk, such as 50MB/s"),
		opt("limit-reads", "N", "none", intoInt(&c.Read.ReadsPerSecond, 1, 1e9), "emulate a slow disk with N reads per second"),
	))
	views := append([]cli.Flag{
		opt("list-view", "VIEW", "", intoList(&c.Views.List), "list this view as well; any view can be entered (repeatable)"),
		opt("fidelity", "K", "10", intoInt(&c.Views.Scans, 1, mountd.MaxFidelity), "point MNT/current at scanK"),
		opt("list", "FILE", "", place(intoList(&c.Views.Lists)), "take the samples of epochs from a CSV file (repeatable)"),
		opt("seed", "N", "random", noted(&c.seedGiven, intoInt(&c.Views.Seed, 0, 1<<62)), "seed random views whose path has no seed"),
		opt("on-error", "fail|black|replace", "fail", intoOnError(&c.Views.OnError), "fail reads of a broken sample, make it black in batches, or show another one with the same label"),
		opt("on-error-limit", "SHARE", "2%", intoShare(&c.Views.ErrorLimit), "with black or replace, fail if a larger share of the samples is broken"),
		opt("mix", "all|SHARE|adaptive", "all", intoMix(&c.Views.Mix), "read this share of the materialized samples as stored"),
	}, hide(true,
		opt("mix-format", strings.Join(mountd.MixFormats, "|"), "as tuned or stored", intoChoice(&c.Views.Mix.Format, mountd.MixFormats...), "choose the view that MNT/mix shows under the files' own names"),
		&cli.BoolFlag{Name: "force-random", Destination: &c.Views.ForceRandom, Usage: "let random views show samples with boxes or masks, which then do not match (see --pair)"},
	)...)
	caching := append([]cli.Flag{
		opt("cache", "MODE=page|daemon|liquid|minio", "page", intoCache(&c.Cache), "cache in the kernel (page) or daemon (daemon, liquid, minio)"),
		opt("cache-bytes", "SIZE", "256M", intoSize(&c.Cache.Bytes, 0), "limit the memory for cached samples in the daemon"),
		opt("store-max", "SIZE", "see pipefs cache limit", intoSize(&c.Keep.MaxBytes, 0), "limit the disk space for prepared data"),
		&cli.BoolFlag{Name: "create-store", Destination: &c.createStore, Usage: "with --store: keep prepared data in DIR, and create it"},
		&cli.BoolFlag{Name: "no-background", Destination: &c.Keep.NoBackground, Usage: "prepare nothing ahead of time"},
		opt("disk-cache", "DIR", "~/.cache/pipefs", place(intoString(&c.Remote.Dir)), "cache objects of buckets in this directory"),
		opt("disk-cache-size", "SIZE", "see pipefs cache limit", intoSize(&c.Remote.Bytes, 0), "limit that cache; 0 keeps nothing"),
	}, hide(true,
		&cli.BoolFlag{Name: "direct", Destination: &c.Cache.Direct, Usage: "with --cache daemon: read packs past the page cache (O_DIRECT)"},
	)...)
	mounting := append([]cli.Flag{
		&cli.BoolFlag{Name: "foreground", Aliases: []string{"f"}, Destination: &c.foreground, Usage: "stay in the foreground, log to the terminal, and notify systemd"},
		opt("o", "OPTION,…", "", func(string) error { return nil }, "set flags as in fstab: cache=daemon,ro"), // see expandOptions
		&cli.BoolFlag{Name: "allow-other", Destination: &c.Kernel.AllowOther, Usage: "let other users in, as the permissions of the files allow"},
		opt("setuid", "USER|owner", "", intoString(&c.SetUID), "run the daemon as this user (default by fstab: the owner of the dataset)"),
		&cli.BoolFlag{Name: "shared", Destination: &c.shared, Usage: "share one mount among programs; it ends when none holds it any more"},
		&cli.BoolFlag{Name: "supervise", Destination: &c.Supervise, Usage: "restart the daemon if it dies, while readers wait"},
		&cli.BoolFlag{Name: "takeover", Destination: &c.takeover, Usage: "let this program serve a supervised mount: pipefs mount --takeover MNT"},
		opt("gpu", "auto|off|N", "auto", intoGPU(&c.GPU), "decode L3 on an NVIDIA GPU: if faster, never, or on GPU N"),
		opt("workers", "N", "one a core", intoInt(&c.Workers, 1, 4096), "make this many samples at once"),
		&cli.BoolFlag{Name: "dry-run", Destination: &c.dryRun, Usage: "check everything, and mount nothing"},
	}, hide(true,
		&cli.BoolFlag{Name: "nonempty", Destination: &c.nonempty, Usage: "mount over a directory that is not empty"},
		opt("ready-timeout", "DURATION", "2m", intoDuration(&c.Patience), "give up if the mount does not answer in time"),
		opt("deaths", "N", strconv.Itoa(supervise.MaxDeaths), intoInt(&c.Deaths, 1, 1<<30), "with --supervise: end the mount after N deaths of its daemon within a minute"),
		opt("hung", "DURATION", "1m", intoDuration(&c.Hung), "with --supervise: restart a daemon that has not answered or worked for this long"),
		opt("holder", "FD", "", intoInt(&c.holder, 3, 1<<20), "with --shared: pass the connection that holds the mount to this Unix socket"),
	)...)
	logging := append([]cli.Flag{
		opt("log-file", "FILE", "~/.local/state/pipefs/…", place(intoString(&c.LogFile)), "write the log here"),
		opt("log-format", "text|json", "text", intoChoice(&c.LogFormat, "text", "json"), "choose the format of the log"),
		opt("metrics", "ADDR|unix:PATH", "", func(at string) error { c.Metrics = at; return mountd.CheckMetrics(at) }, "show metrics for Prometheus at HOST:PORT, to whoever reaches it, or at a socket for this user only"),
	}, hide(true,
		opt("log-level", "debug|info|warn|error", "info", intoChoice(&c.LogLevel, "debug", "info", "warn", "error"), "choose how much to log"),
	)...)
	flags := slices.Concat(in("Source", source...), in("Views", views...), in("Caching", caching...), in("Mounting", mounting...), in("Logging", logging...))
	return fromEnv(flags, "allow-other", "cache", "cache-bytes", "disk-cache", "disk-cache-size", "endpoint", "gpu", "log-format", "log-level", "region", "store-max", "workers")
}

// noted remembers that a value was given.
func noted(given *bool, set func(string) error) func(string) error {
	return func(s string) error {
		*given = true
		return set(s)
	}
}

func intoOnError(p *serve.OnError) func(string) error {
	words := []string{serve.Fail.String(), serve.Black.String(), serve.Replace.String()}
	return func(s string) error {
		err := intoChoice(new(string), words...)(s)
		if err == nil {
			*p = serve.OnError(slices.Index(words, s))
		}
		return err
	}
}

// intoCache takes the page cache, the daemon's, or the daemon's by a policy.
func intoCache(p *mountd.Caching) func(string) error {
	return func(s string) error {
		if err := intoChoice(new(string), "page", "daemon", mixer.LiquidCache, mixer.MinIOCache)(s); err != nil {
			return err
		}
		p.Mode, p.Policy = pfs.DaemonCache, s
		switch s {
		case "page":
			p.Mode, p.Policy = pfs.PageCache, ""
		case "daemon":
			p.Policy = ""
		}
		return nil
	}
}

func intoMix(p *mountd.Mix) func(string) error {
	return func(s string) (err error) {
		p.Adaptive, p.Share = s == "adaptive", 1
		if s == "adaptive" || s == "all" {
			return nil
		}
		if p.Share, err = human.ParseShare(s); err != nil {
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
