package main

import (
	"errors"
	"io/fs"

	"github.com/pipefs/pipefs/internal/exit"
	"github.com/pipefs/pipefs/store/blob"
)

// bucketOptions are the options of every command that takes s3://BUCKET/PREFIX. Credentials are no
// options: other users see command lines.
func bucketOptions(o *blob.Options) []*option {
	return []*option{
		{name: "endpoint", arg: "URL", def: "AWS_ENDPOINT_URL, or AWS", set: intoString(&o.Endpoint),
			help: "the server of s3://BUCKET/PREFIX, for object storage that is not of AWS: https://storage.example.org"},
		{name: "region", arg: "NAME", def: "AWS_REGION, or found out", set: intoString(&o.Region),
			help: "the region of the bucket"},
		{name: "path-style", set: intoBool(&o.PathStyle),
			help: "write the bucket into the path of URLs, not into the name of the host, at AWS too"},
		{name: "anonymous", set: intoBool(&o.Anonymous),
			help: "read a public bucket: requests are not signed"},
	}
}

// bucketError gives an error of a place for objects its exit code.
func bucketError(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return exit.With(exit.Usage, err)
	}
	return exit.With(exit.System, err)
}
