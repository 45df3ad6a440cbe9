package blob

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"
)

// errNoBucket tells a bucket that is not there from an object that is not.
var errNoBucket = fmt.Errorf("the bucket does not exist: %w", fs.ErrNotExist)

// noUser is how versitygw says InvalidAccessKeyId.
const noUser = "XAdminUserNotFound"

// classOf is the class of an error, or nil.
func classOf(err error) error {
	var a minio.ErrorResponse
	switch {
	case errors.Is(err, errEnds):
		return io.ErrUnexpectedEOF
	case !errors.As(err, &a):
		return nil
	}
	switch {
	case a.Code == minio.NoSuchBucket:
		return errNoBucket
	case a.Code == minio.NoSuchKey || a.Code == "NotFound" || a.Code == hubNoEntry || a.Code == hubNoRevision || a.Code == hubNoRepo:
		return fs.ErrNotExist
	case a.Code == minio.InvalidAccessKeyID || a.Code == noUser:
		return fs.ErrPermission
	case a.StatusCode == http.StatusPreconditionFailed:
		return ErrChanged
	case a.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return io.ErrUnexpectedEOF
	case a.StatusCode == http.StatusForbidden || a.StatusCode == http.StatusUnauthorized:
		return fs.ErrPermission
	}
	return nil
}

// explain makes an error of the server one for the user: which object, what the server says, and
// what to do.
func (b *Bucket) explain(r request, err error) error {
	class := classOf(err)
	switch {
	case errors.Is(err, ErrChanged):
		return fmt.Errorf("%s: %w", b.url(r.name), ErrChanged)
	case errors.Is(class, errNoBucket):
	case errors.Is(class, fs.ErrNotExist), errors.Is(class, ErrChanged), errors.Is(class, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: %w", b.url(r.name), class)
	}
	err = b.plain(err)
	return b.failed(r, err, class, b.advice(r, err))
}

// failed is an error with advice; it is of a class, if there is one.
func (c *client) failed(r request, err, class error, advice string) error {
	said := err.Error()
	if advice != "" {
		said += "; " + advice
	}
	return &failure{fmt.Sprintf("%s %s at %s: %s", r.op, c.url(r.name), c.endpoint, said), cmp.Or(class, err)}
}

// failure is a text with a class.
type failure struct {
	text  string
	class error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.class }

// rights are what the operations need.
var rights = map[string]string{OpGet: "s3:GetObject", OpStat: "s3:GetObject", OpList: "s3:ListBucket", OpPut: "s3:PutObject", OpDelete: "s3:DeleteObject"}

// advice says what the user can do about an error.
func (b *Bucket) advice(r request, err error) string {
	var a minio.ErrorResponse
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return "check --endpoint and --region, or the name service"
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return "the server does not speak TLS: write http:// in --endpoint"
	}
	if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) {
		return "if it is the server's own authority that signed, let AWS_CA_BUNDLE name the file with its certificate"
	}
	if !errors.As(err, &a) {
		return ""
	}
	switch a.Code {
	case minio.NoSuchBucket:
		return "check the name of the bucket, --endpoint and --region"
	case minio.InvalidAccessKeyID, noUser, "InvalidToken", "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired":
		return "the credentials are " + b.source.String() + "; get new ones there"
	case minio.SignatureDoesNotMatch:
		return "the secret key does not belong to the access key; the credentials are " + b.source.String()
	case "RequestTimeTooSkewed", "RequestExpired":
		return "the clock of this machine is wrong: set it, for example by timedatectl set-ntp true"
	case "AuthorizationHeaderMalformed", "PermanentRedirect", minio.InvalidRegion, "IllegalLocationConstraintException":
		if a.Region != "" {
			return "the bucket is in another region: --region " + a.Region
		}
		return fmt.Sprintf("the bucket is not in the region %s: say which by --region or AWS_REGION", b.options.Region)
	}
	switch a.StatusCode {
	case http.StatusForbidden, http.StatusUnauthorized:
		if b.source == nil {
			return "the bucket is not public; leave out --anonymous, and give credentials"
		}
		advice := fmt.Sprintf("the credentials %s need the right %s", b.source, rights[r.op])
		if r.op == OpStat || r.op == OpGet {
			advice += " (and s3:ListBucket, without which an object that is not there looks the same)"
		}
		return advice
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect:
		return "the bucket is in another region or at another server: check --region and --endpoint"
	case http.StatusNotImplemented:
		return "this server cannot do what pipefs needs of it"
	}
	return ""
}

// plainly is an error for messages: with the server's code for it, and without the URL of the request,
// which the message has already, and without secrets.
func (b *Bucket) plainly(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	var a minio.ErrorResponse
	if errors.As(err, &a) && a.Code != "" && !strings.Contains(a.Error(), a.Code) {
		a.Message = a.Code + ": " + a.Error()
		err = a
	}
	return b.scrub(err)
}

// scrub makes sure that no secret of the credentials stands in a message. None is known to: this
// is for what libraries and servers may come to say.
func (b *Bucket) scrub(err error) error {
	if err == nil || b.source == nil {
		return err
	}
	text := err.Error()
	clean := text
	for _, secret := range b.source.secrets() {
		clean = strings.ReplaceAll(clean, secret, "[secret]")
	}
	if clean == text {
		return err
	}
	var a minio.ErrorResponse
	switch {
	case errors.As(err, &a):
		return minio.ErrorResponse{Code: a.Code, Message: clean, StatusCode: a.StatusCode, Region: a.Region}
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{clean, context.DeadlineExceeded}
	}
	return errors.New(clean)
}
