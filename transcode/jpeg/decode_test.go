package jpeg

import (
	"bytes"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// checkSequential compares Sequential with jpegtran.
func checkSequential(t testing.TB, src []byte) {
	t.Helper()
	want, _ := tool(t, src, "jpegtran", "-copy", "all", "-optimize")
	got, err := Sequential(src, Limits{})
	testenv.Must(t, err)
	if !bytes.Equal(got, want) {
		t.Fatalf("result differs from jpegtran's at byte %d; lengths %d and %d", firstDifference(got, want), len(got), len(want))
	}
}

// TestLevels spells the table out.
func TestLevels(t *testing.T) {
	for _, test := range []struct {
		components int
		model      ColorModel
		levels     [10]uint8
		scans      int
	}{
		{3, ModelYCbCr, [10]uint8{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 10},
		{1, ModelGrey, [10]uint8{1, 2, 2, 2, 3, 4, 5, 5, 5, 6}, 6},
		{3, ModelRGB, [10]uint8{1, 4, 4, 4, 7, 10, 11, 11, 11, 14}, 14},
		{2, ModelUnknown, [10]uint8{1, 3, 3, 3, 5, 7, 8, 8, 8, 10}, 10},
		{4, ModelCMYK, [10]uint8{1, 5, 5, 5, 9, 13, 14, 14, 14, 18}, 18},
	} {
		levels, scans := levelsOf(test.components, test.model)
		if levels != test.levels || scans != test.scans {
			t.Errorf("%d components, %v: %v of %d scans, want %v of %d", test.components, test.model, levels, scans, test.levels, test.scans)
		}
		if n := len(defaultScript(test.components, test.model)); n != scans {
			t.Errorf("%d components, %v: the script has %d scans, not %d", test.components, test.model, n, scans)
		}
	}
}
