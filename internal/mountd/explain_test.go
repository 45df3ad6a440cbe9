package mountd

import (
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// TestExplainSteps tells of each step of a view whether it applies.
func TestExplainSteps(t *testing.T) {
	r := codecs.Default(transcode.Limits{})
	photo := transcode.Info{Format: transcode.JPEG, Mode: transcode.ModeRGB, Width: 60, Height: 40, Scannable: true}
	mask := transcode.Info{Format: transcode.PNG, Mode: transcode.ModeP, Width: 60, Height: 40}
	png := transcode.Info{Format: transcode.PNG, Mode: transcode.ModeRGB, Width: 60, Height: 40}
	for _, c := range []struct {
		view string
		info transcode.Info
		role transcode.Role
		want string
	}{
		{"scan5", photo, transcode.Auto, "scan5"},
		{"resize20-bmp", photo, transcode.Auto, "decode resize20 bmp"},
		{"scan5-bmp", png, transcode.Auto, "!scan5 decode bmp"},
		{"png", png, transcode.Auto, "!png"},
		{"resize20-bmp", mask, transcode.Auto, "decode !resize20 bmp"},
		{"resize20-bmp", mask, transcode.Image, "decode resize20 bmp"},
		{"rrc20-hflip-npy", photo, transcode.Auto, "decode rrc20 hflip npy"},
	} {
		p, err := r.ParseRandom(c.view)
		testenv.Must(t, err)
		plan := r.Plan(p, c.info, c.role)
		var got []string
		for _, s := range explainSteps(p, plan) {
			if (s.LeftOut == "") == (s.Makes == "") {
				t.Errorf("%s: %+v", c.view, s)
			}
			if s.LeftOut != "" {
				s.Step = "!" + s.Step
			}
			got = append(got, s.Step)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s of %v %v: %q, want %q", c.view, c.info.Format, c.info.Mode, got, c.want)
		}
	}
}
