package mountd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/transcode"
)

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
