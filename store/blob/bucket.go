package blob

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Bucket keeps objects below a prefix of a bucket: of AWS, or of another storage that speaks its
// protocol.
//
// A request that fails on the way is repeated: after a pause that grows, within the patience of the
// Bucket, and seldom beside those that go well. How many are in flight follows what the server bears.
type Bucket struct {
	client
	bucket, prefix string

	options     minio.Options
	host        string
	core        *minio.Core
	credentials *credentials.Credentials
	source      *source // of the credentials; nil if requests are not signed
	conditions  conditions
}

var _ Objects = (*Bucket)(nil)

// OpenBucket opens s3://BUCKET/PREFIX. It looks for credentials, and asks the server nothing.
func OpenBucket(ctx context.Context, where string, o Options) (*Bucket, error) {
	b := &Bucket{client: newClient(o), conditions: conditions{asking: make(chan struct{}, 1)}}
	b.problem, b.plain = b.explain, b.plainly
	var err error
	if b.bucket, b.prefix, err = parseURL(where); err != nil {
		return nil, err
	}
	profile, err := loadProfile(usualProfile())
	if err != nil {
		return nil, err
	}
	endpoint, err := parseEndpoint(first(o.Endpoint, env("AWS_ENDPOINT_URL_S3"), env("AWS_ENDPOINT_URL"), profile.endpoint, amazon))
	if err != nil {
		return nil, err
	}
	b.where = b.String()
	b.endpoint, b.host = endpoint.String(), endpoint.Host
	if o.Anonymous {
		b.credentials = credentials.NewStatic("", "", "", credentials.SignatureAnonymous)
	} else {
		b.source = &source{until: o.Until, profile: profile, region: o.Region}
		b.credentials = credentials.New(b.source)
		b.renew = b.credentials.Expire
		if _, err := b.credentials.GetWithContext(&credentials.CredContext{Client: b.askClient(), Context: ctx}); err != nil {
			return nil, b.scrub(err)
		}
	}
	transport, err := newTransport()
	if err != nil {
		return nil, err
	}
	region := first(o.Region, env("AWS_REGION"), env("AWS_DEFAULT_REGION"), profile.region)
	if region == "" {
		region = usualRegion
		if b.endpoint == amazon {
			region = findRegion(ctx, transport, amazon, b.bucket)
		}
	}
	b.options = minio.Options{
		Creds: b.credentials, Secure: endpoint.Scheme == "https", Region: region, Transport: heeding{transport},
		MaxRetries: 1, // Bucket repeats requests itself; the library would repeat conditional puts
	}
	if b.core, err = b.newCore(b.options.Transport); err != nil {
		return nil, fmt.Errorf("%s at %s: %w", b, b.endpoint, err)
	}
	return b, nil
}

func init() {
	// The library waits for this long after a request that it will not repeat.
	minio.DefaultRetryUnit = 0
}

func (b *Bucket) newCore(transport http.RoundTripper) (*minio.Core, error) {
	o := b.options
	o.Transport = transport
	return minio.NewCore(b.host, &o)
}

// newTransport has connections for as many requests as may be in flight.
func newTransport() (*http.Transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 2*maxRequests, maxRequests
	t.DisableCompression = true // the length of an answer is that of its bytes
	t.ForceAttemptHTTP2 = false
	t.TLSNextProto = nil
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true) // one connection for all requests would be slower
	t.WriteBufferSize, t.ReadBufferSize = 64<<10, 64<<10
	bundle := env("AWS_CA_BUNDLE")
	if bundle == "" {
		return t, nil
	}
	pem, err := os.ReadFile(bundle)
	if err != nil {
		return nil, fmt.Errorf("AWS_CA_BUNDLE: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("AWS_CA_BUNDLE: %s holds no certificate in PEM", bundle)
	}
	t.TLSClientConfig = &tls.Config{RootCAs: pool}
	return t, nil
}

// askClient asks for credentials. What does not answer soon is not there.
func (b *Bucket) askClient() *http.Client { return &http.Client{Timeout: 10 * time.Second} }

// String is s3://BUCKET/PREFIX.
func (b *Bucket) String() string { return scheme + b.bucket + "/" + b.prefix }

func (b *Bucket) key(name string) string { return b.prefix + name }

// Close ends connections that nobody uses.
func (b *Bucket) Close() { b.options.Transport.(heeding).CloseIdleConnections() }

// probe is the object by which a Bucket sees, before its first put, whether the server keeps to
// conditions. Some do not know them, and would let two writers replace each other's objects.
const (
	probe     = reserved + "conditions"
	probeText = "pipefs keeps this object to see whether this storage refuses to replace it.\n"
)

// conditions remembers that the server keeps to them.
type conditions struct {
	asking chan struct{} // full while somebody asks
	kept   atomic.Bool
}

// checkConditions fails if the server does not keep to If-None-Match and If-Match.
func (b *Bucket) checkConditions(ctx context.Context) error {
	if b.conditions.kept.Load() {
		return ctx.Err()
	}
	select {
	case b.conditions.asking <- struct{}{}:
		defer func() { <-b.conditions.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if b.conditions.kept.Load() {
		return nil
	}
	absent, never := minio.PutObjectOptions{DisableContentSha256: true}, minio.PutObjectOptions{DisableContentSha256: true}
	absent.SetMatchETagExcept("*")
	never.SetMatchETag(strings.Repeat("0", 32))
	// The first may make the object; the second finds it.
	replaced, err := b.putProbe(ctx, absent)
	if err == nil && replaced {
		replaced, err = b.putProbe(ctx, absent)
	}
	header := "If-None-Match"
	if err == nil && !replaced {
		header = "If-Match"
		replaced, err = b.putProbe(ctx, never)
	}
	if err == nil && replaced {
		err = fmt.Errorf("%s: the server at %s does not keep to %s, so that two writers could replace each other's objects; write to a directory, and copy that into the bucket with another tool",
			b, b.endpoint, header)
	}
	b.conditions.kept.Store(err == nil)
	return err
}

// putProbe reports whether the object was written.
func (b *Bucket) putProbe(ctx context.Context, o minio.PutObjectOptions) (bool, error) {
	err := b.do(ctx, request{op: OpPut, name: probe, size: int64(len(probeText))}, func(ctx context.Context) error {
		_, err := b.core.PutObject(ctx, b.bucket, b.key(probe), strings.NewReader(probeText), int64(len(probeText)), "", fmt.Sprintf("%x", sha256.Sum256([]byte(probeText))), o)
		return err
	})
	if errors.Is(err, ErrChanged) {
		return false, nil
	}
	return err == nil, err
}
