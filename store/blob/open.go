package blob

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// Options say how a bucket is reached. What they leave out comes from where the tools of AWS look
// for it: the environment, then the profile in ~/.aws.
type Options struct {
	Endpoint  string       // URL of the server, without the bucket; "" is that of AWS
	Region    string       // of the bucket
	Anonymous bool         // requests are not signed, whatever credentials there are
	Log       *slog.Logger `json:"-"`

	// Timeout of one request that moves few bytes; 0 is 15 seconds. It gets longer by what a
	// slow connection takes for its bytes.
	Timeout time.Duration
	// Patience is how long a request is repeated before it fails; 0 is two minutes.
	Patience time.Duration
	// Until ends all requests when it is done; nil never is.
	Until context.Context `json:"-"`
}

// scheme begins the URL of a bucket.
const scheme = "s3://"

// IsURL reports whether where names a place in a bucket, and not a path.
func IsURL(where string) bool { return strings.Contains(where, "://") }

// Open opens a place: s3://BUCKET/PREFIX, or the path of a directory. It looks for credentials, and
// asks the server nothing.
func Open(ctx context.Context, where string, o Options) (Objects, error) {
	if !IsURL(where) {
		return OpenDirectory(where)
	}
	return OpenBucket(ctx, where, o)
}

// parseURL takes the URL of a place in a bucket apart. A prefix that is not empty ends with a slash.
func parseURL(where string) (bucket, prefix string, err error) {
	rest, is := strings.CutPrefix(where, scheme)
	if !is {
		return "", "", fmt.Errorf("%s is no place for objects: write s3://BUCKET/PREFIX, and --endpoint for a server that is not of AWS",
			redacted(where))
	}
	bucket, prefix, _ = strings.Cut(rest, "/")
	if strings.Contains(bucket, "@") {
		return "", "", fmt.Errorf("a URL of a bucket holds no credentials; put them into the environment or into ~/.aws/credentials, and write s3://%s",
			bucket[strings.LastIndexByte(bucket, '@')+1:])
	}
	if bucket == "" {
		return "", "", fmt.Errorf("%s names no bucket: write s3://BUCKET/PREFIX", where)
	}
	if err := s3utils.CheckValidBucketName(bucket); err != nil {
		return "", "", fmt.Errorf("%q is no name of a bucket: %w", bucket, err)
	}
	prefix = strings.TrimSuffix(prefix, "/")
	if prefix == "" {
		return bucket, "", nil
	}
	return bucket, prefix + "/", checkName(prefix)
}

// redacted is a URL for a message: without user and password.
func redacted(where string) string {
	u, err := url.Parse(where)
	if err != nil {
		return "this URL"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// parseEndpoint is the host and scheme of a server.
func parseEndpoint(endpoint string) (*url.URL, error) {
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the endpoint %s is no URL of a server; one looks like https://storage.example.org or http://127.0.0.1:9000", redacted(endpoint))
	case u.User != nil:
		return nil, fmt.Errorf("the endpoint %s must not hold credentials; put them into the environment or into ~/.aws/credentials", redacted(endpoint))
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the endpoint %s must name a server only: the bucket stands in s3://BUCKET/PREFIX", redacted(endpoint))
	}
	u.Path = ""
	return u, nil
}
