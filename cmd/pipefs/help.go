package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
)

const appTemplate = `{{.Name}}: {{.Usage}}

usage: {{.UsageText}}
       pipefs DATASET MNT [-o option,…]     (mounts, as in /etc/fstab)
{{$c := .VisibleCategories}}{{template "commands" index $c 1}}{{template "commands" index $c 3}}{{template "commands" index $c 2}}{{template "commands" index $c 0}}
pipefs COMMAND --help shows examples and flags.
{{define "commands"}}
{{.Name}}:{{range .VisibleCommands}}
  {{.Name | printf "%-12s"}} {{.Usage}}{{end}}
{{end}}`

const shortTemplate = `{{.Name}}: {{.Usage}}

  pipefs mount ~/imagenet ~/m           # instant; nothing is converted
  python3 train.py ~/m/resize256-bmp    # instead of ~/imagenet
  pipefs umount ~/m

{{$c := .VisibleCategories}}{{with index $c 1}}{{.Name}}:{{range .VisibleCommands}}
  {{.Name | printf "%-12s"}} {{.Usage}}{{end}}{{end}}
{{template "names" index $c 3}}{{template "names" index $c 2}}{{template "names" index $c 0}}
pipefs --help describes all commands, pipefs COMMAND --help one of them.
{{define "names"}}
{{.Name}}:{{range $i, $e := .VisibleCommands}}{{if $i}},{{end}} {{$e.Name}}{{end}}{{end}}`

const commandTemplate = `pipefs {{.Name}}: {{.Usage}}

usage: pipefs {{.Name}}{{if .Flags}} [flags]{{end}} {{.ArgsUsage}}
{{if .Description}}
{{wrap .Description 0}}
{{end}}{{if .UsageText}}
examples:
  {{wrap .UsageText 2}}
{{end}}{{range .VisibleFlagCategories}}
{{if .Name}}{{.Name}}{{else}}flags{{end}}:{{range .Flags}}
{{.}}{{end}}
{{else}}
flags:{{range .VisibleFlags}}
{{.}}{{end}}
{{end}}`

func init() {
	cli.FlagStringer = flagLine
	cli.HelpFlag = &cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show this help"}
	cli.HelpPrinter = func(w io.Writer, template string, data any) {
		cli.HelpPrinterCustom(w, template, data, map[string]any{"wrapAt": func() int { return human.HelpWidth }})
	}
}

// flagLine is a flag in the help: its name, what it does, its default and its variable.
func flagLine(f cli.Flag) string {
	d := f.(cli.DocGenerationFlag)
	names := d.Names()
	head := dashed(names[0])
	if len(names) > 1 {
		head = dashed(names[1]) + ", " + head
	}
	text := d.GetUsage()
	if g, ok := f.(*cli.GenericFlag); ok {
		v := g.Value.(*value)
		arg, _, _ := strings.Cut(v.arg, "=")
		head += " " + arg
		if v.def != "" {
			text += " (default: " + v.def + ")"
		}
	}
	if len(d.GetEnvVars()) > 0 {
		text += " [env]"
	}
	const margin = 28
	if len(head)+4 > margin {
		return "  " + head + "\n" + strings.Repeat(" ", margin) + human.WrapAt(text, margin, human.HelpWidth)
	}
	return fmt.Sprintf("  %-*s%s", margin-2, head, human.WrapAt(text, margin, human.HelpWidth))
}

// usageError says what is wrong with flags, in place of the library.
func usageError(ctx *cli.Context, err error, _ bool) error {
	text := err.Error()
	var word, flag string
	if n, _ := fmt.Sscanf(text, "flag provided but not defined: -%s", &flag); n == 1 {
		text = "unknown flag " + dashed(flag) + question(cli.SuggestFlag(ctx.Command.Flags, flag, false))
	} else if n, _ := fmt.Sscanf(text, "flag needs an argument: -%s", &flag); n == 1 {
		text = dashed(flag) + " needs a value"
	} else if n, _ := fmt.Sscanf(text, "invalid boolean value %q for -%s", &word, &flag); n == 2 {
		text = fmt.Sprintf("%s %q is neither true nor false", dashed(strings.TrimSuffix(flag, ":")), word)
	} else if n, _ := fmt.Sscanf(text, "invalid value %q for flag -%s", &word, &flag); n == 2 {
		_, why, _ := strings.Cut(text, "for flag -"+flag+" ")
		text = dashed(flag) + " " + why
	}
	return exit.With(exit.Usage, fmt.Errorf("%s (pipefs %s --help lists the flags)", text, ctx.Command.Name))
}

// dashed is a flag as it is typed.
func dashed(name string) string {
	if len(strings.TrimSuffix(name, ":")) == 1 {
		return "-" + name
	}
	return "--" + name
}

func unknownCommand(app *cli.App, word string) error {
	cli.SuggestDidYouMeanTemplate = "did you mean %s?"
	return exit.Errorf(exit.Usage, "unknown command %q; %s (pipefs --help lists all; to mount a dataset: pipefs mount DATASET MNT)", word, cli.SuggestCommand(app.Commands, word))
}

// question asks for the word that was probably meant, behind what is wrong.
func question(meant string) string {
	if meant == "" {
		return ""
	}
	return "; did you mean " + meant + "?"
}

func manCommand(env *environ) *cli.Command {
	return &cli.Command{
		Name: "man", ArgsUsage: "DIR", Category: administration,
		Usage:       "write the manual page into a directory",
		Description: "Writes DIR/man1/pipefs.1, and DIR/man8/mount.pipefs.8, which refers to it. Packages install both.",
		UsageText: `# then man pipefs shows the page
pipefs man ~/.local/share/man`,
		Action: takes(1, 1, func(_ context.Context, args []string) error {
			app := newApp(env)
			app.Description = manualText
			for _, c := range app.Commands {
				hide(false, c.Flags...)
			}
			page, err := app.ToManWithSection(1)
			if err != nil {
				return err
			}
			// the library gives the title neither date nor version
			_, page, _ = strings.Cut(page, ".TH pipefs 1\n")
			page = fmt.Sprintf(".TH PIPEFS 1 %s %q %q\n.nh\n%s", manDate(), "pipefs "+mountd.Version(), "pipefs manual", page)
			for name, text := range map[string]string{"man1/pipefs.1": page, "man8/mount.pipefs.8": ".so man1/pipefs.1\n"} {
				name = filepath.Join(args[0], name)
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					return err
				}
				if err := renameio.WriteFile(name, []byte(text), 0o644); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

// manDate is the day of SOURCE_DATE_EPOCH, in seconds since 1970, which makes the same page each
// time, or today.
func manDate() string {
	day := time.Now()
	if s, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		day = time.Unix(s, 0)
	}
	return day.UTC().Format(time.DateOnly)
}

// manualText is what the manual page says beside the help, in Markdown.
var manualText = strings.TrimSpace(`
A mount shows the images of a dataset as directories, called views: coarser, smaller, or already decoded, under the paths that a training loader knows. The dataset is never written to.

# MOUNT.PIPEFS

mount(8), /etc/fstab and systemd mount by the type pipefs, if mount.pipefs is in /sbin:

    /data/imagenet /mnt/imagenet pipefs ro,allow_other,_netdev 0 0
    mount -t pipefs -o ro,allow_other /data/imagenet /mnt/imagenet

The type fuse.pipefs works as well, by way of mount.fuse3(8), which looks for pipefs in PATH. The options are the flags of pipefs mount without their hyphens, KEY or KEY=VALUE; underscores may stand for hyphens. Write a comma in a value as \\, and a space in /etc/fstab as \\040. Options that mount(8) and systemd.mount(5) understand, such as ro, nofail, _netdev and x-systemd.automount, are accepted.

If root mounts this way, the daemon mounts as root and then serves as the owner of the dataset. setuid=USER names another user, and setuid=root keeps root.

# WORDS

**dataset**: a directory of images.

**sample**: one image of the dataset. Other files (labels, JSON) appear unchanged in every view.

**step**: one transformation, such as scan5, resize256, grey or bmp.

**view**: steps joined by hyphens, as the name of a directory: MNT/resize256-npy. Any view can be entered, listed or not. original is the dataset as it is.

**fidelity**: the number of scans of each JPEG that are read, 1 to 10. Fewer scans are fewer bytes and a coarser image.

**store**: a directory of packs that pipefs pack prepares from a dataset.

**mask**: a sample whose values are labels. Steps that would blend or lose values leave it unchanged.

# EXIT STATUS

0: done. 1: wrong usage, or a permission is missing. 2: the system failed. 4: an internal error. 8: interrupted. 32: the mount failed.

# SEE ALSO

mount(8), fstab(5), systemd.mount(5), fusermount3(1)
`)
