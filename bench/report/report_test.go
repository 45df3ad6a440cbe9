package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/bench/views"
	"github.com/pipefs/pipefs/internal/testenv"
)

// full is a report with everything in it.
func full() *views.Report {
	rates := func(v float64) []float64 { return []float64{0.9 * v, v, 1.1 * v} }
	row := func(view string, same bool, likeness, rate float64, bytes int64) views.Row {
		return views.Row{View: view, Path: view, Same: same, MSSSIM: likeness, First: rates(rate / 2), Cold: rates(rate), Cached: rates(2 * rate),
			FileBytes: bytes, DiskBytes: bytes, StoredBytes: bytes, ClientCold: 0.002, DaemonCold: 0.001, P50: 0.0043, P99: 0.021,
			Utilisation: 0.5, Analysis: views.Analysis{Computing: 0.5, PrepStall: 0.2, FetchStall: 0.3}, Bottleneck: "the disk"}
	}
	plain := row("plain tree", true, 0, 400, 113_400)
	plain.Control, plain.StoredBytes = true, 0
	return &views.Report{
		Version: "1.2.3", Time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Source: "/data/birds", Samples: 12345, Read: 2000, Loader: "built in",
		Compute: "0.224s/400", Limits: []string{"The disk reads at most 50 MB/s."}, Rounds: 3,
		Machine: views.Machine{CPU: "a processor", Cores: 2, Memory: 8_300_000_000},
		Rows: []views.Row{plain, row("ppm", true, 0, 920, 562_500), row("scan1", false, 0.73, 1200, 6_900), row("scan5", false, 0.971, 800, 46_200),
			row("scan10", true, 0, 340, 104_000), {View: "l3", Error: "no space left"}},
		Advice: views.Advice{Same: 1, Lossy: 3, Base: 0, Lines: []string{"Same pixels: point your loader at MNT/ppm: 2.30× your present tree.", "Other pixels: MNT/scan5: 2.00×."}},
	}
}

func write(t *testing.T, r *views.Report) string {
	t.Helper()
	var b bytes.Buffer
	testenv.Must(t, OfViews(r).HTML(&b))
	balanced(t, b.String())
	return b.String()
}

var (
	void  = regexp.MustCompile(`<(meta|!doctype)[^>]*>`)
	style = regexp.MustCompile(`(?s)<style>.*</style>`)
)

// balanced reads a page as XML, which is stricter than HTML: every element is closed,
// and every & and < is what it says. It needs nothing from elsewhere.
func balanced(t *testing.T, page string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(style.ReplaceAllString(void.ReplaceAllString(page, ""), "")))
	d.Entity = xml.HTMLEntity
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		switch e.Name.Local {
		case "script", "link", "img", "image", "iframe", "use", "a", "foreignObject":
			t.Errorf("there is a %s", e.Name.Local)
		}
		for _, a := range e.Attr {
			if name := strings.ToLower(a.Name.Local); name == "src" || name == "href" || strings.HasPrefix(name, "on") {
				t.Errorf("%s has %s=%q", e.Name.Local, name, a.Value)
			}
		}
	}
	if strings.Contains(page, "url(") || strings.Contains(page, "@import") {
		t.Error("the style sheet loads something")
	}
}

func TestWrite(t *testing.T) {
	page := write(t, full())
	for _, want := range []string{
		`<p class="about">Same pixels</p>`, "<h1>Point your loader at MNT/ppm: 2.30× your present tree.</h1>", "MNT/scan5: 2.00×.",
		"/data/birds, 12,345 samples, 2,000 of them read in an epoch", "8.30 GB of memory", "The disk reads at most 50 MB/s.",
		"<td>2.30<small>2.30–2.30</small></td>", // gain of ppm
		"562 kB", "4.30<small>21.0</small>", "MS-SSIM 0.971", "no space left", "no figures", "<dt>Lasting</dt>", "<dt>Stalls</dt>", "<dt>From the disk</dt>", "From memory</th>", "Accelerator busy",
		"Rates of all views", "Stalls", "Processor time",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if n := strings.Count(page, "<table>"); n == 0 || n != strings.Count(page, `<div class="scroll" tabindex="0">
<table>`) {
		t.Errorf("not all of %d tables scroll on a narrow screen", n)
	}
	if !strings.Contains(page, "<b>920</b>") || strings.Contains(page, "<b>1,840</b>") {
		t.Error("not the cold rate of a view that does not fit is set in bold")
	}
	r := full()
	r.Rows[1].Fits = true
	if !strings.Contains(write(t, r), "<b>1,840</b>") {
		t.Error("the cached rate of a view that fits is not set in bold")
	}
	r.Rows[2].Doubt, r.Rows[3].Doubt = "others were busy", "others were busy"
	if !strings.Contains(write(t, r), "Too noisy to tell whether faster: scan1, scan5: others were busy.") {
		t.Error("the page does not say which figures are noise")
	}
	r.Compute = ""
	if strings.Contains(write(t, r), "prep stall") {
		t.Error("stalls without an accelerator")
	}
}

func TestHostile(t *testing.T) {
	const bad = "x</text></svg><script>alert(1)</script>\" onload=\"y\u202e\x00\xff\x1b[31m&lt;\n#1f2328'"
	r := full()
	for i := range r.Rows {
		r.Rows[i].View, r.Rows[i].Path, r.Rows[i].Bottleneck, r.Rows[i].Doubt = bad, bad, bad, bad
	}
	r.Rows[5].Error, r.Source, r.Loader, r.Machine.Disk, r.Limits, r.Version, r.Compute = bad, bad, bad, bad, []string{bad}, bad, bad
	r.Advice.Lines = []string{bad, bad + ": " + bad}
	page := write(t, r)
	if strings.Contains(page, "<script") || strings.ContainsAny(page, "\u202e\x00\x1b") {
		t.Error("a name came through as it is")
	}
}

func TestLittleMeasured(t *testing.T) {
	unsure := views.Advice{Same: -1, Lossy: -1, Base: -1}
	failed := views.Row{View: "ppm", Error: "no space left on device"}
	for want, r := range map[string]*views.Report{
		"What was measured of here":                     {Source: "here", Advice: unsure},
		"Interrupted before anything was measured":      {Interrupted: true, Advice: unsure, Rows: []views.Row{{View: "ppm"}}},
		"No view could be measured":                     {Advice: unsure, Rows: []views.Row{failed, failed}},
		"No advice follows from these figures":          {Advice: unsure, Rows: []views.Row{{View: "ppm", Cold: []float64{5}}}},
		"What there is was measured before the run was": {Interrupted: true, Advice: unsure, Rows: []views.Row{{View: "ppm", Cold: []float64{5, 6}}, failed}},
	} {
		page := write(t, r)
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
		for _, row := range r.Rows {
			if !strings.Contains(page, row.Error) {
				t.Errorf("%s: the page does not have %q", want, row.Error)
			}
		}
		if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
			t.Errorf("%s: there is something that is no number", want)
		}
	}
	// what a broken measurement may hold
	r := full()
	r.Rows[1].Cold[1], r.Rows[2].Cold = math.Inf(1), []float64{0, math.NaN(), 0}
	if page := write(t, r); strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
		t.Error("there is something that is no number")
	}
}

func TestNumbers(t *testing.T) {
	for got, want := range map[string]string{
		Number(0): "0", Number(12345): "12,300", Number(999.7): "1,000", Number(0.012345): "0.0123", Number(3.14159): "3.14", Number(-56.78): "-56.8",
		Number(math.NaN()): none, Milliseconds(0.0043): "4.30",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestText: the answer comes first, and tables fit on a terminal.
func TestText(t *testing.T) {
	r := full()
	r.Rows[0].View = "plain files, resize256-crop224"
	r.Rows[1].View = "resize256-center-jpeg90-own"
	var b strings.Builder
	OfViews(r).Text(&b)
	text := b.String()
	if !strings.HasPrefix(text, "Same pixels: point your loader at MNT/ppm: 2.30× your present tree.\nOther pixels: ") {
		t.Errorf("the answer is not first: %.200s", text)
	}
	for _, want := range []string{"Source: /data/birds, 12,345 samples, 2,000 of them read in an epoch", "Limit: The disk reads", "l3: no space left", "no figures", "MS-SSIM 0.971", "prep stall", "From the disk: "} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	starred := 0
	for line := range strings.Lines(text) {
		if strings.Contains(line, "│") && len([]rune(strings.TrimSuffix(line, "\n"))) > textWidth {
			t.Errorf("too wide: %s", line)
		}
		starred += strings.Count(line, " *")
	}
	if starred != 2 {
		t.Errorf("%d figures are marked in\n%s", starred, text)
	}
}
