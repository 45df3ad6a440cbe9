package blob_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pipefs/pipefs/internal/testenv"
	"github.com/pipefs/pipefs/store/blob"
)

func serve(t *testing.T, answer http.HandlerFunc) (endpoint string) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return server.URL
}

// Each error says which object, at which server, and what to do; none says a secret.
func TestBucketProblems(t *testing.T) {
	s := testenv.S3(t)
	login(t, s)
	const secret, token = "a/secret+that+nobody+may=see", "a-token-that-nobody-may-see"
	refusal := func(status int, code, region string) string {
		return serve(t, func(w http.ResponseWriter, q *http.Request) {
			w.WriteHeader(status)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s and %s are wrong, and so is %s</Message><Region>%s</Region></Error>",
				code, secret, token, q.Header.Get("X-Amz-Security-Token"), region)
		})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	silent := "http://" + listener.Addr().String()
	testenv.Must(t, listener.Close())
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := refusal(400, "BadRequest", "")

	for _, c := range []struct {
		what     string
		endpoint string
		bucket   string
		key      string // "" is the right one, with the right secret
		class    error
		says     string
	}{
		{"no such bucket", s.Endpoint, "no-such-bucket", "", fs.ErrNotExist, "check the name of the bucket"},
		{"unknown key", s.Endpoint, s.Bucket, "unknown", fs.ErrPermission, "AWS_ACCESS_KEY_ID"},
		{"wrong secret", s.Endpoint, s.Bucket, s.AccessKey, fs.ErrPermission, "secret key does not belong"},
		{"access denied", refusal(403, "not with [secret]", ""), "bucket", "k", fs.ErrPermission, "need the right s3:ListBucket"},
		{"clock", refusal(403, "RequestTimeTooSkewed", ""), "bucket", "k", fs.ErrPermission, "clock of this machine"},
		{"region", refusal(400, "AuthorizationHeaderMalformed", "eu-north-1"), "bucket", "k", nil, "--region eu-north-1"},
		{"redirect", refusal(301, "PermanentRedirect", ""), "bucket", "k", nil, "--region"},
		{"expired", refusal(400, "ExpiredToken", ""), "bucket", "k", nil, "get new ones"},
		{"overloaded", refusal(503, "SlowDown", ""), "bucket", "k", blob.ErrUnavailable, "SlowDown"},
		{"nobody there", silent, "bucket", "k", blob.ErrUnavailable, silent},
		{"unknown authority", secure.URL, "bucket", "k", nil, "AWS_CA_BUNDLE"},
		{"no TLS", strings.Replace(plain, "http:", "https:", 1), "bucket", "k", nil, "write http://"},
	} {
		t.Run(c.what, func(t *testing.T) {
			if c.key != "" {
				t.Setenv("AWS_ACCESS_KEY_ID", c.key)
				t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
				t.Setenv("AWS_SESSION_TOKEN", token)
			}
			if c.endpoint == s.Endpoint {
				t.Setenv("AWS_SESSION_TOKEN", "")
			}
			var logged lines
			o := blob.Options{Log: slog.New(slog.NewTextHandler(&logged, nil))}
			if errors.Is(c.class, blob.ErrUnavailable) {
				o.Patience = 300 * time.Millisecond
			}
			b := bucket(t, c.endpoint, "s3://"+c.bucket+"/pre", o)
			for _, err := range b.List(t.Context(), "dir/", true) {
				if err == nil {
					t.Fatal("no error")
				}
				t.Log(err)
				if c.class != nil {
					is(t, err, c.class)
				}
				for _, part := range []string{c.says, "s3://" + c.bucket + "/pre/dir/", c.endpoint} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%q is not in: %v", part, err)
					}
				}
				for _, hidden := range []string{secret, token, s.SecretKey} {
					if strings.Contains(err.Error(), hidden) || strings.Contains(logged.String(), hidden) {
						t.Errorf("%q is in: %v\nor in: %s", hidden, err, logged.String())
					}
				}
			}
		})
	}
}

// The places where the tools of AWS find credentials, and the order among them.
func TestCredentials(t *testing.T) {
	s := testenv.S3(t)
	write := func(t *testing.T, name, text string) {
		t.Helper()
		dir := filepath.Join(os.Getenv("HOME"), ".aws")
		testenv.Must(t, os.MkdirAll(dir, 0o700))
		testenv.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	keys := fmt.Sprintf("aws_access_key_id = %s\naws_secret_access_key = %s\n", s.AccessKey, s.SecretKey)
	works := func(t *testing.T, o blob.Options) {
		t.Helper()
		b, err := blob.Open(t.Context(), "s3://"+s.Bucket, o)
		testenv.Must(t, err)
		list(t, b, "", true)
	}
	t.Run("environment", func(t *testing.T) {
		login(t, s)
		write(t, "credentials", "[default]\naws_access_key_id = other\naws_secret_access_key = other\n")
		works(t, blob.Options{})
	})
	t.Run("default profile", func(t *testing.T) {
		nobody(t)
		write(t, "credentials", "[default]\n"+keys)
		works(t, blob.Options{Endpoint: s.Endpoint})
	})
	t.Run("named profile, with its endpoint and region", func(t *testing.T) {
		nobody(t)
		t.Setenv("AWS_PROFILE", "lab")
		write(t, "config", "[profile lab]\nregion = "+s.Region+"\nendpoint_url = "+s.Endpoint+"\n"+keys)
		works(t, blob.Options{})
	})
	t.Run("a role, taken with another profile, and again when it expires", func(t *testing.T) {
		nobody(t)
		t.Setenv("AWS_PROFILE", "work")
		var mu sync.Mutex
		var asked []string
		t.Setenv("AWS_ENDPOINT_URL_STS", serve(t, func(w http.ResponseWriter, q *http.Request) {
			testenv.Must(t, q.ParseForm())
			_, key, _ := strings.Cut(q.Header.Get("Authorization"), "Credential=")
			key, _, _ = strings.Cut(key, "/")
			mu.Lock()
			asked = append(asked, strings.Join([]string{q.Form.Get("Action"), q.Form.Get("RoleArn"), q.Form.Get("ExternalId"), key}, " "))
			mu.Unlock()
			access, secret := s.AccessKey, s.SecretKey
			if strings.HasSuffix(q.Form.Get("RoleArn"), "/first") {
				access, secret = "of-the-first", "hidden-key"
			}
			fmt.Fprintf(w, `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
				<AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><Expiration>%s</Expiration>
				</Credentials></AssumeRoleResult></AssumeRoleResponse>`, access, secret, time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano))
		}))
		write(t, "credentials", "[base]\naws_access_key_id = of-base\naws_secret_access_key = hidden-key\n")
		write(t, "config", "[profile between]\nrole_arn = arn:aws:iam::1:role/first\nsource_profile = base\n"+
			"[profile work]\nrole_arn = arn:aws:iam::1:role/second\nsource_profile = between\nexternal_id = x1\nregion = "+s.Region+"\n")
		b, err := blob.Open(t.Context(), "s3://"+s.Bucket, blob.Options{Endpoint: s.Endpoint})
		testenv.Must(t, err)
		list(t, b, "", true)
		want := []string{"AssumeRole arn:aws:iam::1:role/first  of-base", "AssumeRole arn:aws:iam::1:role/second x1 of-the-first"}
		testenv.EventuallyIs(t, "it is taken again", func() bool {
			list(t, b, "", true)
			mu.Lock()
			defer mu.Unlock()
			return len(asked) >= 4
		})
		if got := asked[:4]; !slices.Equal(got, slices.Concat(want, want)) {
			t.Errorf("%q", got)
		}
	})
	t.Run("roles that cannot be taken", func(t *testing.T) {
		refused := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Code>AccessDenied</Code><Message>not with hidden-key</Message></Error></ErrorResponse>`)
		})
		const arn = "role_arn = arn:aws:iam::1:role/r\n"
		for text, says := range map[string]string{
			arn + "source_profile = base\n":                        "not with [secret]",
			arn + "source_profile = base\nmfa_serial = m\n":        "mfa_serial",
			arn + "source_profile = nowhere\n":                     `no profile "nowhere"`,
			arn:                                                    "neither a source_profile nor a credential_source",
			arn + "credential_source = Environment\n":              "there are none",
			arn + "source_profile = loop\n":                        "there is no end of it",
			arn + "source_profile = work\naws_access_key_id = a\n": "partial",
		} {
			nobody(t)
			t.Setenv("AWS_PROFILE", "work")
			t.Setenv("AWS_ENDPOINT_URL_STS", refused)
			write(t, "config", "[profile base]\naws_access_key_id = b\naws_secret_access_key = hidden-key\n"+
				"[profile loop]\nsource_profile = loop2\n"+arn+"[profile loop2]\nsource_profile = loop\n"+arn+"[profile work]\n"+text)
			_, err := blob.Open(t.Context(), "s3://bucket", blob.Options{Endpoint: s.Endpoint})
			if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hidden-key") {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
	t.Run("no such profile", func(t *testing.T) {
		nobody(t)
		t.Setenv("AWS_PROFILE", "nowhere")
		_, err := blob.Open(t.Context(), "s3://bucket", blob.Options{})
		if err == nil || !strings.Contains(err.Error(), `no profile "nowhere"`) {
			t.Error(err)
		}
	})
	t.Run("a broken file", func(t *testing.T) {
		nobody(t)
		write(t, "credentials", "[default\naws_secret_access_key SECRET")
		_, err := blob.Open(t.Context(), "s3://bucket", blob.Options{Endpoint: s.Endpoint})
		if err == nil || strings.Contains(err.Error(), "SECRET") || !strings.Contains(err.Error(), ".aws/credentials") {
			t.Error(err)
		}
	})
	t.Run("none", func(t *testing.T) {
		nobody(t)
		_, err := blob.Open(t.Context(), "s3://bucket", blob.Options{Endpoint: s.Endpoint})
		for _, part := range []string{"AWS_ACCESS_KEY_ID", "AWS_PROFILE", "--anonymous", "AWS_EC2_METADATA_DISABLED"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s is not in: %v", part, err)
			}
		}
	})
	t.Run("a container that answers no more", func(t *testing.T) {
		nobody(t)
		asked := 0
		t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if asked++; asked == 2 || asked == 3 {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			fmt.Fprintf(w, `{"AccessKeyID": %q, "SecretAccessKey": %q, "Expiration": %q}`,
				s.AccessKey, s.SecretKey, time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano))
		}))
		b, err := blob.Open(t.Context(), "s3://"+s.Bucket, blob.Options{Endpoint: s.Endpoint})
		testenv.Must(t, err)
		testenv.EventuallyIs(t, "they are had again", func() bool {
			list(t, b, "", true)
			return asked > 3
		})
	})
	t.Run("an authority of one's own", func(t *testing.T) {
		nobody(t)
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<ListBucketResult></ListBucketResult>")
		}))
		t.Cleanup(server.Close)
		bundle := filepath.Join(t.TempDir(), "ca.pem")
		testenv.Must(t, os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
		t.Setenv("AWS_CA_BUNDLE", bundle)
		b, err := blob.Open(t.Context(), "s3://bucket", blob.Options{Endpoint: server.URL, Anonymous: true})
		testenv.Must(t, err)
		list(t, b, "", true)
	})
	t.Run("expired before their time", func(t *testing.T) {
		nobody(t)
		t.Setenv("AWS_ACCESS_KEY_ID", "old")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "old")
		endpoint := serve(t, func(w http.ResponseWriter, q *http.Request) {
			if strings.Contains(q.Header.Get("Authorization"), "Credential=old/") {
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, "<Error><Code>ExpiredToken</Code></Error>")
				return
			}
			w.Header().Set("ETag", `"v"`)
			w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
			fmt.Fprint(w, "<ListBucketResult></ListBucketResult>")
		})
		b, err := blob.Open(t.Context(), "s3://bucket", blob.Options{Endpoint: endpoint})
		testenv.Must(t, err)
		c, err := blob.Open(t.Context(), "s3://bucket", blob.Options{Endpoint: endpoint})
		testenv.Must(t, err)
		t.Setenv("AWS_ACCESS_KEY_ID", "new")
		list(t, b, "", true)
		_, err = c.Stat(t.Context(), "x")
		testenv.Must(t, err)
	})
}

// TestEndlessListing: a server whose pages lead back to earlier ones is refused, after the pages that
// it has.
func TestEndlessListing(t *testing.T) {
	for _, pages := range []int{1, 2, 7} {
		asked := 0
		endpoint := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			at := asked % pages
			if asked++; asked > 3 { // what comes before may differ
				at = (asked - 4) % pages
			}
			fmt.Fprintf(w, `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>`+
				`<Contents><Key>%d.jpg</Key><Size>1</Size></Contents></ListBucketResult>`, asked, at)
		})
		login(t, testenv.S3(t))
		o, err := blob.Open(t.Context(), "s3://bucket", blob.Options{Endpoint: endpoint})
		testenv.Must(t, err)
		for _, err = range o.List(t.Context(), "", true) {
			if err != nil {
				break
			}
		}
		if err == nil || !strings.Contains(err.Error(), "does not end") || asked > 4*pages+6 {
			t.Errorf("%d pages again and again: %v, after %d requests", pages, err, asked)
		}
	}
}

func TestOpen(t *testing.T) {
	nobody(t)
	for where, says := range map[string]string{
		"gs://b/x":                    "write s3://BUCKET/PREFIX",
		"https://u:secret@h/b":        "write s3://BUCKET/PREFIX",
		"s3://":                       "names no bucket",
		"s3://id:secret@bucket/x":     "holds no credentials",
		"s3://bucket/../x":            "no name of an object",
		"s3://bucket?x=1/":            "no name of a bucket",
		"s3://bucket/x|ftp://h":       "no URL of a server",
		"s3://bucket/x|http://h/b":    "must name a server only",
		"s3://bucket/x|http://u:p@h/": "must not hold credentials",
	} {
		where, endpoint, _ := strings.Cut(where, "|")
		_, err := blob.Open(context.Background(), where, blob.Options{Endpoint: endpoint, Anonymous: true, Region: "r"})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "id:secret") || strings.Contains(err.Error(), "u:") {
			t.Errorf("%s at %q: %v", where, endpoint, err)
		}
	}
	o, err := blob.Open(t.Context(), t.TempDir(), blob.Options{})
	testenv.Must(t, err)
	put(t, o, "x", "x")
	b, err := blob.Open(t.Context(), "s3://bucket/x/y/", blob.Options{Anonymous: true, Region: "r"})
	testenv.Must(t, err)
	if b.String() != "s3://bucket/x/y/" || !blob.IsURL(b.String()) || blob.IsURL(o.String()) {
		t.Errorf("%s, %s", b, o)
	}
}

// A server that asks for time gets it; one that asks for an hour does not get that.
func TestRetryAfter(t *testing.T) {
	s := testenv.S3(t)
	login(t, s)
	for _, c := range []struct {
		asked       string
		patience    time.Duration
		least, most time.Duration
	}{
		{"1", time.Minute, time.Second, 30 * time.Second},
		{time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), 2 * time.Second, 900 * time.Millisecond, 2 * time.Second},
		{"no time", time.Minute, 0, 30 * time.Second},
	} {
		var times []time.Time
		b := bucket(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if times = append(times, time.Now()); len(times) == 1 {
				w.Header().Set("Retry-After", c.asked)
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			fmt.Fprint(w, "<ListBucketResult></ListBucketResult>")
		}), "s3://bucket", blob.Options{Patience: c.patience})
		list(t, b, "", true)
		if len(times) != 2 || times[1].Sub(times[0]) < c.least || times[1].Sub(times[0]) > c.most {
			t.Errorf("%s: %v", c.asked, times)
		}
	}
}
