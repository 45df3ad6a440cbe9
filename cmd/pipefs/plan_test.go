package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/shard"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/testenv"
)

// TestOtherImplementations: a worker whose codecs make other bytes than those of the plan refuses to work.
func TestOtherImplementations(t *testing.T) {
	dir, at := t.TempDir(), t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("a"), 0o644))
	env := &environ{stderr: &bytes.Buffer{}, stdout: &bytes.Buffer{}}
	d, err := source.Open(dir, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	c := &packConfig{dataset: dir, store: at, buildDir: t.TempDir()}
	for i, name := range []string{"", "scan", "PNG"} {
		m, err := c.config(env).Making(t.Context(), nil, d)
		testenv.Must(t, err)
		m.ShardBytes = 1e6
		for _, all := range []map[string]string{m.Steps, m.Decoders} {
			if _, has := all[name]; has {
				all[name] += "-another"
			}
		}
		p, err := m.Make(t.Context())
		testenv.Must(t, err)
		err = execute(context.Background(), env, []string{"pipefs", "pack", "--plan", shard.URL(at, p.ID), "--shard", "0", "--build-dir", c.buildDir})
		if i == 0 {
			testenv.Must(t, err)
			continue
		}
		want := fmt.Sprintf("makes other bytes than the one that planned (%s); pack all shards with the same version of pipefs, or plan again", name)
		if exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v (of %v)", name, err, maps.Collect(maps.All(m.Decoders)))
		}
	}
}
