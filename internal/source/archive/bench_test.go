package archive

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/pipefs/pipefs/internal/testenv"
)

// BenchmarkScan scans tars of small members, and opens the list of them again. PIPEFS_MEMBERS says how many; 1,280,000 are those of
// ImageNet, and take 1.3 GB of disk.
func BenchmarkScan(b *testing.B) {
	n, err := strconv.Atoi(os.Getenv("PIPEFS_MEMBERS"))
	if err != nil {
		n = 50_000
	}
	dir, kept := b.TempDir(), b.TempDir()
	const shards = 147
	names := 0
	for s := range shards {
		var members []pair
		for i := s * n / shards; i < (s+1)*n/shards; i++ {
			members = append(members, pair{fmt.Sprintf("n%08d/n%08d_%07d.JPEG", i%1000, i%1000, i), string(make([]byte, 300+i%200))})
			names += len(members[len(members)-1].name)
		}
		testenv.Must(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%06d.tar", s)), writeTar(b, members...), 0o644))
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			testenv.Must(b, os.RemoveAll(kept))
			openDir(b, dir, kept)
		}
		b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "members/s")
		bytes := int64(-names)
		testenv.Must(b, filepath.WalkDir(kept, func(_ string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				info, infoErr := e.Info()
				testenv.Must(b, infoErr)
				bytes += info.Size()
			}
			return err
		}))
		b.ReportMetric(float64(bytes)/float64(n), "bytes/member")
	})
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			openDir(b, dir, kept)
		}
	})
}
