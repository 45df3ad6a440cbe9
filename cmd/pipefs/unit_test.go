package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	pfs "github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/mounts"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

var nowhere = &environ{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}

// Options stand anywhere before --, and may have one or two words.
func TestParse(t *testing.T) {
	for _, c := range []struct{ in, options, args string }{
		{"D M", "", "D M"},
		{"D -f M --cache daemon", "--cache=daemon --foreground=true", "D M"},
		{"--cache=daemon D M -oro,allow_other", "--cache=daemon --o=ro,allow_other", "D M"},
		{"--log-format json -o cache=daemon D M", "--o=cache=daemon --log-format=json", "D M"},
		{"-f -- -D -M", "--foreground=true", "-D -M"},
		{"D - M", "", "D - M"}, // for the standard input, in other commands
		{"D M --no-follow=false", "--no-follow=false", "D M"},
	} {
		mount := mountCommand(nowhere)
		args, err := mount.parse(strings.Fields(c.in))
		if err != nil || strings.Join(args, " ") != c.args || strings.Join(again(mount.options), " ") != c.options {
			t.Errorf("%s: options %q, arguments %q, %v", c.in, again(mount.options), args, err)
		}
	}
}

// What mount(8) adds to the command line of its helpers is left out.
func TestHelper(t *testing.T) {
	for in, want := range map[string]string{
		"/D M -s -n -v -t fuse.pipefs -N 7 -o ro": "/D M -o ro",
		"/D M -f": "/D M --dry-run",
	} {
		if got := strings.Join(helper(strings.Fields(in)), " "); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestCommandLineRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	for in, want := range map[string]string{
		"frob":                         `unknown command "frob"`,
		"moutn D M":                    `unknown command "moutn"`,
		"D M":                          `unknown command "D"`, // no such directory, no slash
		"/D":                           "to mount /D, say where: pipefs mount /D MNT",
		"-f":                           "no command given",
		"help frob":                    `unknown command "frob"`,
		"mount D M -o":                 "flag needs an argument: 'o' in -o",
		"./D M --cache":                "flag needs an argument: --cache",
		"mount --frob D M":             "unknown flag: --frob",
		"mount --cache ram D M":        `option --cache: "ram" is none of page, daemon`,
		"mount --foreground=maybe D M": `option --foreground: "maybe" is neither true nor false`,
		"mount D":                      "mount takes 2 arguments, not 1: name an empty directory",
	} {
		err := dispatch(t.Context(), nowhere, append([]string{"pipefs"}, strings.Fields(in)...))
		if err == nil || !strings.Contains(err.Error(), want) || exit.Of(err) != exit.Usage {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}

func TestTwins(t *testing.T) {
	var c mountConfig
	options := mountOptions(&c)
	err := setTwins(options, `ro,nodev,_netdev,x-systemd.automount,cache=daemon,cache_bytes=1G,store-max=2GB,allow_other,images=a\,b.png,images=*.tif,fidelity=3,no-background,user=me,comment=x,,log-format=json`)
	testenv.Must(t, err)
	if c.Cache.Mode != pfs.DaemonCache || c.Cache.Bytes != 1<<30 || c.Keep.MaxBytes != 2e9 || !c.Kernel.AllowOther || c.Views.Scans != 3 || !c.Keep.NoBackground || c.logFormat != "json" {
		t.Errorf("got %+v", c)
	}
	if diff := cmp.Diff([]string{"a,b.png", "*.tif"}, c.Roles.Images); diff != "" {
		t.Error(diff)
	}
	if err := setTwins(options, "no-background=false,no_follow=true"); err != nil || c.Keep.NoBackground || !c.Read.NoFollow {
		t.Errorf("%v, %+v", err, c)
	}
}

// Every long flag of a mount has a twin, by the same definition.
func TestEveryFlagHasATwin(t *testing.T) {
	for _, o := range mountOptions(&mountConfig{}) {
		if o.flagOnly {
			continue
		}
		value := map[string]string{"": "", "page|daemon": "=page", "SIZE": "=1M", "RATE": "=50MB/s", "K": "=2", "N": "=3", "always|once": "=once",
			"text|json": "=json", "debug|info|warn|error": "=warn", "DURATION": "=1s",
			"all|SHARE|adaptive": "=0.5", strings.Join(mountd.MixFormats, "|"): "=bmp", "liquid|minio|lru": "=minio", "auto|off|N": "=off", "fail|black": "=black", "auto|fuse|uring": "=fuse"}
		v, ok := value[o.arg]
		if !ok {
			v = "=/x"
		}
		fresh := mountOptions(&mountConfig{})
		if err := setTwins(fresh, o.name+v); err != nil {
			t.Errorf("%s: %v", o.name, err)
		}
		if !lookup(fresh, o.name).isSet() {
			t.Errorf("%s was not set", o.name)
		}
	}
}

func TestTwinsRefuse(t *testing.T) {
	for list, want := range map[string]string{
		"rw":               "option rw:",
		"ro,frobnicate":    `unknown option "frobnicate"`,
		"frob=1":           `unknown option "frob"`,
		"cache":            "option cache needs a value",
		"cache=ram":        `"ram" is none of page, daemon`,
		"cache-bytes=lots": `"lots" is not a size`,
		"fidelity=11":      "not a number from 1 to 10",
		"allow_other=yes!": "neither true nor false",
		"foreground":       "unknown option",
		"o=ro":             "unknown option",
		"remount":          "option remount:",
		"subtype=other":    "unknown option",
		"images=":          "an empty value",
	} {
		err := setTwins(mountOptions(&mountConfig{}), list)
		if err == nil || !strings.Contains(err.Error(), want) || exit.Of(err) != exit.Usage {
			t.Errorf("%s: %v (code %d), want %q", list, err, exit.Of(err), want)
		}
	}
}

func TestSplitOptions(t *testing.T) {
	for in, want := range map[string][]string{
		"": {""}, "a": {"a"}, "a,b=c,d": {"a", "b=c", "d"}, `a\,b,c`: {"a,b", "c"}, `a\\,b`: {`a\`, "b"}, `a\b`: {`a\b`}, `a\`: {`a\`}, ",": {"", ""},
	} {
		if diff := cmp.Diff(want, splitOptions(in)); diff != "" {
			t.Errorf("%q: %s", in, diff)
		}
	}
}

// The daemon gets the options as they were given, paths absolute.
func TestAgain(t *testing.T) {
	t.Chdir("/tmp")
	var c, d mountConfig
	options := mountOptions(&c)
	parse := func(options []*option, args []string) {
		t.Helper()
		if _, err := (&command{options: options}).parse(args); err != nil {
			t.Fatal(err)
		}
	}
	parse(options, []string{"-f", "--no-follow=false", "--images=a", "--images", "b=c,d", "--store", "s", "-o", "cache=daemon", "--max-scans", "300"})
	testenv.Must(t, setTwins(options, c.lists[0]+",log_file=l.log,max_segments=9000,max-pixels=1000"))
	c.Source, c.Dir = "/ds", "/mnt"
	args := daemonArgs(&c, options)
	if diff := cmp.Diff([]string{"--", "/ds", "/mnt"}, args[len(args)-3:]); diff != "" {
		t.Fatal(diff)
	}
	got := args[2 : len(args)-3]
	want := []string{"--cache=daemon", "--store=/tmp/s", "--images=a", "--images=b=c,d", "--no-follow=false", "--log-file=/tmp/l.log", "--max-pixels=1000", "--max-scans=300", "--max-segments=9000"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	parse(mountOptions(&d), got)
	if want := (transcode.Limits{MaxPixels: 1000, MaxScans: 300, MaxSegments: 9000}); d.Limits != want {
		t.Errorf("limits %+v", d.Limits)
	}
	c.lists, c.foreground, c.Source, c.Dir = nil, false, "", ""
	d.Views.Seed = c.Views.Seed // one that nobody gave is another in each process
	if diff := cmp.Diff(c, d, cmp.AllowUnexported(mountConfig{})); diff != "" {
		t.Errorf("the daemon understands something else:\n%s", diff)
	}
}

func TestSizes(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "512B": 512, "0.5K": 512, "1K": 1024, "1k": 1024, "512M": 512 << 20, "10GiB": 10 << 30, "50GB": 50e9, "50 GB": 50e9,
		"1.5T": 3 << 39, "2TB": 2e12, "1kb": 1000,
	} {
		if got, err := parseSize(in); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "GB", "-1", "1e9", "1X", "1GG", "0x10", "+5", "9999999999T", "NaN", "Inf", "1 2", "1_000", "512", "0.5B"} {
		if got, err := parseSize(in); err == nil {
			t.Errorf("%q is %d", in, got)
		}
	}
	var n int64
	for in, want := range map[string]string{
		"5": `"5" has no unit: write 5MB, 5GB, or 5B`, "1.5": `"1.5" has no unit: write 1.5MB, 1.5GB, or 1.5B`,
		"0": `"0" is too small: write 1B or more, or leave the option out`,
	} {
		if err := intoSize(&n, 1)(in); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", in, err, want)
		}
	}
	if err := intoRate(&n)("50/s"); err == nil || err.Error() != `"50" has no unit: write 50MB/s, 50GB/s, or 50B/s` {
		t.Errorf("a rate without a unit: %v", err)
	}
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.00 kB", 9994: "9.99 kB", 9995: "10.0 kB", 99950: "100 kB", 999499: "999 kB", 999500: "1.00 MB",
		50e9: "50.0 GB", 22893234: "22.9 MB", math.MaxInt64: "9223 PB",
	} {
		if got := formatSize(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1281167: "1,281,167", -1234: "-1,234", -123: "-123"} {
		if got := formatCount(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

func TestLogLines(t *testing.T) {
	var b bytes.Buffer
	newLogger(&b, "text", "warn").Info("silent")
	newLogger(&b, "text", "warn").Error("I/O error", "sample", "a b.jpg", "offset", 7)
	if want := `^time=\S+ level=ERROR msg="I/O error" sample="a b.jpg" offset=7\n$`; !regexp.MustCompile(want).MatchString(b.String()) {
		t.Errorf("got %q", b.String())
	}
	b.Reset()
	newLogger(&b, "json", "debug").Debug("x", "pack", 3)
	var line struct {
		Level, Msg string
		Pack       int
	}
	if err := json.Unmarshal(b.Bytes(), &line); err != nil || line.Level != "DEBUG" || line.Msg != "x" || line.Pack != 3 {
		t.Errorf("got %q, %v", b.String(), err)
	}
}

func TestLargeLogIsPutAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir", "log")
	for range 2 {
		f, err := openLog(path)
		testenv.Must(t, err)
		testenv.Must(t, f.Truncate(maxLog+1))
		f.Close()
	}
	if info, err := os.Stat(path + ".old"); err != nil || info.Size() != maxLog+1 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestProgressLine(t *testing.T) {
	now := time.Now()
	p := &progress{what: "packing", total: 5000, n: 1200, started: now.Add(-4 * time.Second)}
	if got, want := p.line(now), "packing: 1,200 of 5,000 (24%), 300/s, 13s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.total = -1
	if got, want := p.line(now), "packing: 1,200, 300/s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var b bytes.Buffer
	p = newProgress(&environ{stderr: &b}, "x", 10)
	p.add(5)
	if b.Len() != 0 {
		t.Errorf("at once: %q", b.String())
	}
	p.shown.next = now.Add(-time.Second)
	p.add(1)
	if !strings.HasPrefix(b.String(), "x: 6 of 10 (60%)") {
		t.Errorf("got %q", b.String())
	}
}

// Every command's help fits a terminal, has examples, and tells what its options do.
func TestHelp(t *testing.T) {
	commands := commandsOf(nowhere)
	for _, text := range append([]string{appHelp(commands)}, func() (all []string) {
		for _, c := range commands {
			all = append(all, commandHelp(c, false), commandHelp(c, true))
		}
		return all
	}()...) {
		for line := range strings.Lines(text) {
			// examples are commands, and are not broken
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width+2 && !strings.HasPrefix(line, "  ") {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
	for _, c := range commands {
		if n := len(c.examples); n < 2 || n > 4 {
			t.Errorf("%s has %d examples", c.name, n)
		}
		for _, o := range c.options {
			if o.help == "" {
				t.Errorf("%s --%s has no help", c.name, o.name)
			}
		}
		for _, w := range c.words {
			if !strings.Contains(commandHelp(c, false), "\n  "+w+" ") {
				t.Errorf("%s does not explain %s", c.name, w)
			}
		}
	}
}

func TestSlowOrSmall(t *testing.T) {
	ext4, nfs := mounts.FileSystem{Name: "ext4", Local: true}, mounts.FileSystem{Name: "NFS"}
	for _, c := range []struct {
		kind mounts.FileSystem
		free int64
		want string
	}{
		{ext4, 20e9, ""},
		{ext4, 300e6, "where only 300 MB are free"},
		{nfs, 20e12, "on no local disk that pipefs knows (NFS), and may be slower there than made again"},
	} {
		if got := slowOrSmall(c.kind, c.free); got != c.want {
			t.Errorf("%+v, %d free: %q, want %q", c.kind, c.free, got, c.want)
		}
	}
	t.Setenv("SLURM_TMPDIR", "")
	if got := localDisk(); got != "DIR" {
		t.Error(got)
	}
	t.Setenv("SLURM_TMPDIR", "/scratch/7")
	if got := localDisk(); got != "$SLURM_TMPDIR/pipefs" {
		t.Error(got)
	}
}

func TestWhy(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	for _, c := range []struct {
		view string
		info transcode.Info
		want string
	}{
		{"png", transcode.Info{Format: transcode.PNG, Mode: transcode.ModeRGB}, "it is a PNG file already"},
		{"resize256-png", transcode.Info{Format: transcode.PNG, Mode: transcode.ModeL}, "may be a mask, which resize256-png would harm"}, // without resize nothing is left to do
		{"jpeg90", transcode.Info{Format: transcode.PNG, Mode: transcode.ModeL}, "or take the view rgb-jpeg90"},
		{"bmp", transcode.Info{Format: transcode.PNG, Mode: transcode.ModeRGB, Animated: true}, "it has several frames"},
		{"bmp", transcode.Info{Format: transcode.PNG, Mode: transcode.ModeI16}, "bmp cannot hold"},
		{"bmp", transcode.Info{Format: transcode.TIFF}, "a flavour of TIFF"},
	} {
		p, err := r.Parse(c.view)
		testenv.Must(t, err)
		c.info.Width, c.info.Height = 300, 300
		plan := r.Plan(p, c.info, transcode.Auto)
		if got := mountd.Why(r, p, c.info, plan); !plan.Unchanged() || !strings.Contains(got, c.want) {
			t.Errorf("%s of %+v: %s, want %s", c.view, c.info, got, c.want)
		}
	}
}
