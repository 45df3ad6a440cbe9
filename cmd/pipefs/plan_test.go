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
	"github.com/pipefs/pipefs/store/blob"
	"github.com/pipefs/pipefs/transcode"
	"github.com/pipefs/pipefs/transcode/codecs"
)

// TestOtherImplementations: a worker whose codecs make other bytes than those of the plan refuses to work.
func TestOtherImplementations(t *testing.T) {
	dir, at := t.TempDir(), t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("a"), 0o644))
	env := &environ{stderr: &bytes.Buffer{}, stdout: &bytes.Buffer{}}
	d, err := source.Open(dir, source.Options{})
	testenv.Must(t, err)
	defer d.Close()
	r := codecs.Default(transcode.Limits{})
	tree := shard.Dataset{Dataset: whatIsPacked(env, &packConfig{}, d, r)}
	place, err := blob.OpenDirectory(at)
	testenv.Must(t, err)
	c := &planConfig{shardBytes: 1e6}
	c.dataset, c.store, c.buildDir = dir, at, t.TempDir()
	for i, name := range []string{"", "scan", "PNG"} {
		m, err := c.making(t.Context(), env, nil)
		testenv.Must(t, err)
		m.Place, m.Tree, m.Current, m.Verbatim = place, tree, tree.Current, tree.Verbatim
		m.Steps, m.Decoders = stepsOf(r, "")
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
