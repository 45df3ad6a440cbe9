package main

import (
	"fmt"
	"strings"
)

// glossary holds the words that the help uses, in the order in which they build on
// each other.
var glossary = []struct{ word, meaning string }{
	{"dataset", "your directory of images; pipefs never writes to it"},
	{"sample", "one image of the dataset; other files (labels, JSON) show up unchanged in every view"},
	{"step", "one transformation: scan5, resize256, grey, bmp, npy, …"},
	{"view", "steps joined by hyphens and shown as a directory: MNT/scan5/, MNT/resize256-npy/. Any view resolves, listed or not; `original` is the dataset as it is"},
	{"fidelity", "how many scans of each image are read, 1 to 10: fewer are fewer bytes and a coarser picture. MNT/current points to one of scan1 … scan10"},
	{"store", "a directory of packs with everything prepared ahead of time, made by pipefs pack; it can be mounted without its dataset"},
	{"record", "K samples stored together: K = 1 suits random reads, K = 1024 reads in packed order from slow disks"},
	{"fraction", "what one view shows of some of a store's samples, kept in the store: pipefs materialize. The other samples are made when they are read"},
	{"mix", "the share of reads that is served from what is materialized; the rest is decoded, by the mount (bmp/) or by the loader (stored-bmp/). MNT/mix shows the same pixels whatever it is"},
	{"strategy", "where a pipeline is split: the first steps are computed once and stored, the rest at every read"},
	{"mask", "a sample whose values are labels (palette, grey, 16 bits): steps that would blend or lose values leave it unchanged; in a view with rgb every sample is a picture"},
}

// columns writes two columns, the second one wrapped.
func columns(b *strings.Builder, title string, rows [][2]string) {
	if len(rows) == 0 {
		return
	}
	const widest = 28
	margin := 0
	for _, r := range rows {
		if n := len([]rune(r[0])); n <= widest {
			margin = max(margin, n)
		}
	}
	margin += 4
	fmt.Fprintf(b, "\n%s:\n", title)
	for _, r := range rows {
		left := "  " + r[0]
		if n := len([]rune(left)); n+2 > margin {
			left += "\n" + strings.Repeat(" ", margin)
		} else {
			left += strings.Repeat(" ", margin-n)
		}
		b.WriteString(left + wrap(r[1], margin) + "\n")
	}
}

// commandHelp is what `pipefs COMMAND --help` prints, or with all of its options --help-all.
func commandHelp(c *command, all bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pipefs %s: %s\n\nusage: pipefs %s %s", c.name, c.brief, c.name, c.args)
	if len(c.options) > 0 {
		b.WriteString(" [options]")
	}
	b.WriteString("\n")
	if c.about != "" {
		for line := range strings.Lines(strings.TrimSpace(c.about)) {
			b.WriteString("\n" + wrap(line, 0) + "\n")
		}
	}
	examples(&b, c.examples)
	rows := make([][2]string, 0, len(c.options))
	left := 0
	for _, o := range c.options {
		if o.rare && !all {
			left++
			continue
		}
		rows = append(rows, [2]string{o.heading(), o.meaning()})
	}
	columns(&b, "options", rows)
	if left > 0 {
		fmt.Fprintf(&b, "  (%s: pipefs %s --%s)\n", plural(left, "more", "more"), c.name, helpAll)
	}
	words(&b, c.words)
	return b.String()
}

// heading is how an option is written: -o, --o OPTION,…
func (o *option) heading() string {
	h := "--" + o.name
	if o.short != "" {
		h = "-" + o.short + ", " + h
	}
	if o.arg != "" {
		h += " " + o.arg
	}
	return h
}

// meaning is what an option does, and its default.
func (o *option) meaning() string {
	if o.def == "" {
		return o.help
	}
	return o.help + " (default " + o.def + ")"
}

func examples(b *strings.Builder, list []example) {
	b.WriteString("\nexamples:\n")
	for _, e := range list {
		fmt.Fprintf(b, "  %s\n      %s\n", e.line, wrap(e.does, 6))
	}
}

func words(b *strings.Builder, wanted []string) {
	var rows [][2]string
	for _, g := range glossary {
		for _, w := range wanted {
			if w == g.word {
				rows = append(rows, [2]string{g.word, g.meaning})
			}
		}
	}
	columns(b, "words", rows)
}

// appAbout says what the program is for, and appExamples how it is used.
const appAbout = "pipefs mounts an image dataset as a directory of views: the same images, coarser, smaller, or already decoded, under the paths that your loader knows."

var appExamples = []example{
	{"pipefs mount ~/imagenet ~/m", "mount a dataset that nobody prepared; then train from ~/m/scan5/train or ~/m/resize256-bmp/train instead of ~/imagenet/train"},
	{"pipefs convert --view resize256-jpeg90 in.jpg out.jpg", "see what a view does to one file"},
	{"pipefs umount ~/m", "unmount"},
}

// appHelp is what `pipefs --help` prints.
func appHelp(commands []*command) string {
	var b strings.Builder
	b.WriteString(wrap(appAbout, 0) + "\n\n" +
		"usage: pipefs COMMAND [arguments] [options]\n" +
		"       pipefs DATASET MNT [-o option,…]         (mounts, for /etc/fstab)\n")
	var rows [][2]string
	for _, c := range commands {
		rows = append(rows, [2]string{c.name + " " + c.args, c.brief})
	}
	columns(&b, "commands", rows)
	examples(&b, appExamples)
	var all []string
	for _, g := range glossary {
		all = append(all, g.word)
	}
	words(&b, all)
	b.WriteString("\npipefs COMMAND --help tells more, and --help-all has all options. Exit codes\n" +
		"are those of mount(8): 0; 1 usage or permission; 2 system; 4 internal\n" +
		"error; 8 interrupted; 32 mount failure.\n")
	return b.String()
}
