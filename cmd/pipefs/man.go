package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/mountd"
)

func manCommand(env *environ) *command {
	return &command{
		name: "man", args: "DIR", min: 1, max: 1,
		brief: "write the manual pages into a directory",
		about: "Packages install them. One page for each command and one for /etc/fstab, in DIR/man1 and DIR/man8.",
		examples: []example{
			{"pipefs man ~/.local/share/man", "then man pipefs and man pipefs-mount show them"},
			{"SOURCE_DATE_EPOCH=1735689600 pipefs man man", "pages with the date of that second, for packages that have to come out the same each time"},
		},
		run: func(_ context.Context, args []string) error {
			for _, p := range manPages(commandsOf(env)) {
				dir := filepath.Join(args[0], "man"+p.section)
				if err := os.MkdirAll(dir, 0o755); err != nil {
					return err
				}
				if err := renameio.WriteFile(filepath.Join(dir, p.name+"."+p.section), []byte(p.String()), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// manPage is a page being written, in the macros of man(7).
type manPage struct {
	name, section string
	strings.Builder
}

// manPages makes all pages of what the help is made of.
func manPages(commands []*command) []*manPage {
	pages := []*manPage{programPage(commands), fstabPage(find(commands, "mount"))}
	for _, c := range commands {
		pages = append(pages, commandPage(c))
	}
	return pages
}

func newPage(name, section, brief string) *manPage {
	p := &manPage{name: name, section: section}
	fmt.Fprintf(p, ".TH %s %s %s %q %q\n", roff(strings.ToUpper(name)), section, manDate(), "pipefs "+mountd.Version(), "pipefs manual")
	p.heading("NAME")
	fmt.Fprintf(p, "%s \\- %s\n", roff(name), roff(brief))
	return p
}

// manDate is the day of SOURCE_DATE_EPOCH, in seconds since 1970, which makes the same
// pages of the same commit; otherwise today.
func manDate() string {
	day := time.Now()
	if s, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		day = time.Unix(s, 0)
	}
	return day.UTC().Format(time.DateOnly)
}

func commandPage(c *command) *manPage {
	p := newPage("pipefs-"+c.name, "1", c.brief)
	p.heading("SYNOPSIS")
	p.bold("pipefs " + c.name)
	if c.args != "" {
		p.line(c.args)
	}
	if len(c.options) > 0 {
		p.line("[options]")
	}
	p.heading("DESCRIPTION")
	p.paragraphs(cmp.Or(c.about, strings.ToUpper(c.brief[:1])+c.brief[1:]+"."))
	p.options(c.options, (*option).heading)
	p.examples(c.examples)
	p.words(func(word string) bool { return slices.Contains(c.words, word) })
	p.seeAlso("pipefs(1)")
	return p
}

func programPage(commands []*command) *manPage {
	p := newPage("pipefs", "1", "mount an image dataset as a directory of views")
	p.heading("SYNOPSIS")
	p.bold("pipefs")
	p.line("COMMAND [arguments] [options]")
	p.heading("DESCRIPTION")
	p.paragraphs(appAbout)
	p.heading("COMMANDS")
	for _, c := range commands {
		p.item(c.name+" "+c.args, c.brief+"; see pipefs-"+c.name+"(1)")
	}
	p.examples(appExamples)
	p.words(func(string) bool { return true })
	p.exitStatus()
	p.seeAlso("mount.pipefs(8)", "mount(8)", "fusermount3(1)")
	return p
}

// fstabPage is the page of mount.pipefs, the name under which mount(8) runs pipefs.
func fstabPage(mount *command) *manPage {
	p := newPage("mount.pipefs", "8", "mount a dataset by mount(8), /etc/fstab or systemd")
	p.heading("SYNOPSIS")
	p.bold("mount -t pipefs")
	p.line("[-o option[,option...]] DATASET|STORE MNT")
	p.heading("DESCRIPTION")
	p.paragraphs("mount(8) runs mount.pipefs, another name of pipefs in /sbin or /usr/sbin, for the type pipefs, as do lines of /etc/fstab and systemd. The mount is a daemon that goes on in the background until umount(8).\n" +
		"When root mounts so, the daemon mounts as root and then serves as the owner of the dataset, so that no picture is decoded as root: setuid=USER names another user, setuid=root keeps root. allow_other lets other users in, as far as the permissions of the dataset's files let them.\n" +
		"The type fuse.pipefs is the same, by way of mount.fuse3(8). That one looks for pipefs in PATH.")
	var twins []*option
	for _, o := range mount.options {
		if !o.flagOnly {
			twins = append(twins, o)
		}
	}
	p.options(twins, func(o *option) string {
		if o.arg == "" {
			return o.name
		}
		return o.name + "=" + o.arg
	})
	p.paragraphs("Underscores may stand for hyphens. A comma in a value is written \\,. In /etc/fstab a space is written \\040. Options that mount(8) and systemd.mount(5) give a meaning, such as ro, nofail, _netdev, noauto and x-systemd.automount, are accepted.")
	p.examples([]example{
		{"/data/imagenet /mnt/imagenet pipefs ro,allow_other,_netdev 0 0", "a line of /etc/fstab: a dataset for all users, mounted when the network is there"},
		{"/data/in.store /mnt/in pipefs ro,allow_other,cache=daemon,cache-bytes=16GB,nofail 0 0", "a store, of which the daemon keeps 16 GB in memory; the system starts without it, too"},
		{"mount -t pipefs -o ro,allow_other /data/imagenet /mnt/imagenet", "the first by hand; mount(8) says rw where nobody says ro, and pipefs refuses that"},
	})
	p.exitStatus()
	p.seeAlso("pipefs-mount(1)", "pipefs(1)", "fstab(5)", "mount(8)", "systemd.mount(5)")
	return p
}

func (p *manPage) heading(title string) { fmt.Fprintf(p, ".SH %s\n", title) }

func (p *manPage) line(text string) { fmt.Fprintln(p, roff(text)) }

func (p *manPage) bold(text string) { fmt.Fprintf(p, "\\fB%s\\fR\n", roff(text)) }

// paragraphs writes one for each line of text.
func (p *manPage) paragraphs(text string) {
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if i > 0 || !strings.HasSuffix(p.String(), "DESCRIPTION\n") {
			p.WriteString(".PP\n")
		}
		p.line(line)
	}
}

// item writes a term and what it means.
func (p *manPage) item(term, means string) {
	p.WriteString(".TP\n")
	p.bold(strings.TrimSpace(term))
	p.line(means)
}

func (p *manPage) options(options []*option, name func(*option) string) {
	if len(options) == 0 {
		return
	}
	p.heading("OPTIONS")
	for _, o := range options {
		p.item(name(o), o.meaning())
	}
}

func (p *manPage) examples(list []example) {
	p.heading("EXAMPLES")
	for _, e := range list {
		p.item(e.line, e.does)
	}
}

func (p *manPage) words(wanted func(string) bool) {
	any := false
	for _, g := range glossary {
		if !wanted(g.word) {
			continue
		}
		if !any {
			p.heading("WORDS")
			any = true
		}
		p.item(g.word, g.meaning)
	}
}

// exitStatus lists the codes of package exit.
func (p *manPage) exitStatus() {
	p.heading("EXIT STATUS")
	for _, s := range []struct {
		code  exit.Code
		means string
	}{
		{exit.OK, "done"},
		{exit.Usage, "wrong usage, or a permission is missing"},
		{exit.System, "the system failed: no memory, no /dev/fuse, an I/O error"},
		{exit.Internal, "a bug of pipefs"},
		{exit.Interrupted, "interrupted"},
		{exit.Mount, "the mount failed"},
	} {
		p.item(fmt.Sprint(int(s.code)), s.means)
	}
}

func (p *manPage) seeAlso(pages ...string) {
	p.heading("SEE ALSO")
	p.line(strings.Join(pages, ", "))
}

// roff escapes text: what begins a macro, and hyphens, which are minus signs in commands.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...", "–", `\(en`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
