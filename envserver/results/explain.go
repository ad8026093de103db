package results

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
)

const blanked = "[redacted]"

// driverPattern is what gocloud.dev puts before the error of a driver.
var driverPattern = regexp.MustCompile(`^blob( \(key "[^"]*"\))? \(code=[A-Za-z]+\): `)

// urlPattern finds a URL's userinfo (2) and query (4), which may hold credentials: a transport's
// error tells the whole URL, an Azure SAS token included.
var urlPattern = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^\s"'/?#]*@)?([^\s"'?#]*)(\?[^\s"']*)?`)

// secretVariables are those that the drivers of stores read secrets from.
func secretVariables() []string {
	return []string{"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_KEY"}
}

// explain returns the error of a store as people are told it: what to do about it where that is
// known, and the store's own words. A status has room for little, so it leaves out what drivers say
// around them. URLs have neither userinfo nor query, and the secrets of the environment are
// blanked. It is nil for nil, and wraps the error.
func explain(err error) error {
	if err == nil {
		return nil
	}
	text := reason(err)
	for _, name := range secretVariables() {
		if secret := strings.TrimPrefix(strings.TrimSpace(os.Getenv(name)), "?"); secret != "" {
			text = strings.ReplaceAll(text, secret, blanked)
		}
	}
	text = urlPattern.ReplaceAllString(text, "$1$3")
	for _, a := range advised {
		if a.about.MatchString(text) {
			text = a.text + ": " + text
			break
		}
	}
	return &explained{text: text, err: err}
}

type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }

func (e *explained) Unwrap() error { return e.err }

// reason is what the store answered, or why nothing came of asking it.
func reason(err error) string {
	var answer interface {
		ErrorCode() string
		ErrorMessage() string
	}
	var response interface{ HTTPStatusCode() int }
	var network *net.OpError
	switch {
	case errors.As(err, &answer):
		text := strings.TrimSuffix(cmp.Or(answer.ErrorMessage(), "no more is said"), ".")
		if errors.As(err, &response) {
			text += fmt.Sprintf(" (HTTP %d)", response.HTTPStatusCode())
		}
		return answer.ErrorCode() + ": " + text
	case errors.As(err, &network):
		return network.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded.Error()
	}
	return driverPattern.ReplaceAllString(err.Error(), "")
}

// advice is what to do about errors that say something.
type advice struct {
	about *regexp.Regexp
	text  string
}

var advised = []advice{
	{regexp.MustCompile(`^NoSuchBucket|ContainerNotFound|bucket does not exist`),
		"there is no such bucket, make it or correct its name"},
	{regexp.MustCompile(`^(SignatureDoesNotMatch|InvalidAccessKeyId|InvalidToken|ExpiredToken)|AuthenticationFailed`),
		"the store refuses the credentials, correct them"},
	{regexp.MustCompile(`^(AccessDenied|Forbidden)|AuthorizationPermissionMismatch|Error 403`),
		"the credentials have to be allowed to list, read and create objects"},
	{regexp.MustCompile(`get credentials|could not find default credentials`),
		"there are no credentials, set the variables of docs/results.md"},
	{regexp.MustCompile(`^(AuthorizationHeaderMalformed|PermanentRedirect|IllegalLocationConstraint)`),
		"the bucket is in another region, set region in the URL"},
	{regexp.MustCompile(`^(InsufficientStorage|QuotaExceeded)|HTTP 507|no space left`), "the store is full, make room"},
	{regexp.MustCompile(`connection refused|no such host|no route to host|i/o timeout`),
		"nobody answers there, start the store or correct its address"},
	{regexp.MustCompile(`deadline exceeded`), "the store doesn't answer in time, look whether it hangs"},
}
