package survey

import "testing"

func TestLocalDisk(t *testing.T) {
	for job, want := range map[string]string{"": "DIR", "/scratch/7": "$SLURM_TMPDIR/pipefs"} {
		t.Setenv("SLURM_TMPDIR", job)
		if got := localDisk(); got != want {
			t.Errorf("%q: %s", job, got)
		}
	}
}
