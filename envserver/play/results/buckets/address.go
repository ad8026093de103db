package buckets

import (
	"fmt"
	"net/url"
)

// Address is to whom the requests for a location are sent: its scheme and bucket, and the
// parameters that choose a server or an account.
func Address(location string) (string, error) {
	u, err := url.Parse(location)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("%q is not the URL of a bucket, such as s3://BUCKET/PREFIX", location)
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", fmt.Errorf("reading the parameters of %q: %w", location, err)
	}
	place := url.Values{}
	for _, name := range []string{"endpoint", "storage_account", "domain", "protocol", "cdn", "localemu"} {
		if values := q[name]; len(values) > 0 {
			place[name] = values
		}
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, RawQuery: place.Encode()}).String(), nil
}
