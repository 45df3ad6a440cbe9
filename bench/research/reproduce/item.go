package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// paper is one of the four.
type paper struct {
	key, name, title, venue string
	setup                   string // of many of its experiments, after a space
}

var papers = []paper{
	{"pcr", "PCR", "Progressive Compressed Records: Taking a Byte out of Deep Learning Data", "VLDB 2021", ""},
	{"liquid", "Liquid", "Liquid: Mix-and-Match Multiple Image Formats to Balance DNN Training Pipeline", "APSys 2023", ""},
	{"l3", "L3", "L3: Accelerator-Friendly Lossless Image Format for High-Resolution, High-Throughput DNN Training", "ECCV 2022", ""},
	{"presto", "PRESTO", "Where Is My Training Bottleneck? Hidden Trade-Offs in Deep Learning Preprocessing Pipelines", "SIGMOD 2022", prestoSetup},
}

// item is one table, figure or section of a paper, or several that show the same.
type item struct {
	paper string   // key
	parts []string // "Table 1", "Figure 5"
	title string
	// says is the paper's own result in a sentence.
	says string
	// differs is what is different here.
	differs string
	// reason why there is no experiment, in a few words; empty if there is one.
	reason string
	// name is for -only. The experiment takes about so many seconds at a scale of 1.
	name    string
	seconds float64
	run     experiment
}

type experiment func(ctx context.Context, e *env) (*result, error)

// slowDisk is an experiment that slows the disk down. It fails at once where that is not
// possible.
func slowDisk(run experiment) experiment {
	return func(ctx context.Context, e *env) (*result, error) {
		if e.group == nil {
			return nil, e.limit(1)
		}
		return run(ctx, e)
	}
}

// part is how the parts are called together: "Figures 12, 13".
func (i *item) part() string {
	kind, first, _ := strings.Cut(i.parts[0], " ")
	if len(i.parts) == 1 {
		return i.parts[0]
	}
	numbers := []string{first}
	for _, p := range i.parts[1:] {
		k, number, _ := strings.Cut(p, " ")
		if k != kind {
			return strings.Join(i.parts, ", ")
		}
		numbers = append(numbers, number)
	}
	return kind + "s " + strings.Join(numbers, ", ")
}

// items are all of them, in the order of the papers.
func items() []*item {
	return slices.Concat(pcrItems(), liquidItems(), l3Items(), prestoItems())
}

// table is what stands in the report: cells as they are printed.
type table struct {
	Head []string   `json:"head"`
	Rows [][]string `json:"rows"`
}

func (t *table) add(cells ...string) { t.Rows = append(t.Rows, cells) }

// figure is drawn from what was measured.
type figure struct {
	File  string   `json:"file"` // without directory and extension
	Title string   `json:"title"`
	X     string   `json:"x,omitempty"`
	Y     string   `json:"y"`
	Names []string `json:"names,omitempty"` // of groups of bars; without, it is lines
	Lines []line   `json:"lines"`
}

type line struct {
	Name string    `json:"name"`
	X    []float64 `json:"x,omitempty"`
	Y    []float64 `json:"y"`
}

// result is what an experiment found.
type result struct {
	Time    time.Time `json:"time"`
	Seconds float64   `json:"seconds"` // that it took
	Scale   float64   `json:"scale"`
	Version string    `json:"version"` // of pipefs
	// Ours is the outcome in a sentence.
	Ours    string   `json:"ours"`
	Setup   string   `json:"setup,omitempty"` // what was measured on
	Tables  []table  `json:"tables,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	Figures []figure `json:"figures,omitempty"`
	// Values are figures that other experiments build on.
	Values map[string]float64 `json:"values,omitempty"`
	Error  string             `json:"error,omitempty"`
	// Again is why a later run, which was to replace this result, failed.
	Again string `json:"again,omitempty"`
}

func (r *result) value(name string, v float64) {
	if r.Values == nil {
		r.Values = map[string]float64{}
	}
	r.Values[name] = v
}

// on adds what was measured on.
func (r *result) on(what string) {
	if r.Setup != "" {
		what = r.Setup + "; " + what
	}
	r.Setup = what
}

func (r *result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}
