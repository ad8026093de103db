// Package buckets opens result stores in the buckets of S3, Google Cloud Storage and Azure. Its
// drivers make up much of a program, so only programs that store or read episodes import it.
//
// A URL may come from a stranger, and a runner's variables from a run's author. So the clients are
// made of the parameters and variables that are named here, and of the identity that a cloud gives
// to a pod or machine. They read no shared configuration file, no profile and no credential that
// names further files, and run no helper program.
package buckets

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"gocloud.dev/blob"

	"github.com/csenv/csenv/envserver/play/results"
)

// Open opens a store: a folder, or the URL of a bucket and a prefix.
func Open(ctx context.Context, location string) (*results.Store, error) {
	return results.OpenWith(ctx, location, open)
}

// Variables are the variables with the credentials and the place of a store. A Secret of a
// run's author has keys of these names.
var Variables = []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION",
	"AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY",
	"AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_DOMAIN", googleCredentials}

// open opens a bucket, whose URL has no path.
func open(ctx context.Context, u *url.URL) (*blob.Bucket, error) {
	if u.Host == "" {
		return nil, errors.New("the URL names no bucket: write SCHEME://BUCKET/PREFIX")
	}
	switch u.Scheme {
	case "s3":
		return openS3(ctx, u)
	case "gs":
		return openGoogle(ctx, u)
	case "azblob":
		return openAzure(ctx, u)
	}
	return nil, fmt.Errorf("%s is no scheme of a store: use s3, gs or azblob, or a folder", u.Scheme)
}

// readParameters returns the parameters of a URL, which must be of the given names.
func readParameters(u *url.URL, names ...string) (url.Values, error) {
	parameters, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("reading the URL's parameters: %w", err)
	}
	for name, values := range parameters {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("the URL's parameter %q is none of those for %s: %s", name, u.Scheme,
				strings.Join(names, ", "))
		}
		if len(values) > 1 {
			return nil, fmt.Errorf("the URL has the parameter %s twice", name)
		}
	}
	return parameters, nil
}

func readBool(parameters url.Values, name string) (bool, error) {
	text := parameters.Get(name)
	if text == "" {
		return false, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("the URL's parameter %s is %q: write true or false", name, text)
	}
	return value, nil
}

// firstVariable returns the first of the variables that is set, without the line break at the end
// of a file.
func firstVariable(names ...string) string {
	for _, name := range names {
		if value := strings.TrimSpace(os.Getenv(name)); value != "" {
			return value
		}
	}
	return ""
}

// noIdentity is the error of a bucket at an address of its own without credentials of its own: the
// identity of the pod or machine is for the cloud that gave it.
func noIdentity(address string) error {
	return fmt.Errorf("could not find default credentials for %s, to which the identity of a pod or machine is "+
		"not sent", address)
}
