package results

import (
	"os"
	"regexp"
	"strings"
)

const blanked = "[redacted]"

// urlPattern finds a URL's userinfo (2) and query (4), which may hold credentials: a transport's error tells the whole URL, an Azure SAS token included.
var urlPattern = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^\s"'/?#]*@)?([^\s"'?#]*)(\?[^\s"']*)?`)

// secretVariables are those that the drivers of stores read secrets from.
func secretVariables() []string {
	return []string{"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_KEY"}
}

// Redact returns the error of a store with a text that may be logged and told: URLs have neither userinfo nor query, and the secrets of the environment are blanked. It is nil for nil, and wraps the error.
func Redact(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, name := range secretVariables() {
		if secret := strings.TrimPrefix(strings.TrimSpace(os.Getenv(name)), "?"); secret != "" {
			text = strings.ReplaceAll(text, secret, blanked)
		}
	}
	return &redacted{text: urlPattern.ReplaceAllString(text, "$1$3"), err: err}
}

type redacted struct {
	text string
	err  error
}

func (r *redacted) Error() string { return r.text }

func (r *redacted) Unwrap() error { return r.err }
