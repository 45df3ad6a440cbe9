package packing

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/internal/usage"
	"github.com/pipefs/pipefs/store/blob"
)

// TestOtherImplementations: a worker whose codecs make other bytes than those of the plan refuses to work.
func TestOtherImplementations(t *testing.T) {
	dir, at := t.TempDir(), t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("a"), 0o644))
	d, err := source.Open(dir, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	place, err := blob.OpenDirectory(at)
	testenv.Must(t, err)
	c := &Config{Target: Target{Store: at, BuildDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}, Dataset: dir}
	for i, name := range []string{"", "scan", "PNG"} {
		m, err := c.Making(t.Context(), nil, d)
		testenv.Must(t, err)
		m.ShardBytes = 1e6
		for _, all := range []map[string]string{m.Steps, m.Decoders} {
			if _, has := all[name]; has {
				all[name] += "-another"
			}
		}
		made, err := m.Make(t.Context())
		testenv.Must(t, err)
		p, err := Open(t.Context(), place, made.ID)
		testenv.Must(t, err)
		worker, done, err := c.Worker(t.Context(), p)
		if i == 0 {
			testenv.Must(t, err)
			defer done()
			worker.Place = place
			shard, err := worker.Pack(t.Context(), 0)
			if err != nil || shard.Files != 1 {
				t.Errorf("%+v, %v", shard, err)
			}
			continue
		}
		var wrong *usage.Error
		want := "makes other bytes than the one that planned (" + name + "); pack all shards with the same version of pipefs, or plan again"
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOtherKindOfPlace: a dataset in a bucket cannot take the place of one in a directory.
func TestOtherKindOfPlace(t *testing.T) {
	p := &Plan{}
	p.Dataset = "/data"
	c := &Config{Target: Target{Store: t.TempDir(), BuildDir: t.TempDir()}, Dataset: "s3://bucket/data"}
	p.Steps, p.Decoders = stepsOf(registryOf(&p.Options), "")
	if _, _, err := c.Worker(t.Context(), p); err == nil || !strings.Contains(err.Error(), "the plan is of /data, which s3://bucket/data cannot take the place of") {
		t.Error(err)
	}
}
