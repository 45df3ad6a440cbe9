package compare

import (
	"context"
	"io"
	"time"

	"github.com/pipefs/pipefs/bench/loader"
	"github.com/pipefs/pipefs/bench/throttle"
	"github.com/pipefs/pipefs/internal/control"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/transcode"
)

// Config is all that a comparison can be told.
type Config struct {
	Source, Dataset string // as given; absolute
	Remote          remote.Access
	Views           []string
	Loader          string
	Exec            string
	Reader          string // of --for
	Python          string
	Workers, Batch  int
	Compute         loader.Compute
	Controls        bool
	Samples, Rounds int
	Budget          time.Duration
	Throttled       throttle.Limits
	Work            string
	Roles           transcode.Roles
	Limits          transcode.Limits

	// strategies
	Pipeline     string
	Grey         bool
	Compressions []string
	Caches       []string
	Parallel     []int

	Stderr     io.Writer
	Note       func(format string, args ...any)
	Unlisted   func(error) // is told of directories that cannot be listed
	OpenSource func(context.Context, mountd.SourceOptions) (*mountd.Source, error)
	Stats      func(ctx context.Context, mnt string) (*control.Stats, error)
}

// The loaders that there are.
const (
	AutoLoader    = "auto"
	BuiltinLoader = "builtin"
	TorchLoader   = "torch"
)
