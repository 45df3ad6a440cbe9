package human

import "testing"

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1281167: "1,281,167", -1234: "-1,234", -123: "-123"} {
		if got := Count(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	if got := Plural(1, "file", "files") + ", " + Plural(2000, "file", "files"); got != "1 file, 2,000 files" {
		t.Error(got)
	}
}
