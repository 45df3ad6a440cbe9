package survey

import (
	"testing"

	"github.com/pipefs/pipefs/internal/mounts"
)

func TestSlowOrSmall(t *testing.T) {
	ext4, nfs := mounts.FileSystem{Name: "ext4", Local: true}, mounts.FileSystem{Name: "NFS"}
	for _, c := range []struct {
		kind mounts.FileSystem
		free int64
		want string
	}{
		{ext4, 20e9, ""},
		{ext4, 300e6, "where only 300 MB are free"},
		{nfs, 20e12, "on no local disk that pipefs knows (NFS), and may be slower there than made again"},
	} {
		if got := slowOrSmall(c.kind, c.free); got != c.want {
			t.Errorf("%+v, %d free: %q, want %q", c.kind, c.free, got, c.want)
		}
	}
	t.Setenv("SLURM_TMPDIR", "")
	if got := localDisk(); got != "DIR" {
		t.Error(got)
	}
	t.Setenv("SLURM_TMPDIR", "/scratch/7")
	if got := localDisk(); got != "$SLURM_TMPDIR/pipefs" {
		t.Error(got)
	}
}
