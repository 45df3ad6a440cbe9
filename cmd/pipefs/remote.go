package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/urfave/cli/v2"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/internal/human"
	"github.com/pipefs/pipefs/internal/mountd"
	"github.com/pipefs/pipefs/internal/remote"
	"github.com/pipefs/pipefs/internal/source"
	"github.com/pipefs/pipefs/internal/source/bucket"
	"github.com/pipefs/pipefs/internal/survey"
)

// remoteFlags are the options of every command that takes s3://BUCKET/PREFIX. Credentials are no
// options: other users see command lines.
func remoteFlags(a *remote.Access) []cli.Flag {
	o := &a.Blob
	return []cli.Flag{
		opt("endpoint", "URL", "AWS_ENDPOINT_URL, or AWS", intoString(&o.Endpoint), "use this S3 server"),
		opt("region", "NAME", "AWS_REGION, or detected", intoString(&o.Region), "set the region of the bucket"),
		&cli.BoolFlag{Name: "anonymous", Destination: &o.Anonymous, Usage: "read a public bucket without credentials"},
	}
}

// openSource opens a dataset or store, and shows how far the listing of a bucket is.
func openSource(ctx context.Context, env *environ, o mountd.SourceOptions) (*mountd.Source, error) {
	bar := human.NewProgress(env.stderr, "objects listed", -1)
	defer bar.Done()
	o.Log, o.Listed = quiet(env), func(n int64) { bar.Reach(int(n)) }
	return mountd.OpenSource(ctx, o)
}

// openDataset opens the dataset that is to be packed. One at a URL is listed anew.
func (c *packConfig) openDataset(ctx context.Context, env *environ) (source.Dataset, error) {
	bar := human.NewProgress(env.stderr, "objects listed", -1)
	o := source.Options{NoFollow: c.NoFollow, Log: quiet(env)}
	d, err := mountd.OpenDataset(ctx, c.Remote, c.Dataset, o, bucket.Options{Log: quiet(env), Progress: func(n int64) { bar.Reach(int(n)) }})
	bar.Done()
	if remote.Is(c.Dataset) {
		err = bucketError(err)
	}
	if err != nil || c.classes == "" {
		return d, err
	}
	classes, err := source.WithClasses(d, c.classes)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	tell(env, classes.Notes)
	return classes, nil
}

// unlisted tells of directories that cannot be listed.
func unlisted(env *environ) func(error) {
	return func(err error) { fmt.Fprintf(env.stderr, "pipefs: left out: %v\n", err) }
}

// bucketError gives an error of a place for objects its exit code.
func bucketError(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return exit.With(exit.Usage, err)
	}
	return exit.With(exit.System, err)
}

// errWritten refuses to change a store in a bucket.
func errWritten(what, place, instead string) error {
	return exit.Errorf(exit.Usage, "%s writes into the store, and %s is not on this machine; %s", what, place, instead)
}

var errNoURL = errors.New("takes a path of this machine, and no URL")

// lookInto says what a dataset on this machine is if it has no pictures. It does not look into
// stores, and no further than a person waits.
func lookInto(ctx context.Context, dir string) (l mountd.Listing, nothing string) {
	l, ok := mountd.PeekDataset(ctx, dir)
	if !ok {
		return l, ""
	}
	return l, survey.NoPictures(l, dir)
}

// filledDataset makes the path of a dataset or store what the kernel will call it. It refuses one on
// this machine without any file, since nothing is done then, and tells of archives.
func filledDataset(ctx context.Context, env *environ, a remote.Access, given, done string) (string, error) {
	dir, err := mountd.ResolveSource(ctx, a, given)
	if err != nil {
		return "", exit.With(exit.System, err)
	}
	switch l, nothing := lookInto(ctx, dir); {
	case nothing != "" && l.Others == 0:
		return "", exit.Errorf(exit.System, "%s is empty: there is no file in it, and nothing was %s. If it is where a disk belongs, mount that first", dir, done)
	case nothing != "" && l.Archive != "":
		noter(env.stderr)("%s", nothing)
	}
	return dir, nil
}
