package main

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	pfs "github.com/pipefs/pipefs/fs"
	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

var nowhere = &environ{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}

// mounting parses the command line of a mount, and returns its configuration.
func mounting(t *testing.T, words ...string) (*mountConfig, []string, error) {
	t.Helper()
	c, args := &mountConfig{}, []string(nil)
	app := newApp(nowhere)
	mount := app.Command("mount")
	mount.Flags = mountFlags(c)
	mount.Action = func(ctx *cli.Context) error {
		args = ctx.Args().Slice()
		return nil
	}
	line, err := arrange(app, append([]string{"pipefs", "mount"}, words...))
	if err == nil {
		err = app.RunContext(t.Context(), line)
	}
	return c, args, err
}

// Flags stand anywhere before --, with their values in the same word or the next one.
func TestParse(t *testing.T) {
	for in, want := range map[string]struct {
		foreground, allow, daemon bool
		args                      string
	}{
		"D M":                                 {args: "D M"},
		"D -f M --cache daemon":               {foreground: true, daemon: true, args: "D M"},
		"--cache=daemon D M -oro,allow_other": {daemon: true, allow: true, args: "D M"},
		"-o cache=daemon D M -f":              {foreground: true, daemon: true, args: "D M"},
		"-f -- -D -M":                         {foreground: true, args: "-D -M"},
		"D - M":                               {args: "D - M"}, // for the standard input, in other commands
		"--cache daemon cache M":              {daemon: true, args: "cache M"},
		"help h":                              {args: "help h"},
	} {
		c, args, err := mounting(t, strings.Fields(in)...)
		if err != nil || strings.Join(args, " ") != want.args || c.foreground != want.foreground || c.Kernel.AllowOther != want.allow || (c.Cache.Mode == pfs.DaemonCache) != want.daemon {
			t.Errorf("%s: %q, %+v, %v", in, args, c, err)
		}
	}
}

// A flag wins over -o, -o over the environment, and that over the default.
func TestPrecedence(t *testing.T) {
	for _, c := range []struct {
		env, line string
		want      int64
	}{
		{"", "D M", -1}, {"1M", "D M", 1 << 20}, {"1M", "-o cache-bytes=2M D M", 2 << 20}, {"1M", "--cache-bytes 3M -o cache_bytes=2M D M", 3 << 20}, {"", "D M --cache-bytes 3M", 3 << 20},
	} {
		t.Setenv("PIPEFS_CACHE_BYTES", c.env)
		got, _, err := mounting(t, strings.Fields(c.line)...)
		if err != nil || got.Cache.Bytes != c.want {
			t.Errorf("%q, %s: %d, %v", c.env, c.line, got.Cache.Bytes, err)
		}
	}
	t.Setenv("PIPEFS_CACHE_BYTES", "lots")
	if _, _, err := mounting(t, "D", "M"); err == nil || !strings.Contains(err.Error(), `environment variable "PIPEFS_CACHE_BYTES"`) || exit.Of(err) != exit.Usage {
		t.Error(err)
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
		"/D":                           "mount takes 2 arguments, not 1: name an empty directory",
		"-f /D":                        "mount takes 2 arguments, not 1: name an empty directory",
		"-f":                           "mount takes 2 arguments, not 0",
		"no-such":                      `unknown command "no-such"`,
		"help frob":                    `unknown command "frob"`,
		"mount D M -o":                 "-o needs a value",
		"./D M --cache":                "--cache needs a value",
		"mount --frob D M":             "unknown flag --frob",
		"mount --cache ram D M":        `--cache: "ram" is none of page, daemon`,
		"mount --foreground=maybe D M": `--foreground "maybe" is neither true nor false`,
		"mount D":                      "mount takes 2 arguments, not 1: name an empty directory",
		"D/ M -o rw":                   "option rw:",
		"D/ M -o ro,frobnicate":        `unknown option "frobnicate"`,
		"D/ M -o frob=1":               `unknown option "frob"`,
		"D/ M -o cache":                "option cache needs a value",
		"D/ M -o cache=ram":            `"ram" is none of page, daemon`,
		"D/ M -o cache-bytes=lots":     `"lots" is not a size`,
		"D/ M -o fidelity=11":          "not a number from 1 to 10",
		"D/ M -o allow_other=yes!":     "neither true nor false",
		"D/ M -o foreground":           "unknown option",
		"D/ M -o o=ro":                 "unknown option",
		"D/ M -o help":                 "unknown option",
		"D/ M -o remount":              "option remount:",
		"D/ M -o subtype=other":        "unknown option",
		"D/ M -o images=":              "an empty value",
	} {
		err := dispatch(t.Context(), nowhere, append([]string{"pipefs"}, strings.Fields(in)...))
		if err == nil || !strings.Contains(err.Error(), want) || exit.Of(err) != exit.Usage {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}

func TestOptions(t *testing.T) {
	c, _, err := mounting(t, "-o", `ro,nodev,_netdev,x-systemd.automount,cache=daemon,cache_bytes=1G,store-max=2GB,allow_other,images=a\,b.png,images=*.tif,fidelity=3,no-background,user=me,comment=x,,log-format=json`, "D", "M")
	testenv.Must(t, err)
	if c.Cache.Mode != pfs.DaemonCache || c.Cache.Bytes != 1<<30 || c.Keep.MaxBytes != 2e9 || !c.Kernel.AllowOther || c.Views.Scans != 3 || !c.Keep.NoBackground || c.LogFormat != "json" || c.followGiven {
		t.Errorf("got %+v", c)
	}
	if diff := cmp.Diff([]string{"a,b.png", "*.tif"}, c.Roles.Images); diff != "" {
		t.Error(diff)
	}
	if c, _, err = mounting(t, "D", "M", "-o", "no-background=false,no_follow=true"); err != nil || c.Keep.NoBackground || !c.Read.NoFollow || !c.followGiven {
		t.Errorf("%v, %+v", err, c)
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

// The daemon gets what its parent was told, paths absolute. It refuses what it does not know.
func TestHandedConfig(t *testing.T) {
	t.Chdir("/tmp")
	c, _, err := mounting(t, "-f", "--no-follow=false", "--images=a", "--images", "b=c,d", "--store", "s", "-o", "cache=daemon,log_file=l.log,max_segments=9000,max-pixels=1000", "--max-scans", "300", "--supervise", "D", "M")
	testenv.Must(t, err)
	handed, err := json.Marshal(c)
	testenv.Must(t, err)
	got, err := configOf(handed)
	testenv.Must(t, err)
	want := mountConfig{Config: c.Config, LogFormat: c.LogFormat, LogLevel: c.LogLevel, Patience: c.Patience, Supervise: true}
	if diff := cmp.Diff(&want, got, cmp.AllowUnexported(mountConfig{})); diff != "" {
		t.Errorf("the daemon understands something else:\n%s", diff)
	}
	if limits := (transcode.Limits{MaxPixels: 1000, MaxScans: 300, MaxSegments: 9000}); got.Limits != limits || got.Read.Store != "/tmp/s" || got.LogFile != "/tmp/l.log" || !slices.Equal(got.Roles.Images, []string{"a", "b=c,d"}) {
		t.Errorf("got %+v", got)
	}
	newer := append([]byte(`{"Frob": 1,`), handed[1:]...)
	if _, err := configOf(newer); err == nil || !strings.Contains(err.Error(), `the mount has the setting "Frob", which version `) || exit.Of(err) != exit.Usage {
		t.Error(err)
	}
	if _, err := configOf(handed[:100]); exit.Of(err) != exit.Internal {
		t.Error(err)
	}
}

func TestSizesOfFlags(t *testing.T) {
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
