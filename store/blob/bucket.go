package blob

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"os"
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
	bucket, prefix string
	endpoint       string
	timeout        time.Duration
	patience       time.Duration
	until          context.Context
	log            *slog.Logger

	options     minio.Options
	host        string
	core        *minio.Core
	credentials *credentials.Credentials
	source      *source // of the credentials; nil if requests are not signed

	limit      *limiter
	budget     *budget
	stats      *counters
	said       seldom
	conditions conditions
}

var _ Objects = (*Bucket)(nil)

// OpenBucket opens s3://BUCKET/PREFIX. It looks for credentials, and asks the server nothing.
func OpenBucket(ctx context.Context, where string, o Options) (*Bucket, error) {
	b := &Bucket{
		timeout: o.Timeout, patience: o.Patience, until: o.Until, log: o.Log,
		limit: newLimiter(), budget: newBudget(), stats: newCounters(),
		conditions: conditions{asking: make(chan struct{}, 1)},
	}
	if b.timeout == 0 {
		b.timeout = 15 * time.Second
	}
	if b.patience == 0 {
		b.patience = 2 * time.Minute
	}
	if b.until == nil {
		b.until = context.Background()
	}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
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
	b.endpoint, b.host = endpoint.String(), endpoint.Host
	if o.Anonymous {
		b.credentials = credentials.NewStatic("", "", "", credentials.SignatureAnonymous)
	} else {
		b.source = &source{until: o.Until, profile: profile, region: o.Region}
		b.credentials = credentials.New(b.source)
		if _, err := b.credentials.GetWithContext(&credentials.CredContext{Client: b.client(), Context: ctx}); err != nil {
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

// client asks for credentials. What does not answer soon is not there.
func (b *Bucket) client() *http.Client { return &http.Client{Timeout: 10 * time.Second} }

// String is s3://BUCKET/PREFIX.
func (b *Bucket) String() string { return scheme + b.bucket + "/" + b.prefix }

// Endpoint is the URL of the server.
func (b *Bucket) Endpoint() string { return b.endpoint }

// url names an object for messages.
func (b *Bucket) url(name string) string { return b.String() + name }

func (b *Bucket) key(name string) string { return b.prefix + name }

// Close ends connections that nobody uses.
func (b *Bucket) Close() { b.options.Transport.(heeding).CloseIdleConnections() }
