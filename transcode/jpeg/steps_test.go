package jpeg

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/transcode"
)

// apply runs one step on a file.
func apply(t testing.TB, k *transcode.Kind, arg int, src []byte) transcode.Payload {
	t.Helper()
	info, err := Decoder{}.Probe(bytes.NewReader(src), int64(len(src)), transcode.Limits{})
	testenv.Must(t, err)
	shape, ok := k.Shape(transcode.Shape{Info: info, Stage: transcode.Source}, arg)
	if !ok {
		t.Fatalf("%s does not apply", k.Name)
	}
	out, err := k.Apply(t.Context(), transcode.Payload{Shape: shape, Bytes: src}, transcode.Call{Step: transcode.Step{Arg: arg}})
	testenv.Must(t, err)
	if p := out.Pixels; p != nil && (p.Width != shape.Width || p.Height != shape.Height || p.Mode != shape.Mode || len(p.Pix) != p.Len()) {
		t.Fatalf("%s: %d by %d pixels, %+v were promised", k.Name, p.Width, p.Height, shape)
	}
	return out
}

// TestSplitCuts checks that the parts of a file that is cut at some levels only
// give what the step does, and give the file back.
func TestSplitCuts(t *testing.T) {
	src, err := os.ReadFile(filepath.Join(flavours(t), "129x97_2x2.jpg"))
	testenv.Must(t, err)
	for _, levels := range [][]int{nil, {1, 2, 5, 10}, {5}, {3, 7}, {10}} {
		cuts := Cuts(0)
		if levels != nil {
			cuts = CutsAt(levels...)
		}
		k := Scan(cuts)
		s, err := k.Split(t.Context(), src, transcode.Limits{}, true)
		testenv.Must(t, err)
		if want := len(cuts.Levels()); len(s.Ends) != want {
			t.Errorf("%v: %d parts, want %d", levels, len(s.Ends), want)
		}
		var whole []byte
		for level := 1; level <= maxLevel; level++ {
			whole = append(bytes.Clone(s.Data[:s.Ends[s.Levels[level-1]-1]]), s.Tail...)
			if !bytes.Equal(whole, apply(t, k, level, src).Bytes) {
				t.Errorf("%v: level %d: the parts are not the file", levels, level)
			}
		}
		if got, err := k.Restore(t.Context(), whole, s.Reconstruction, transcode.Limits{}); err != nil || !bytes.Equal(got, src) {
			t.Errorf("%v: the file does not come back: %v", levels, err)
		}
		if back, ok := CutsOf(transcode.SplitKey(k)); !ok || fmt.Sprint(back.Levels()) != fmt.Sprint(cuts.Levels()) {
			t.Errorf("key %s is of cuts %v, want %v", transcode.SplitKey(k), back.Levels(), cuts.Levels())
		}
	}
	for _, key := range []string{"original", "scan@jpeg2", "scan@jpeg1.", "scan@jpeg1.11", "scan@jpeg1.5.1", "scan@jpeg1.5"} {
		if _, ok := CutsOf(key); ok {
			t.Errorf("%s is taken for a key", key)
		}
	}
}
