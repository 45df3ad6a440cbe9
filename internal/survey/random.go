package survey

import (
	"slices"
	"strings"

	"github.com/pipefs/pipefs/transcode"
)

// trainingLines are what torchvision calls steps that draw.
var trainingLines = map[string]string{
	"rrc": "RandomResizedCrop", "randcrop": "RandomCrop", "hflip": "RandomHorizontalFlip",
	"trivialaugment": "TrivialAugmentWide", "randaug": "RandAugment", "autoaugment": "AutoAugment", "colorjitter": "ColorJitter",
	"randgrey": "RandomGrayscale", "blur": "GaussianBlur", "solarize": "RandomSolarize", "erase": "RandomErasing",
}

// replaced are the lines of a training that a random view takes over.
func replaced(p transcode.Pipeline) string {
	var lines []string
	for _, s := range p.Steps() {
		if line := trainingLines[s.Kind.Name]; line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " and ")
}

// noteRandom says how random views are read, and what a training leaves out then.
func (t *Tally) noteRandom(note func(format string, args ...any)) {
	i := slices.IndexFunc(t.views, func(v *viewTally) bool { return v.Validation != "" })
	if i < 0 {
		return
	}
	v := t.views[i]
	spec := v.Pipeline.String()
	note("%s draws at random: it is read at MNT/%s/SEED/EPOCH/%[1]s, in Python by pipefs.RandomView. Take %[3]s out of the training, and read %[4]s for validation", spec, transcode.DrawDir, replaced(v.Pipeline), v.Validation)
}
