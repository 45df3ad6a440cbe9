package strategy

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestPaperSizes(t *testing.T) {
	sizes := PaperSizes()
	if len(sizes) != 12 || sizes[0] != 10_000 || sizes[11] != 20_480_000 {
		t.Error(sizes)
	}
}

func TestSampleSizes(t *testing.T) {
	work := t.TempDir()
	const total = 1_000_000
	rows, err := SampleSizes(t.Context(), SizesConfig{
		Work: work, Total: total, Sizes: []int64{400, 10_000, 300_000}, Workers: []int{1, 4}, Rounds: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 3*2*2 {
		t.Errorf("%d rows", len(rows))
	}
	for i := range rows {
		row := &rows[i]
		if row.Samples != total/int(row.Size) {
			t.Errorf("%d samples of %d bytes", row.Samples, row.Size)
		}
		for _, cache := range Caches {
			e := row.Caches[cache]
			if e == nil || len(e.Rates) != 2 || row.Seconds(cache, total) <= 0 {
				t.Errorf("%+v, cache %s: %+v", row, cache, e)
				continue
			}
			if got, want := row.Seconds(cache, total)*e.Rate()*float64(row.Size), float64(total); math.Abs(got-want) > 1 {
				t.Errorf("%v bytes, want %v", got, want)
			}
		}
		if got := Speedup(rows, row, System); row.Workers == 1 && got.Median != 1 || got.Median <= 0 {
			t.Errorf("%d workers are %v times as fast", row.Workers, got)
		}
	}
	wantEmpty(t, work)
	for want, c := range map[string]SizesConfig{
		"multiple of 4":        {Sizes: []int64{6}},
		"samples of 400 bytes": {Total: 100, Sizes: []int64{400}},
		"unknown type":         {Types: []string{"int8"}},
		"unknown cache":        {Caches: []string{"disk"}},
		"would be stored":      {Total: 1 << 56, Sizes: []int64{1 << 30}},
	} {
		c.Work = work
		if _, err := SampleSizes(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	wantEmpty(t, work)
}

// TestDeserialise wants the values of NumPy's '<f4'.
func TestDeserialise(t *testing.T) {
	b := []byte{0, 0, 128, 63, 0, 0, 0, 192}
	if a := deserialise(b, Float32); !slices.Equal(a.floats, []float32{1, -2}) || a.size() != 8 {
		t.Error(a)
	}
	a := deserialise(b, Uint8)
	if b[0] = 9; a.bytes[0] != 0 || a.size() != 8 {
		t.Error("not an array of its own")
	}
}

func TestShuffle(t *testing.T) {
	s, err := Shuffle(t.Context(), ShuffleConfig{Counts: []int{50, 100, 200}, Sizes: []int64{100, 5000}, Buffer: 100_000, Rounds: 3})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Rows) != 6 || len(s.Lines) != 2 {
		t.Errorf("%+v", s)
	}
	for _, row := range s.Rows {
		if want := min(row.Samples, int(100_000/row.Size)); len(row.Plain) != 3 || len(row.Shuffled) != 3 || row.Buffer != want {
			t.Errorf("%+v, want a buffer of %d", row, want)
		}
	}
	for want, c := range map[string]ShuffleConfig{
		"cannot be shuffled": {Counts: []int{0}},
		"in a buffer of":     {Sizes: []int64{1000}, Buffer: 999},
		"does not fit":       {Buffer: 1 << 60},
		"stands twice":       {Counts: []int{4, 4}},
	} {
		if _, err := Shuffle(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestLine(t *testing.T) {
	l := line(7, []float64{1, 2, 3, 4}, []float64{5, 7, 9, 11})
	if math.Abs(l.PerSample-2) > 1e-12 || math.Abs(l.Constant-3) > 1e-12 || math.Abs(l.R2-1) > 1e-12 || l.Size != 7 {
		t.Errorf("%+v", l)
	}
	if l := line(7, []float64{1, 2, 3}, []float64{5, 5, 5}); l.PerSample != 0 || l.Constant != 5 || l.R2 != 0 {
		t.Errorf("%+v", l)
	}
	if l := line(7, []float64{1, 1}, []float64{4, 6}); l.PerSample != 0 || l.Constant != 5 || l.R2 != 0 {
		t.Errorf("%+v", l)
	}
}

func TestRawRead(t *testing.T) {
	work := t.TempDir()
	rows, err := RawRead(t.Context(), RawConfig{Work: work, Threads: []int{1, 3}, FileBytes: 1_000_003, Files: 20, FileSize: 10_000, Rounds: 2})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 4 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, row := range rows {
		threads, files, bytes := []int{1, 1, 3, 3}[i], []int{1, 20}[i%2], []int64{1_000_003, 200_000}[i%2]
		if row.Threads != threads || row.Files != files || row.Bytes != bytes*int64(threads) {
			t.Errorf("%+v", row)
		}
		// A small file takes two reads of 4 KiB and one of what is left.
		reads := float64(threads) * []float64{245, 60}[i%2]
		if got := row.IOPS[0] * float64(row.Bytes) / row.Bandwidth[0]; len(row.IOPS) != 2 || math.Abs(got-reads) > .01 {
			t.Errorf("%v reads, want %v", got, reads)
		}
		if row.Mean <= 0 || row.P50 > row.P99 || row.P50 <= 0 {
			t.Errorf("%+v", row)
		}
	}
	wantEmpty(t, work)
}

// TestStopped wants the error and nothing left.
func TestStopped(t *testing.T) {
	work := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	stop := func(what string) {
		if n++; n == 4 {
			cancel()
		}
	}
	rows, err := SampleSizes(ctx, SizesConfig{Work: work, Total: 1e6, Sizes: []int64{1000}, Progress: stop})
	if !errors.Is(err, context.Canceled) || len(rows) != 2 {
		t.Errorf("%v, %d rows", err, len(rows))
	}
	if _, err := RawRead(ctx, RawConfig{Work: work}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := Shuffle(ctx, ShuffleConfig{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	wantEmpty(t, work)
}
