package mountd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/store"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
	"github.com/pipefs/pipefs/transcode/jpeg"
	"github.com/pipefs/pipefs/transcode/l3"
)

// Registry knows all formats and steps, and makes files as those of a store are made;
// nil is no store. The backend decodes L3 files; nil is the processor.
func Registry(l transcode.Limits, s *store.Store, backend l3.Backend) *transcode.Registry {
	var o codecs.Options
	if s != nil {
		o = codecs.OptionsOf(s.Stats().Bytes)
	}
	o.Backend = backend
	return codecs.New(l, o)
}

// ScanView is the view of so many scans.
func ScanView(scans int) string { return fmt.Sprintf("scan%d", scans) }

// LoaderViews suit most trainings: resized pixels, all pixels, and random crops.
var LoaderViews = []string{"resize256-bmp", "bmp-own", "rrc224-hflip-npy"}

// usualScans are the fidelities whose views a mount lists, if there are more.
var usualScans = []int{2, 5, MaxFidelity}

// UsualViews are those that a mount lists and that this build can make, LoaderViews first.
func UsualViews(r *transcode.Registry) []string {
	wanted := append(slices.Clone(LoaderViews), transcode.Original)
	there := levels(r)
	for _, k := range there {
		if slices.Contains(usualScans, k) || len(there) <= len(usualScans) {
			wanted = append(wanted, ScanView(k))
		}
	}
	var usual []string
	for _, spec := range append(wanted, "bmp", "ppm", "npy", "png", "l3") {
		if _, err := r.ParseRandom(spec); err == nil {
			usual = append(usual, spec)
		}
	}
	return usual
}

// Unique leaves out what is there already.
func Unique(list []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// levels are the fidelities that a registry tells apart.
func levels(r *transcode.Registry) []int {
	var cuts jpeg.Cuts
	for _, k := range r.Kinds() {
		if c, ok := jpeg.CutsOf(transcode.SplitKey(k)); ok {
			cuts = c
		}
	}
	return cuts.Levels()
}

// readmeViews are the views that README.txt names, and what they are.
var readmeViews = []struct{ view, is string }{
	{LoaderViews[0], "pixels, the shorter side scaled to 256"},
	{LoaderViews[1], "all pixels; files keep the names of the dataset"},
	{LoaderViews[2], "random crops of 224 pixels; every open draws again"},
	{transcode.Original, "the dataset, byte for byte"},
}

// readme is what the mount shows as README.txt.
func (m *Mount) readme() ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "pipefs shows %s here. Each directory is a view: the same images, prepared in one way.\nTraining loaders often read:\n", m.config.Source)
	for _, v := range readmeViews {
		if slices.Contains(m.listed, v.view) {
			fmt.Fprintf(&b, "  %-16s  %s\n", v.view, v.is)
		}
	}
	b.WriteString(`A view is named by its steps, joined by hyphens: resize256-crop224-png.
Every valid name can be opened, also if it is not listed here.
  pipefs views DATASET          shows what each view changes
  pipefs views --steps          lists the steps
  pipefs explain MNT/VIEW/FILE  tells how one file was made
`)
	return []byte(b.String()), nil
}
