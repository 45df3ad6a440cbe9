package e2e

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/testmount"
	"github.com/pipefs/pipefs/store"
)

// TestMix: bmp-own/ shows the same whatever it is read from, and stored-bmp/ the pixels of what is materialized and the originals
// of everything else, all under their own names, whatever the policy and the cache, and also where what is stored proves to be
// damaged.
func TestMix(t *testing.T) {
	t.Parallel()
	env, _, store := packed(t, "-samples", "60", "-width", "160", "-height", "120", "-png-every", "2")
	plain, unmount := testmount.MountOnce(t, env, store, "--no-background")
	want, originals := hashes(t, filepath.Join(plain, "bmp-own")), hashes(t, filepath.Join(plain, "original"))
	if to, err := os.Readlink(filepath.Join(plain, "mix")); err != nil || to != "bmp-own" {
		t.Errorf("mix leads to %q, %v", to, err)
	}
	unmount()
	testmount.Command(t, env, "materialize", store, "bmp", "--fraction", "0.4")
	// read mounts with some options, and returns how many samples stored-bmp shows as materialized, and the counters after two
	// readings of bmp-own.
	read := func(options ...string) (materialized int, n map[string]int64) {
		t.Helper()
		mnt, unmount := testmount.MountOnce(t, env, store, append(options, "--no-background")...)
		defer unmount()
		for range 2 {
			if diff := cmp.Diff(want, hashes(t, filepath.Join(mnt, "bmp-own"))); diff != "" {
				t.Fatalf("%v (-want +got):\n%s", options, diff)
			}
		}
		n, _ = counters(t, mnt)
		mixed := hashes(t, filepath.Join(mnt, "stored-bmp"))
		if len(mixed) != len(originals) {
			t.Errorf("%v: %d files of %d", options, len(mixed), len(originals))
		}
		for name, hash := range mixed {
			switch hash {
			case originals[name]:
			case want[name]:
				materialized++
			default:
				t.Errorf("%v: %s is neither the original nor its pixels", options, name)
			}
		}
		return materialized, n
	}
	for _, c := range []struct {
		shown   float64
		options []string
	}{
		{0.4, []string{"--mix-format", "stored-bmp"}}, {0.2, []string{"--mix", "0.5"}}, {0, []string{"--mix", "0"}},
		{0.4, []string{"--cache", "daemon", "--mix", "40%"}}, {0.4, []string{"--cache", "daemon", "--mix", "adaptive"}},
	} {
		shown, n := read(c.options...)
		if math.Abs(float64(shown)/60-c.shown) > 0.1 || (n["opened from what is materialized"] > 0) != (c.shown > 0) || n["copies that had to be made again"] > 0 {
			t.Errorf("%v: %d are shown as materialized, %v", c.options, shown, n)
		}
	}

	out := filepath.Join(t.TempDir(), "out")
	mnt, unmount := testmount.MountOnce(t, env, store, "--no-background")
	for _, view := range []string{"stored-bmp", "bmp-own"} {
		testmount.Command(t, env, "export", store, view, filepath.Join(out, view))
		if diff := cmp.Diff(hashes(t, filepath.Join(mnt, view)), hashes(t, filepath.Join(out, view))); diff != "" {
			t.Errorf("%s exported (-mount +export):\n%s", view, diff)
		}
	}
	// Scans are stored of every JPEG, as parts of it.
	if diff := cmp.Diff(hashes(t, filepath.Join(mnt, "scan5")), hashes(t, filepath.Join(mnt, "stored-scan5"))); diff != "" {
		t.Errorf("stored-scan5 (-scan5 +stored):\n%s", diff)
	}
	unmount()
	damagePacks(t, store)
	if shown, n := read(); math.Abs(float64(shown)/60-0.4) > 0.1 || n["copies that had to be made again"] == 0 {
		t.Errorf("damaged: %d are shown as materialized, %v", shown, n)
	}
}

// TestTunedBefore: what was measured when pixels were those of ppm is led to, under own
// names.
func TestTunedBefore(t *testing.T) {
	t.Parallel()
	env := testmount.Home(t)
	dir := filepath.Join(t.TempDir(), "store")
	testmount.Command(t, env, "pack", testmount.Generate(t, "-samples", "4"), dir)
	for view, want := range map[string]string{
		"ppm": "auto ppm-own mix ppm-own", "stored-ppm": "auto stored-ppm mix stored-ppm",
		"resize256-ppm": "auto resize256-ppm-own mix bmp-own", "bmp": "auto bmp-own mix bmp-own",
	} {
		testenv.Must(t, store.WriteAuto(dir, store.Auto{View: view}))
		mnt, unmount := testmount.MountOnce(t, env, dir, "--no-background")
		auto, err := os.Readlink(filepath.Join(mnt, "auto"))
		mix, err2 := os.Readlink(filepath.Join(mnt, "mix"))
		if got := "auto " + auto + " mix " + mix; err != nil || err2 != nil || got != want {
			t.Errorf("%s: %s, want %s; %v, %v", view, got, want, err, err2)
		}
		unmount()
	}
}

// damagePacks changes bytes in the packs of the fraction bmp.
func damagePacks(t *testing.T, store string) {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(store, "fractions", "bmp", "*.pack"))
	if err != nil || len(packs) == 0 {
		t.Fatal("no packs of the fraction: ", err)
	}
	b, err := os.ReadFile(packs[0])
	testenv.Must(t, err)
	for i := 5000; i < len(b)*3/4; i += 20_000 {
		b[i] ^= 0x10
	}
	testenv.Must(t, os.WriteFile(packs[0], b, 0o644))
}

// counters are the numbers of `pipefs stats`, and what it says of them, by name: those of
// some groups, or all.
func counters(t *testing.T, mnt string, groups ...string) (values map[string]int64, texts map[string]string) {
	t.Helper()
	values, texts = map[string]int64{}, map[string]string{}
	for _, c := range statsOf(t, mnt).Counters {
		if len(groups) == 0 || slices.Contains(groups, c.Group) {
			values[c.Name], texts[c.Name] = c.Value, c.Text
		}
	}
	return values, texts
}

// TestTune measures a store, in one round, which is too little to store what won.
func TestTune(t *testing.T) {
	t.Parallel()
	env, _, store := packed(t, "-samples", "32", "-width", "320", "-height", "240", "-png-every", "2")
	type row struct {
		View    string
		Encoded string
		Share   float64
		Rates   []float64
	}
	var report struct {
		Samples int
		Pairs   []struct {
			Encoded string
			Rows    []row
			Best    int
		}
		Views  []row
		Winner int
		Noise  string
	}
	tune := func(args ...string) {
		t.Helper()
		report.Pairs, report.Views = nil, nil
		args = append([]string{"tune", "--json", "--samples", "16", "--rounds", "1", store}, args...)
		testenv.Must(t, json.Unmarshal([]byte(testmount.Command(t, env, args...)), &report))
	}
	tune("--l3", "--allow", "scan,resize")
	// What the loader decodes with nothing materialized are the originals themselves.
	views := 5
	if report.Pairs[1].Best > 0 {
		views++
	}
	if report.Samples != 32 || len(report.Pairs) != 3 || len(report.Pairs[0].Rows) != 11 || len(report.Views) != views {
		t.Errorf("%+v", report)
	}
	for _, p := range report.Pairs {
		if len(p.Rows[p.Best].Rates) == 0 || len(p.Rows[0].Rates) == 0 || len(p.Rows[10].Rates) == 0 {
			t.Errorf("%s: the best ratio or an end was not measured: %+v", p.Encoded, p)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(store, "fractions", "*")); len(left) != 0 {
		t.Errorf("left in the store: %v", left)
	}
	// One round is noise, which nobody is to follow.
	if report.Winner != -1 || report.Noise == "" {
		t.Errorf("%d won in one round, noise: %q", report.Winner, report.Noise)
	}
	// Without originals there is nothing to compare with them; and a picture that is
	// damaged behind its header spoils nothing.
	store = filepath.Join(t.TempDir(), "l3")
	dataset := testmount.Generate(t, "-samples", "20", "-png-every", "1")
	damaged(t, dataset)
	testmount.Command(t, env, "pack", "--represent", "l3", "--originals", "drop", dataset, store)
	tune()
	if len(report.Views) != 1 || report.Views[0].View != "bmp" {
		t.Errorf("%+v", report.Views)
	}
}

// damaged cuts one PNG file of a dataset in half.
func damaged(t *testing.T, dataset string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dataset, "*", "*.png"))
	if err != nil || len(files) == 0 {
		t.Fatal("no PNG files: ", err)
	}
	st, err := os.Stat(files[0])
	if err == nil {
		err = os.Truncate(files[0], st.Size()/2)
	}
	testenv.Must(t, err)
}
