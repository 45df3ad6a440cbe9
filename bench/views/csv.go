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
	header := []string{"view", "control", "path", "same_pixels", "ms_ssim", "fits", "rounds"}
	for _, rate := range []string{"first", "cold", "cached", "lasting", "raw"} {
		for _, part := range []string{"median", "low", "high"} {
			header = append(header, rate+"_"+part+"_samples_per_s")
		}
	}
	header = append(header,
		"file_bytes_per_sample", "disk_bytes_per_sample", "stored_bytes_per_sample",
		"client_cold_cpu_s_per_sample", "daemon_first_cpu_s_per_sample", "daemon_cold_cpu_s_per_sample",
		"client_cached_cpu_s_per_sample", "daemon_cached_cpu_s_per_sample",
		"p50_s", "p99_s", "resident_bytes", "slab_bytes_per_file", "utilisation", "wait99_s",
		"ingest_samples_per_s", "prep_samples_per_s", "fetch_samples_per_s",
		"computing_share", "prep_stall_share", "fetch_stall_share", "bottleneck",
		"busy_share", "others_share", "doubt", "error")
	out := csv.NewWriter(w)
	lines := [][]string{header}
	for i := range r.Rows {
		lines = append(lines, r.Rows[i].csv())
	}
	if err := out.WriteAll(lines); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

func (r *Row) csv() []string {
	number := func(v float64) string {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return ""
		}
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	// known is a value that is 0 only where it was not measured
	known := func(v float64) string {
		if v == 0 {
			return ""
		}
		return number(v)
	}
	measured := len(r.Lasting()) > 0
	// zero is a value that may well be 0 of what was measured
	zero := func(v float64) string {
		if !measured {
			return ""
		}
		return number(v)
	}
	line := []string{r.View, strconv.FormatBool(r.Control), r.Path, strconv.FormatBool(r.Same), known(r.MSSSIM),
		strconv.FormatBool(r.Fits), strconv.Itoa(len(r.Lasting()))}
	for _, rates := range [][]float64{r.First, r.Cold, r.Cached, r.Lasting(), r.Raw} {
		if len(rates) == 0 {
			line = append(line, "", "", "")
			continue
		}
		i := stats.Bootstrap(rates)
		line = append(line, number(i.Median), number(i.Low), number(i.High))
	}
	size := func(n int64) string {
		if !measured {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	line = append(line, size(r.FileBytes), size(r.DiskBytes), size(r.StoredBytes))
	for _, v := range []float64{r.ClientCold, r.DaemonFirst, r.DaemonCold, r.ClientCached, r.DaemonCached} {
		line = append(line, zero(v))
	}
	for _, v := range []float64{r.P50, r.P99, float64(r.Resident), float64(r.Slab), r.Utilisation, r.Wait99, r.Analysis.Ingest, r.Analysis.Prep, r.Analysis.Fetch} {
		line = append(line, known(v))
	}
	a := r.Analysis
	for _, v := range []float64{a.Computing, a.PrepStall, a.FetchStall} {
		if a.Computing+a.PrepStall+a.FetchStall == 0 {
			line = append(line, "")
			continue
		}
		line = append(line, number(v))
	}
	return append(line, r.Bottleneck, known(r.Busy), known(r.Others), r.Doubt, r.Error)
}
