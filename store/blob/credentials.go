package blob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"gopkg.in/ini.v1"
)

const amazon = "https://s3.amazonaws.com"

func env(name string) string { return os.Getenv(name) }

// first is the first of some strings that is not empty.
func first(of ...string) string {
	for _, s := range of {
		if s != "" {
			return s
		}
	}
	return ""
}

// profile is what ~/.aws says of the place of buckets.
type profile struct {
	name             string
	found            bool
	region, endpoint string
	role             role
}

// usualProfile is the name of the one that the environment chooses.
func usualProfile() string {
	return first(env("AWS_PROFILE"), env("AWS_DEFAULT_PROFILE"), defaultProfile)
}

const defaultProfile = "default"

// loadProfile reads a profile of the files of the tools of AWS. Only the default one need not be there.
func loadProfile(name string) (profile, error) {
	p := profile{name: name}
	home, _ := os.UserHomeDir()
	config := first(env("AWS_CONFIG_FILE"), filepath.Join(home, ".aws/config"))
	secrets := first(env("AWS_SHARED_CREDENTIALS_FILE"), filepath.Join(home, ".aws/credentials"))
	for _, path := range []string{config, secrets} {
		file, err := ini.Load(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			// The library's message may quote a line, and a line may be a secret.
			var of *fs.PathError
			if errors.As(err, &of) {
				return p, of
			}
			return p, fmt.Errorf("%s is no file of profiles of AWS", path)
		}
		for _, section := range []string{"profile " + p.name, p.name} {
			if s, err := file.GetSection(section); err == nil {
				p.found = p.found || len(s.Keys()) > 0
				p.region = first(s.Key("region").String(), p.region)
				p.endpoint = first(s.Key("endpoint_url").String(), p.endpoint)
				r := &p.role
				for key, to := range map[string]*string{
					"role_arn": &r.arn, "source_profile": &r.source, "credential_source": &r.from,
					"external_id": &r.external, "role_session_name": &r.session, "mfa_serial": &r.mfa,
				} {
					*to = first(s.Key(key).String(), *to)
				}
				r.seconds = s.Key("duration_seconds").MustInt(r.seconds)
			}
		}
	}
	if name != defaultProfile && !p.found {
		return p, fmt.Errorf("there is no profile %q in %s or %s; AWS_PROFILE, or source_profile of another one, names it", p.name, config, secrets)
	}
	return p, nil
}

// source finds credentials where the tools of AWS do, and in their order: the environment, a web
// identity, the profile, and the metadata of the container or of the machine.
type source struct {
	until   context.Context // of requests that nobody waits for; nil is for ever
	profile profile
	region  string // that was asked for; "" leaves it to the environment and the profile

	mu      sync.Mutex
	from    string // where they were found
	current credentials.Provider
	value   credentials.Value
	renewal time.Time // no sooner, because it failed
	known   []string  // secrets, of which none may be said
}

// errRenewal: there were credentials, and they could not be had again.
var errRenewal = errors.New("the credentials could not be renewed")

// String says where the credentials are from.
func (s *source) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return "from " + s.from
}

func (s *source) secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.known)
}

type place struct {
	from string
	of   credentials.Provider
	// patience is short where there may be nobody to answer.
	patience time.Duration
	// absent is why there is nothing to look at, or "".
	absent string
}

func (s *source) places() []place {
	identity := place{from: "the web identity of AWS_WEB_IDENTITY_TOKEN_FILE", of: &credentials.IAM{}, patience: 10 * time.Second}
	if env("AWS_WEB_IDENTITY_TOKEN_FILE") == "" {
		identity.absent = "AWS_WEB_IDENTITY_TOKEN_FILE is not set"
	}
	file := place{from: fmt.Sprintf("the profile %q in ~/.aws", s.profile.name), of: &credentials.FileAWSCredentials{Profile: s.profile.name}, patience: 10 * time.Second}
	if s.profile.role.arn != "" {
		file.from = fmt.Sprintf("the role of the profile %q in ~/.aws", s.profile.name)
		file.of = &roleTaker{profile: s.profile, region: s.region, know: s.know}
	}
	if !s.profile.found {
		file.absent = "it is not there"
	}
	metadata := place{from: "the metadata of this machine", of: &credentials.IAM{}, patience: 3 * time.Second}
	switch {
	case env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != "" || env("AWS_CONTAINER_CREDENTIALS_FULL_URI") != "":
		metadata.from = "the metadata of this container"
	case strings.EqualFold(env("AWS_EC2_METADATA_DISABLED"), "true"):
		metadata.absent = "AWS_EC2_METADATA_DISABLED is set"
	}
	return []place{
		{from: "the environment (AWS_ACCESS_KEY_ID)", of: &credentials.EnvAWS{}, patience: time.Second},
		identity, file, metadata,
	}
}

// RetrieveWithCredContext looks for credentials.
func (s *source) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	var tried []string
	for _, p := range s.places() {
		if p.absent != "" {
			tried = append(tried, p.from+": "+p.absent)
			continue
		}
		limited, cancel := s.withTimeout(cc, p.patience)
		v, err := p.of.RetrieveWithCredContext(limited)
		cancel()
		switch {
		case err != nil:
			tried = append(tried, p.from+": "+err.Error())
		case v.AccessKeyID == "" || v.SecretAccessKey == "":
			tried = append(tried, p.from+": nothing")
		default:
			v.SignerType = credentials.SignatureV4
			s.found(p, v)
			return v, nil
		}
	}
	looked := strings.Join(tried, "; ")
	if old, err := s.missed(); err == nil || errors.Is(err, errRenewal) {
		if err != nil {
			err = fmt.Errorf("%w: %s", err, looked)
		}
		return old, err
	}
	return credentials.Value{}, fmt.Errorf("there are no credentials for object storage: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; a public bucket needs --anonymous. Looked at %s", looked)
}

// missed is what to do when there are no new credentials: the old ones are good for a while, or were
// there, or have never been.
func (s *source) missed() (credentials.Value, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.current == nil:
		return credentials.Value{}, fs.ErrNotExist
	case time.Until(s.value.Expiration) > 0:
		s.renewal = time.Now().Add(min(30*time.Second, time.Until(s.value.Expiration)/2))
		return s.value, nil
	}
	return credentials.Value{}, errRenewal
}

func (s *source) found(p place, v credentials.Value) {
	s.know(v)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from, s.current, s.value = p.from, p.of, v
}

// know takes note of secrets, of which none may be said.
func (s *source) know(v credentials.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range []string{v.SecretAccessKey, v.SessionToken} {
		if secret != "" && !slices.Contains(s.known, secret) {
			s.known = append(s.known, secret)
		}
	}
	if extra := len(s.known) - 16; extra > 0 { // of credentials that were renewed long ago
		s.known = s.known[extra:]
	}
}

// Retrieve implements credentials.Provider.
func (s *source) Retrieve() (credentials.Value, error) {
	return s.RetrieveWithCredContext(&credentials.CredContext{Client: http.DefaultClient})
}

// IsExpired reports whether it is time to look again.
func (s *source) IsExpired() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current == nil || s.current.IsExpired() && time.Now().After(s.renewal)
}

func (s *source) withTimeout(cc *credentials.CredContext, d time.Duration) (*credentials.CredContext, context.CancelFunc) {
	c := *cc
	if c.Context == nil {
		c.Context = cmp.Or(s.until, context.Background())
	}
	var cancel context.CancelFunc
	c.Context, cancel = context.WithTimeout(c.Context, d)
	return &c, cancel
}

// usualRegion is what servers that have one region take for it.
const usualRegion = "us-east-1"

// findRegion asks a server of AWS where a bucket is. It needs no rights.
func findRegion(ctx context.Context, way http.RoundTripper, server, bucket string) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodHead, server+"/"+bucket, nil)
	if err != nil {
		return usualRegion
	}
	answer, err := way.RoundTrip(q)
	if err != nil {
		return usualRegion // the first request says what is wrong
	}
	_ = answer.Body.Close()
	return first(answer.Header.Get("X-Amz-Bucket-Region"), usualRegion)
}

// role is one of AWS that a profile says to take. It is asked of the security token service, with
// other credentials.
type role struct {
	arn      string
	source   string // the profile that these credentials are of
	from     string // or where else they come from
	external string
	session  string
	mfa      string
	seconds  int // that it is taken for; 0 leaves it to the server
}

// maxRoles bounds how many profiles refer to the next one.
const maxRoles = 5

// roleTaker takes the role of a profile.
type roleTaker struct {
	credentials.Expiry
	profile profile
	region  string
	know    func(credentials.Value) // is told of secrets
}

// RetrieveWithCredContext implements credentials.Provider.
func (r *roleTaker) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	v, err := r.take(cc, r.profile, 1)
	if err == nil {
		r.SetExpiration(v.Expiration, credentials.DefaultExpiryWindow)
	}
	return v, err
}

// Retrieve implements credentials.Provider.
func (r *roleTaker) Retrieve() (credentials.Value, error) { return r.RetrieveWithCredContext(nil) }

func (r *roleTaker) take(cc *credentials.CredContext, p profile, roles int) (credentials.Value, error) {
	if p.role.mfa != "" {
		return credentials.Value{}, fmt.Errorf("the profile %q has an mfa_serial, and nobody can be asked for its code: let the tools of AWS take the role, and export what they get (aws configure export-credentials --format env)", p.name)
	}
	v, err := r.source(cc, p, roles)
	if err != nil {
		return v, err
	}
	if v.AccessKeyID == "" || v.SecretAccessKey == "" {
		return v, fmt.Errorf("the role of the profile %q is taken with other credentials, and there are none", p.name)
	}
	r.know(v)
	region := first(env("AWS_REGION"), env("AWS_DEFAULT_REGION"), p.region, r.region, usualRegion)
	sts := &credentials.STSAssumeRole{
		STSEndpoint: first(env("AWS_ENDPOINT_URL_STS"), env("AWS_ENDPOINT_URL"), p.endpoint, "https://sts."+region+".amazonaws.com"),
		Options: credentials.STSAssumeRoleOptions{
			AccessKey: v.AccessKeyID, SecretKey: v.SecretAccessKey, SessionToken: v.SessionToken, Location: region,
			RoleARN: p.role.arn, RoleSessionName: first(p.role.session, fmt.Sprintf("pipefs-%d", time.Now().Unix())),
			ExternalID: p.role.external, DurationSeconds: p.role.seconds,
		},
	}
	if v, err = sts.RetrieveWithCredContext(cc); err != nil {
		return v, fmt.Errorf("taking the role %s at %s: %w", p.role.arn, sts.STSEndpoint, err)
	}
	return v, nil
}

// source is what a role is taken with.
func (r *roleTaker) source(cc *credentials.CredContext, p profile, roles int) (credentials.Value, error) {
	switch {
	case p.role.source != "" && p.role.source != p.name:
		next, err := loadProfile(p.role.source)
		switch {
		case err != nil:
			return credentials.Value{}, err
		case next.role.arn == "":
		case roles == maxRoles:
			return credentials.Value{}, errors.New("each source_profile has a source_profile, and there is no end of it")
		default:
			return r.take(cc, next, roles+1)
		}
		fallthrough
	case p.role.source != "":
		return (&credentials.FileAWSCredentials{Profile: p.role.source}).RetrieveWithCredContext(cc)
	case p.role.from == "Environment":
		return (&credentials.EnvAWS{}).RetrieveWithCredContext(cc)
	case p.role.from == "Ec2InstanceMetadata", p.role.from == "EcsContainer":
		return (&credentials.IAM{}).RetrieveWithCredContext(cc)
	}
	return credentials.Value{}, fmt.Errorf("the profile %q has a role_arn, and neither a source_profile nor a credential_source (Environment, Ec2InstanceMetadata, EcsContainer) to take it with; a web identity goes by AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN", p.name)
}
