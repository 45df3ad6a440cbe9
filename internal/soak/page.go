package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const intro = `# Reliability

` + "`make soak`" + ` writes this page. It runs the tests below with random seeds, each for its share of three hours, and adds up all runs in
[reliability.json](generated/reliability.json). ` + "`make soak ONLY=kills SOAK=5`" + ` runs one row for five minutes. A row is *reached* if all runs
together did what the target says, within the limit, and no test failed in the last run of the row. A test that does nothing fails.

| row | what | target | done | worst | last run | result |
|---|---|--:|--:|---|---|---|
`

const outro = `
What the rows do not show:

- Power loss is simulated: a file system in the test keeps only what was synced. No machine was switched off.
- If a table of the index changes on the disk while it is open, an assertion of Badger's may end the daemon. A supervised mount starts another one
  and its readers see no error.
- All runs are on Linux on amd64.
`

// grouped writes a number with commas.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// text is the page.
func text(runs []run) []byte {
	var b strings.Builder
	b.WriteString(intro)
	for _, r := range rows {
		var all done
		last, result := "never", "missed: never run"
		for i := range runs {
			d := runs[i].Rows[r.name]
			if d == nil {
				continue
			}
			if r.latest {
				all = done{}
			}
			all.Done += d.Done
			all.Worst = max(all.Worst, d.Worst)
			last = runs[i].Date.Format("2006-01-02") + " " + runs[i].Commit
			switch {
			case len(d.Failed) > 0:
				result = "missed: " + strings.Join(d.Failed, ", ") + " failed"
			case all.Done < r.target:
				result = "missed: too few yet"
			case r.worst > 0 && all.Worst > r.worst:
				result = "missed: above the limit"
			default:
				result = "reached"
			}
		}
		worst, target := "", grouped(r.target)
		if r.worst > 0 {
			worst = fmt.Sprintf("%.3g %s", all.Worst, r.worstUnit)
			target += fmt.Sprintf(", ≤ %.3g %s", r.worst, r.worstUnit)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", r.name, r.what, target, grouped(all.Done), worst, last, result)
	}
	minutes, failed := 0.0, ""
	var survived map[string]string
	for _, n := range runs {
		minutes += n.Minutes
		if d := n.Rows["mutants"]; d != nil {
			survived = d.Survived
		}
		for _, r := range rows {
			if d := n.Rows[r.name]; d != nil && len(d.Failed) > 0 {
				failed += fmt.Sprintf("- %s, %s: %s\n", n.Date.Format("2006-01-02 15:04"), n.Commit, strings.Join(d.Failed, ", "))
			}
		}
	}
	fmt.Fprintf(&b, "\nAll %d runs took %.0f minutes. Tests that failed in them:\n\n%s", len(runs), minutes, cmp.Or(failed, "- none\n"))
	if len(survived) > 0 {
		b.WriteString("\nMutants that no test noticed in their last run:\n\n")
	}
	for _, mutant := range slices.Sorted(maps.Keys(survived)) {
		fmt.Fprintf(&b, "- %s: %s\n", mutant, cmp.Or(survived[mutant], "not looked at yet"))
	}
	b.WriteString(outro)
	return []byte(b.String())
}
