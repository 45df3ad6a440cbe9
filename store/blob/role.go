package blob

import (
	"errors"
	"fmt"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

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
