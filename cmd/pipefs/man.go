package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/mountd"
)

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
