package views

import (
	"fmt"
	"strings"

	"github.com/pipefs/pipefs/bench/mssim"
	"github.com/pipefs/pipefs/transcode"
)

// mostUncounted is the share of the processors from which on a row's processor time is
// not known.
const mostUncounted = 0.1

// advise says which views to use. mnt is where they are mounted, or empty. again says
// with which options the next run tells more.
func (r *Report) advise(mnt, again string) {
	if r.Pipeline != "" {
		r.adviseSplit(again)
		return
	}
	if mnt == "" {
		mnt = "MNT"
	}
	rate := func(i int) float64 { return Median(r.Rows[i].Lasting()) }
	a := &r.Advice
	pick := func(current, i int) int {
		if current < 0 || rate(i) > rate(current) {
			return i
		}
		return current
	}
	safe := false // the lossy one is at the paper's mark
	for i := range r.Rows {
		row := &r.Rows[i]
		switch {
		case len(row.Lasting()) == 0 || row.Error != "":
		case row.Control && row.View == plainName, a.Base < 0 && row.View == transcode.Original:
			a.Base = i
		}
		switch {
		case len(row.Lasting()) == 0 || row.Error != "" || row.Control || row.Ready:
		case row.Same:
			a.Same = pick(a.Same, i)
		case row.MSSSIM == 0:
		case row.MSSSIM >= mssim.Safe && !safe:
			a.Lossy, safe = i, true
		case row.MSSSIM >= mssim.Safe || !safe:
			a.Lossy = pick(a.Lossy, i)
		}
	}
	r.doubt()
	if a.Same >= 0 {
		if why := r.doubtSame(); why != "" {
			a.Same = -1
			a.Lines = append(a.Lines, noisy("Same pixels", why, again))
		} else {
			a.Lines = append(a.Lines, r.same(mnt))
		}
	}
	if a.Lossy >= 0 {
		if why := r.Rows[a.Lossy].Doubt; why != "" {
			a.Lossy = -1
			a.Lines = append(a.Lines, noisy("Other pixels", why, again))
		} else {
			a.Lines = append(a.Lines, r.lossy(mnt))
		}
	}
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Ready && row.Error == "" && len(row.Lasting()) > 0 {
			if row.Doubt != "" {
				a.Lines = append(a.Lines, noisy(r.about(row), row.Doubt, again))
			} else {
				a.Lines = append(a.Lines, r.ready(mnt, row))
			}
		}
	}
}

// noisy says that nothing can be said, and what to do.
func noisy(about, why, again string) string {
	return about + ": too noisy to tell: " + why + "; run again " + again + ", or when the machine is quiet."
}

// about begins what is said of a view whose pictures a training takes as they are.
func (r *Report) about(row *Row) string {
	if row.Random {
		return "If three lines of the training may change"
	}
	return "For validation"
}

// ready advises on a view whose pictures a training takes as they are.
func (r *Report) ready(mnt string, row *Row) string {
	s := fmt.Sprintf("%s: %s/%s", r.about(row), mnt, row.View)
	if row.Random {
		s = fmt.Sprintf("%s: %s by pipefs.RandomView", r.about(row), row.View)
	}
	base := r.baseOf(row)
	if base < 0 {
		return s + fmt.Sprintf(": %.0f samples/s%s.", Median(row.Lasting()), row.when())
	}
	than := "your present tree with the same transforms"
	if gain := r.Gain(row); !r.worthwhile(row) {
		return s + fmt.Sprintf(" is no faster here: %s %s%s.", times(gain), than, row.when())
	}
	return s + fmt.Sprintf(" is %s %s%s, %s.", times(r.Gain(row)), than, row.when(), r.space(row))
}

// baseOf is the row that the gain of another one is relative to: the tree as it is, with
// the same work; -1 where there is none.
func (r *Report) baseOf(row *Row) int {
	base := r.Advice.Base
	if base >= 0 && base < len(r.Rows) && r.Rows[base].Work == row.Work {
		return base
	}
	for i := range r.Rows {
		if other := &r.Rows[i]; other.Control && strings.HasPrefix(other.View, plainName) && other.Work == row.Work && len(other.Lasting()) > 0 {
			return i
		}
	}
	return -1
}

// turns is what is known of the lasting epochs of a row.
func (r *Report) turns(i int) Turns {
	row := &r.Rows[i]
	t := Turns{Rates: row.Lasting(), Seconds: row.Seconds, Samples: r.Read, Busy: row.Busy, Others: row.Others}
	if row.uncounted < mostUncounted {
		client, daemon := row.CPU()
		t.CPU = client + daemon
	}
	return t
}

// doubt finds out which rows can be compared with the base.
func (r *Report) doubt() {
	for i := range r.Rows {
		row := &r.Rows[i]
		switch base := r.baseOf(row); {
		case len(row.Lasting()) == 0 || i == base:
		case base < 0:
			row.Doubt = DoubtAlone(r.turns(i))
		default:
			row.Doubt = Doubt(r.turns(i), r.turns(base))
		}
	}
}

// doubtSame says why no view with the same pixels can be chosen, or is empty. The advice
// to change nothing needs certainty about all of them.
func (r *Report) doubtSame() string {
	best := &r.Rows[r.Advice.Same]
	if best.Doubt != "" || r.Advice.Base < 0 || best.View != transcode.Original && r.worthwhile(best) {
		return best.Doubt
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Same && !row.Control && row.Error == "" && row.Doubt != "" && MayGain(r.turns(i), r.turns(r.Advice.Base)) {
			return row.Doubt
		}
	}
	return ""
}

// worthwhile: the row is faster than the base, surely and by enough.
func (r *Report) worthwhile(row *Row) bool {
	return Worthwhile(r.Gain(row))
}

// same advises on a view with the same pixels.
func (r *Report) same(mnt string) string {
	a, row := r.Advice, &r.Rows[r.Advice.Same]
	gain := r.Gain(row)
	switch {
	case a.Base < 0:
		return fmt.Sprintf("Same pixels: point your loader at %s/%s, the fastest: %.0f samples/s%s.", mnt, row.View, Median(row.Lasting()), row.when())
	case row.View == transcode.Original || gain.Median <= 1:
		return "Same pixels: stay with your present tree; nothing is faster."
	case !r.worthwhile(row):
		return fmt.Sprintf("Same pixels: stay with your present tree; %s/%s is %s as fast, and that is not worth a change.", mnt, row.View, times(gain))
	}
	return fmt.Sprintf("Same pixels: point your loader at %s/%s: %s your present tree%s, %s.", mnt, row.View, times(gain), row.when(), r.space(row))
}

// lossy advises on a view with other pixels.
func (r *Report) lossy(mnt string) string {
	a, row := r.Advice, &r.Rows[r.Advice.Lossy]
	s := fmt.Sprintf("Other pixels: %s/%s, MS-SSIM %.3f", mnt, row.View, row.MSSSIM)
	if row.MSSSIM < mssim.Safe {
		s += fmt.Sprintf(" (under the PCR paper's mark of %.2f)", mssim.Safe)
	}
	gain := r.Gain(row)
	switch {
	case a.Base < 0:
		return s + fmt.Sprintf(": %.0f samples/s%s.", Median(row.Lasting()), row.when())
	case !r.worthwhile(row):
		return s + fmt.Sprintf(", is no faster here: %s your present tree%s.", times(gain), row.when())
	}
	return s + fmt.Sprintf(": %s your present tree%s, %s.", times(gain), row.when(), r.space(row))
}

// times writes a ratio, with its interval if there is one.
func times(i Interval) string {
	if i.Low == i.High {
		return fmt.Sprintf("%.2f×", i.Median)
	}
	return fmt.Sprintf("%.2f× (%.2f–%.2f)", i.Median, i.Low, i.High)
}

// Gain is a row's lasting rate over that of the tree as it is, with the same work, round by
// round; 0 where one of them is not known.
func (r *Report) Gain(row *Row) Interval {
	base := r.baseOf(row)
	if base < 0 {
		return Interval{}
	}
	return Paired(row.Lasting(), r.Rows[base].Lasting())
}

// space says what a view takes on the disk.
func (r *Report) space(row *Row) string {
	base := r.Rows[r.baseOf(row)].FileBytes
	switch {
	case row.StoredBytes > 0 && base > 0:
	case r.Prepared:
		return "which the store has already"
	default:
		return "no more disk space"
	}
	return fmt.Sprintf("%.1f× its disk space", float64(base+row.StoredBytes)/float64(base))
}

// when says of which epochs the lasting rate is.
func (r *Row) when() string {
	if r.cachedLast() {
		return " from the second epoch on"
	}
	return ""
}

// String is the advice as it is printed.
func (a Advice) String() string { return strings.Join(a.Lines, "\n") }
