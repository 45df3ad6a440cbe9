package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
)

// TestRegistry: every table and figure of the four papers has an entry, with either
// an experiment or a reason, and only one.
func TestRegistry(t *testing.T) {
	for paper, last := range map[string]map[string]int{
		"pcr":    {"Table": 3, "Figure": 16},
		"liquid": {"Table": 2, "Figure": 7},
		"l3":     {"Table": 4, "Figure": 10},
		"presto": {"Table": 5, "Figure": 14},
	} {
		for kind, n := range last {
			for number := 1; number <= n; number++ {
				part, met := fmt.Sprint(kind, " ", number), 0
				for _, i := range items() {
					if i.paper == paper && slices.Contains(i.parts, part) {
						met++
					}
				}
				if met != 1 {
					t.Errorf("%s, %s: %d entries", paper, part, met)
				}
			}
		}
	}
	names := map[string]bool{}
	for _, i := range items() {
		what := i.paper + " " + i.part()
		if nameOf(i.paper) == i.paper {
			t.Errorf("%s: there is no such paper", what)
		}
		if (i.run == nil) != (i.reason != "") {
			t.Errorf("%s: needs either an experiment or a reason", what)
		}
		if i.run == nil {
			continue
		}
		if i.says == "" || i.differs == "" || i.seconds == 0 || names[i.name] || !strings.HasPrefix(i.name, i.paper+"-") {
			t.Errorf("%s: says %q, differs %q, seconds %v, name %q", what, i.says, i.differs, i.seconds, i.name)
		}
		names[i.name] = true
	}
	// Those that were promised to be run, not explained away.
	for _, name := range []string{
		"pcr-table1", "pcr-table2", "pcr-figure5", "pcr-figure6", "pcr-figure8", "pcr-figure12", "pcr-figure14", "pcr-figure15", "pcr-figure16", "pcr-encode",
		"liquid-figure2", "liquid-figure3", "liquid-figure6", "liquid-figure7", "l3-table1", "l3-table4", "l3-figure7", "l3-figure8",
		"presto-table1", "presto-table4", "presto-table5", "presto-figure6", "presto-figure8", "presto-figure10", "presto-figure12", "presto-figure14",
	} {
		if !names[name] {
			t.Errorf("%s has no experiment", name)
		}
	}
	total := 0.0
	for _, i := range items() {
		total += i.seconds
	}
	const minutes = 30
	if total > minutes*60 {
		t.Errorf("all of it is estimated at %.0f s, more than %d minutes", total, minutes)
	}
	for _, name := range []string{"Makefile", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(filepath.Join("../../..", name))
		testenv.Must(t, err)
		if want := fmt.Sprintf("root, %d minutes", minutes); !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %q of make reproduce", name, want)
		}
	}
}

func TestPart(t *testing.T) {
	for want, parts := range map[string][]string{
		"Table 1": {"Table 1"}, "Figures 12, 13": {"Figure 12", "Figure 13"}, "Table 2, Figure 3": {"Table 2", "Figure 3"},
	} {
		if got := (&item{parts: parts}).part(); got != want {
			t.Errorf("%v: %q, want %q", parts, got, want)
		}
	}
}

// cells are those of the rows of all tables in a Markdown file. What is escaped is no
// border.
func cells(markdown string) (rows [][]string) {
	for line := range strings.Lines(strings.ReplaceAll(markdown, `\|`, `\`)) {
		if line, ok := strings.CutPrefix(strings.TrimSpace(line), "|"); ok {
			row := strings.Split(strings.TrimSuffix(line, "|"), "|")
			for i := range row {
				row[i] = strings.TrimSpace(row[i])
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// TestMarkdown: what was measured, what failed, what was not run and what cannot be
// run all stand in the report; every table is one.
func TestMarkdown(t *testing.T) {
	r := &result{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Seconds: 12.3, Scale: 0.5, Version: "pipefs 1", Ours: "it is half.", Setup: "two pictures",
		Tables:  []table{{Head: []string{"", "scan 1"}, Rows: [][]string{{"ImageNet (paper)", "16×"}, {"**ours**", "8.0×"}}}},
		Figures: []figure{{File: "pcr-figure5", Title: "Rates", X: "MB/s", Y: "images/s", Lines: []line{{"a", []float64{1, 2}, []float64{3, 4}}}}},
		Notes:   []string{"A note."}, Again: "Run again on 2026-02-03 it failed: no disk",
	}
	k := &kept{Results: map[string]*result{"pcr-table1": r, "pcr-figure5": {Error: "no cgroup |\nhere", Time: r.Time, Scale: 1}}}
	got := markdown(k, "reproduction")
	for _, want := range []string{
		"![Rates](reproduction/pcr-figure5.svg)", "- A note.\n- Differs: other pictures.\n- `pcr-table1`: two pictures; 2026-01-02, 12 s, at a scale of 0.5, pipefs 1\n", "\nNot reproduced: Figure 1 (accelerators), Figures 2, 3, 4 (drawings)",
		"Run again on 2026-02-03 it failed: no disk",
		"Not run yet.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	all := cells(got)
	for _, want := range [][]string{
		{"Table 1", "Scan 5 takes about half of the bytes, scan 1 a sixteenth (ImageNet).", "It is half."},
		{"", "scan 1"}, {"ImageNet (paper)", "16×"}, {"**ours**", "8.0×"},
	} {
		if !slices.ContainsFunc(all, func(row []string) bool { return slices.Equal(row, want) }) {
			t.Errorf("no row %q", want)
		}
	}
	outcomes := map[string]bool{}
	for i, row := range all {
		outcomes[row[len(row)-1]] = true
		// All rows of a table have as many cells as its head, which a row of dashes follows.
		if i > 0 && !strings.HasPrefix(all[min(i+1, len(all)-1)][0], "---") && len(row) != len(all[i-1]) {
			t.Errorf("%d cells in %q, %d in the row before", len(row), row, len(all[i-1]))
		}
	}
	if !outcomes[`Failed: no cgroup \ here`] || !outcomes["Not run yet."] {
		t.Errorf("outcomes %v", outcomes)
	}
	for _, p := range papers {
		if strings.Count(got, "\n## "+p.name+"\n") != 1 {
			t.Errorf("%s has no section", p.name)
		}
	}
}

// TestReproduce runs a quick experiment, and one that cannot succeed.
func TestReproduce(t *testing.T) {
	testenv.Slow(t)
	dir := t.TempDir()
	s := settings{program: "/bin/echo", out: filepath.Join(dir, "out"), doc: filepath.Join(dir, "docs", "report.md"), scale: 0.02}
	s.only = "pcr-figure16,pcr-table1,pcr-figure8"
	err := s.reproduce(context.Background())
	if err == nil || !strings.Contains(err.Error(), "1 of 3 experiments failed: pcr-figure16") {
		t.Fatalf("an experiment without what it is made of: %v", err)
	}
	k, err := readKept(s.out)
	testenv.Must(t, err)
	r := k.Results["pcr-table1"]
	if r == nil || r.Error != "" || len(r.Tables) != 1 {
		t.Fatalf("pcr-table1: %+v", r)
	}
	if v := r.Values; !(100 < v["scan1"] && v["scan1"] < v["scan2"] && v["scan2"] < v["scan5"] && v["scan5"] < v["scan10"]) {
		t.Errorf("bytes of the scans: %v", v)
	}
	if e := k.Results["pcr-figure16"]; e == nil || !strings.Contains(e.Error, "run these first") {
		t.Errorf("pcr-figure16: %+v", e)
	}
	left, err := filepath.Glob(filepath.Join(s.out, "work-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	// Again, without measuring: the same report.
	before, err := os.ReadFile(s.doc)
	testenv.Must(t, err)
	s.again = true
	testenv.Must(t, s.reproduce(context.Background()))
	after, err := os.ReadFile(s.doc)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("-again wrote another report: %v", err)
	}
	if !slices.ContainsFunc(cells(string(after)), func(row []string) bool { return row[0] == "**ours**" && len(row) == 6 }) {
		t.Error("the report has no row of ours")
	}
	s.only = "pcr-nothing"
	if err := s.reproduce(context.Background()); err == nil || !strings.Contains(err.Error(), `"pcr-nothing"`) {
		t.Errorf("an unknown name: %v", err)
	}
}

// TestStopped: what was finished before is in the report, and nothing is left behind.
func TestStopped(t *testing.T) {
	testenv.Slow(t)
	dir := t.TempDir()
	s := settings{program: "/bin/echo", out: filepath.Join(dir, "out"), doc: filepath.Join(dir, "report.md"), scale: 0.02, only: "pcr-table1"}
	testenv.Must(t, s.reproduce(context.Background()))
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	s.only, s.scale = "pcr-table2", 1
	if err := s.reproduce(ctx); err == nil {
		t.Fatal("it was not stopped")
	}
	k, err := readKept(s.out)
	if err != nil || k.Results["pcr-table1"] == nil || k.Results["pcr-table2"] != nil {
		t.Errorf("kept: %v, %v", k, err)
	}
	if left, err := filepath.Glob(filepath.Join(s.out, "work-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if b, err := os.ReadFile(s.doc); err != nil || !bytes.Contains(b, []byte("**ours**")) {
		t.Errorf("the report: %v", err)
	}
}

// TestTFRecords reads what is written, by the definition of the format.
func TestTFRecords(t *testing.T) {
	// The check value of CRC-32C, masked.
	crc := uint32(0xe3069283)
	if got, want := masked([]byte("123456789")), (crc>>15|crc<<17)+0xa282ead8; got != want {
		t.Errorf("masked: %08x, want %08x", got, want)
	}
	dir := t.TempDir()
	var files []string
	for i := range 5 {
		files = append(files, filepath.Join(dir, fmt.Sprint(i)))
		testenv.Must(t, os.WriteFile(files[i], bytes.Repeat([]byte{byte(i)}, 1000*i), 0o644))
	}
	testenv.Must(t, writeTFRecords(context.Background(), filepath.Join(dir, "out"), files, 2))
	shards, err := filepath.Glob(filepath.Join(dir, "out", "*.tfrecord"))
	if err != nil || len(shards) != 3 {
		t.Fatal(shards, err)
	}
	slices.Sort(shards)
	n := 0
	unmask := func(b []byte) uint32 {
		v := binary.LittleEndian.Uint32(b) - 0xa282ead8
		return v>>17 | v<<15
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	for _, s := range shards {
		b, err := os.ReadFile(s)
		testenv.Must(t, err)
		for len(b) > 0 {
			length := int(binary.LittleEndian.Uint64(b))
			data := b[12 : 12+length]
			if unmask(b[8:]) != crc32.Checksum(b[:8], table) || unmask(b[12+length:]) != crc32.Checksum(data, table) {
				t.Fatalf("record %d: a checksum is wrong", n)
			}
			if !bytes.Equal(data, bytes.Repeat([]byte{byte(n)}, 1000*n)) {
				t.Errorf("record %d has other bytes", n)
			}
			b = b[16+length:]
			n++
		}
	}
	if n != len(files) {
		t.Errorf("%d records of %d files", n, len(files))
	}
}
