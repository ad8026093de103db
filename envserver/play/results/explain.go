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

// driverPattern matches the prefix that gocloud.dev adds to the error of a driver.
var driverPattern = regexp.MustCompile(`^blob( \(key "[^"]*"\))? \(code=[A-Za-z]+\): `)

// urlPattern finds a URL's userinfo (2) and query (4), which may have credentials: the error of a
// transport has the whole URL, an Azure SAS token included.
var urlPattern = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^\s"'/?#]*@)?([^\s"'?#]*)(\?[^\s"']*)?`)

// secretVariables are the variables from which the drivers of stores read secrets.
func secretVariables() []string {
	return []string{"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_KEY"}
}

// explainError wraps the error of a store for users: known advice, and the store's own message
// without the driver's text, because a status has little room. URLs lose their userinfo and query,
// and the secrets of the environment are redacted. It returns nil for nil.
func explainError(err error) error {
	if err == nil {
		return nil
	}
	text := extractMessage(err)
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

// extractMessage returns the store's message, or the reason why it is missing.
func extractMessage(err error) string {
	var answer interface {
		ErrorCode() string
		ErrorMessage() string
	}
	var response interface{ HTTPStatusCode() int }
	var network *net.OpError
	switch {
	case errors.As(err, &answer):
		text := strings.TrimSuffix(cmp.Or(answer.ErrorMessage(), "no message"), ".")
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

// advice is what to do about the errors that a pattern matches.
type advice struct {
	about *regexp.Regexp
	text  string
}

var advised = []advice{
	{regexp.MustCompile(`^NoSuchBucket|ContainerNotFound|bucket does not exist`),
		"there is no such bucket: create it or correct its name"},
	{regexp.MustCompile(`^(SignatureDoesNotMatch|InvalidAccessKeyId|InvalidToken|ExpiredToken)|AuthenticationFailed`),
		"the store rejects the credentials: correct them"},
	{regexp.MustCompile(`^(AccessDenied|Forbidden)|AuthorizationPermissionMismatch|Error 403`),
		"the credentials need permission to list, read and create objects"},
	{regexp.MustCompile(`get credentials|could not find default credentials`),
		"there are no credentials: set the variables of docs/results.md"},
	{regexp.MustCompile(`^(AuthorizationHeaderMalformed|PermanentRedirect|IllegalLocationConstraint)`),
		"the bucket is in another region: set region in the URL"},
	{regexp.MustCompile(`region was not a valid DNS name|[Mm]issing [Rr]egion|no region`),
		"the bucket's region is missing: set region in the URL, such as ?region=us-east-1, or AWS_REGION"},
	{regexp.MustCompile(`^(InsufficientStorage|QuotaExceeded)|HTTP 507|no space left`),
		"the store is full: free some space"},
	{regexp.MustCompile(`connection refused|no such host|no route to host|i/o timeout`),
		"the address does not answer: start the store or correct its address"},
	{regexp.MustCompile(`deadline exceeded`), "the store does not answer in time: check whether it hangs"},
}
