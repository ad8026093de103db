package buckets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"
)

// openS3 makes the client by itself, because the SDK's default configuration reads files, and runs
// the credential_process that they name.
func openS3(ctx context.Context, u *url.URL) (*blob.Bucket, error) {
	q, err := readParameters(u, "region", "endpoint", "use_path_style", "anonymous", "request_checksum_calculation",
		"response_checksum_validation", "ssetype", "kmskeyid")
	if err != nil {
		return nil, err
	}
	pathStyle, err := readBool(q, "use_path_style")
	if err != nil {
		return nil, err
	}
	endpoint := cmp.Or(q.Get("endpoint"), firstVariable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
	cfg := aws.Config{
		Region: cmp.Or(q.Get("region"), firstVariable("AWS_REGION", "AWS_DEFAULT_REGION")),
		HTTPClient: awshttp.NewBuildableClient().WithDialerOptions(func(d *net.Dialer) {
			d.ControlContext = dialControl(endpoint)
		}),
		Retryer: func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) { o.RateLimiter = ratelimit.None })
		},
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
	}
	if cfg.Region == "" {
		return nil, errors.New("missing region")
	}
	if !regionLabel.MatchString(cfg.Region) { // it becomes a part of the host to which identities are sent
		return nil, fmt.Errorf("the region %q is not a name such as eu-central-1", cfg.Region)
	}
	if err := setChecksums(&cfg, q); err != nil {
		return nil, err
	}
	if cfg.Credentials, err = findAWSCredentials(cfg, endpoint, q); err != nil {
		return nil, err
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = pathStyle
		if endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
	})
	return s3blob.OpenBucket(ctx, client, u.Host, &s3blob.Options{
		EncryptionType:             types.ServerSideEncryption(q.Get("ssetype")),
		KMSEncryptionID:            q.Get("kmskeyid"),
		RequestChecksumCalculation: cfg.RequestChecksumCalculation,
	})
}

func setChecksums(cfg *aws.Config, q url.Values) error {
	for _, name := range []string{"request_checksum_calculation", "response_checksum_validation"} {
		switch value := strings.ToLower(q.Get(name)); {
		case value == "", value == "when_supported":
		case value == "when_required" && strings.HasPrefix(name, "request"):
			cfg.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		case value == "when_required":
			cfg.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		default:
			return fmt.Errorf("the URL's parameter %s is %q: write when_supported or when_required", name, value)
		}
	}
	return nil
}

// findAWSCredentials returns the keys of the variables or, for buckets of AWS, the identity of the
// pod (web identity, then the container's) or of the machine.
func findAWSCredentials(cfg aws.Config, endpoint string, q url.Values) (aws.CredentialsProvider, error) {
	anonymous, err := readBool(q, "anonymous")
	if anonymous || err != nil {
		return aws.AnonymousCredentials{}, err
	}
	id, secret := firstVariable("AWS_ACCESS_KEY_ID"), firstVariable("AWS_SECRET_ACCESS_KEY")
	if id != "" && secret != "" {
		return credentials.NewStaticCredentialsProvider(id, secret, firstVariable("AWS_SESSION_TOKEN")), nil
	}
	if !belongsToAWS(endpoint) {
		return nil, noIdentity(endpoint)
	}
	provider, err := findAWSIdentity(cfg)
	if err != nil {
		return nil, err
	}
	return aws.NewCredentialsCache(provider), nil
}

// region is the pattern of AWS's regions, and hostOfS3 of S3's endpoints: other names in
// amazonaws.com are of whoever rents a gateway, a balancer or a machine there.
const region = `[a-z]{2,4}(-[a-z]+)+-\d{1,2}`

var (
	hostOfS3 = regexp.MustCompile(`^([^/]+\.)?(s3(-fips|-accesspoint|-accesspoint-fips)?(\.dualstack)?\.` + region +
		`|s3(-` + region + `)?|s3-accelerate(\.dualstack)?|s3express-[a-z0-9-]+\.` + region + `|s3\.` + region +
		`\.vpce)\.amazonaws\.com(\.cn)?$`)
	regionLabel = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)
)

// belongsToAWS reports whether a bucket without an endpoint, or with this one, is in AWS.
func belongsToAWS(endpoint string) bool {
	if endpoint == "" {
		return true
	}
	u, err := url.Parse(endpoint)
	return err == nil && u.Scheme == "https" && hostOfS3.MatchString(u.Hostname())
}

func findAWSIdentity(cfg aws.Config) (aws.CredentialsProvider, error) {
	token, role := firstVariable("AWS_WEB_IDENTITY_TOKEN_FILE"), firstVariable("AWS_ROLE_ARN")
	if token != "" && role != "" {
		return stscreds.NewWebIdentityRoleProvider(sts.NewFromConfig(cfg), role, stscreds.IdentityTokenFile(token),
			func(o *stscreds.WebIdentityRoleOptions) {
				o.RoleSessionName = cmp.Or(firstVariable("AWS_ROLE_SESSION_NAME"), "csenv")
			}), nil
	}
	at := firstVariable("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	if path := firstVariable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); path != "" {
		at = "http://169.254.170.2" + path
	}
	if at == "" {
		return ec2rolecreds.New(), nil
	}
	if !servesContainers(at) {
		return nil, errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI is no address of ECS or EKS on this machine")
	}
	return endpointcreds.New(at, func(o *endpointcreds.Options) {
		o.AuthorizationToken = firstVariable("AWS_CONTAINER_AUTHORIZATION_TOKEN")
		if file := firstVariable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
			o.AuthorizationTokenProvider = endpointcreds.TokenProviderFunc(func() (string, error) {
				text, err := os.ReadFile(file) //nolint:gosec // a variable that EKS sets and no run's author
				return strings.TrimSpace(string(text)), err
			})
		}
	}), nil
}

// servesContainers reports whether a URL is of those at which AWS serves the credentials of
// containers.
func servesContainers(at string) bool {
	u, err := url.Parse(at)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && (ip.IsLoopback() || ip.IsLinkLocalUnicast() ||
		ip == netip.MustParseAddr("fd00:ec2::23"))
}
