package survey

import (
	"context"
	"slices"
	"strings"

	"github.com/pipefs/pipefs/internal/annotation"
	"github.com/pipefs/pipefs/internal/serve"
	"github.com/pipefs/pipefs/transcode"
)

// Annotation files say where things are in pictures. They are shown as they are in
// every view, so that what they say is not true of pictures that were scaled or cut.

// Boxes are annotation files, by what their coordinates count.
type Boxes struct {
	Pixels   []string `json:"pixels,omitempty"`   // of the source
	Relative []string `json:"relative,omitempty"` // to its sides, from 0 to 1
}

// findBoxes finds out which of the files have boxes.
func findBoxes(ctx context.Context, server *serve.Server, files []string) (b Boxes) {
	for _, name := range slices.Sorted(slices.Values(files)) {
		switch server.Annotation(ctx, name) {
		case annotation.Pixels:
			b.Pixels = append(b.Pixels, name)
		case annotation.Relative:
			b.Relative = append(b.Relative, name)
		}
	}
	return b
}

// drawsBoxes reports whether a random view refuses directories because of boxes.
func (t *Tally) drawsBoxes(v *viewTally) bool {
	return slices.ContainsFunc(t.Refused, func(r *serve.Refusal) bool { return r.Beside != "" && r.View == v.Pipeline.String() })
}

// noteBoxes tells in which views boxes are not where their files say.
func (t *Tally) noteBoxes(note func(format string, args ...any)) {
	tell := func(files []string, what string, wrong ...transcode.Effect) {
		var views []string
		for _, v := range t.views {
			if t.drawsBoxes(v) {
				continue // that is said of the directories that it refuses
			}
			if moves(v.Pipeline, wrong...) {
				views = append(views, v.View)
			}
		}
		if len(files) > 0 && len(views) > 0 {
			note("boxes in %s %s: they are wrong in %s, unless the loader adapts them", files[0], what, strings.Join(views, ", "))
		}
	}
	tell(t.Boxes.Pixels, "count pixels of the source", transcode.Resampling, transcode.Geometric)
	tell(t.Boxes.Relative, "are relative to the whole picture", transcode.Geometric) // cut or turned
}
