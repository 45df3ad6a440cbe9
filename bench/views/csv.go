package views

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/pipefs/pipefs/bench/stats"
)

// CSV writes a line for each row, below a line that names the columns with their units.
// Rates have a median and the bounds of its interval. Cells of what was not measured are
// empty.
func CSV(w io.Writer, r *Report) error {
	header, _ := (&Row{}).csv()
	lines := [][]string{header}
	for i := range r.Rows {
		_, cells := r.Rows[i].csv()
		lines = append(lines, cells)
	}
	if err := csv.NewWriter(w).WriteAll(lines); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

// csv is the columns' names, and the row's cells.
func (r *Row) csv() (names, cells []string) {
	text := func(name, value string) { names, cells = append(names, name), append(cells, value) }
	number := func(name string, v float64, known bool) {
		if !known || math.IsNaN(v) || math.IsInf(v, 0) {
			text(name, "")
			return
		}
		text(name, strconv.FormatFloat(v, 'g', 6, 64))
	}
	// of is a value that is 0 only where it was not measured
	of := func(name string, v float64) { number(name, v, v != 0) }
	measured := len(r.Lasting()) > 0
	size := func(name string, n int64) {
		if !measured {
			text(name, "")
			return
		}
		text(name, strconv.FormatInt(n, 10))
	}
	rate := func(name string, rates []float64) {
		i := stats.Bootstrap(rates)
		number(name+"_median_samples_per_s", i.Median, len(rates) > 0)
		number(name+"_low_samples_per_s", i.Low, len(rates) > 0)
		number(name+"_high_samples_per_s", i.High, len(rates) > 0)
	}
	text("view", r.View)
	text("control", strconv.FormatBool(r.Control))
	text("path", r.Path)
	text("same_pixels", strconv.FormatBool(r.Same))
	of("ms_ssim", r.MSSSIM)
	text("fits", strconv.FormatBool(r.Fits))
	text("rounds", strconv.Itoa(len(r.Lasting())))
	rate("first", r.First)
	rate("cold", r.Cold)
	rate("cached", r.Cached)
	rate("lasting", r.Lasting())
	rate("raw", r.Raw)
	size("file_bytes_per_sample", r.FileBytes)
	size("disk_bytes_per_sample", r.DiskBytes)
	size("stored_bytes_per_sample", r.StoredBytes)
	number("client_cold_cpu_s_per_sample", r.ClientCold, measured)
	number("daemon_first_cpu_s_per_sample", r.DaemonFirst, measured)
	number("daemon_cold_cpu_s_per_sample", r.DaemonCold, measured)
	number("client_cached_cpu_s_per_sample", r.ClientCached, measured)
	number("daemon_cached_cpu_s_per_sample", r.DaemonCached, measured)
	of("p50_s", r.P50)
	of("p99_s", r.P99)
	of("resident_bytes", float64(r.Resident))
	of("slab_bytes_per_file", float64(r.Slab))
	of("utilisation", r.Utilisation)
	of("wait99_s", r.Wait99)
	a := r.Analysis
	of("ingest_samples_per_s", a.Ingest)
	of("prep_samples_per_s", a.Prep)
	of("fetch_samples_per_s", a.Fetch)
	analysed := a.Computing+a.PrepStall+a.FetchStall != 0
	number("computing_share", a.Computing, analysed)
	number("prep_stall_share", a.PrepStall, analysed)
	number("fetch_stall_share", a.FetchStall, analysed)
	text("bottleneck", r.Bottleneck)
	of("busy_share", r.Busy)
	of("others_share", r.Others)
	text("doubt", r.Doubt)
	text("error", r.Error)
	return names, cells
}
