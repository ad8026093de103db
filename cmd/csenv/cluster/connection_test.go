package cluster

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// A server whose certificate isn't trusted does answer.
func TestExplainDistrustedServer(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	_, err := http.DefaultClient.Get(server.URL) //nolint:noctx,bodyclose // it fails
	if distrusted := (*tls.CertificateVerificationError)(nil); !errors.As(err, &distrusted) {
		t.Fatal(err)
	}
	if text := ExplainError(err, "reading runs").Error(); !strings.Contains(text, "certificate") ||
		strings.Contains(text, "doesn't answer") {
		t.Error(text)
	}
	err = &url.Error{Op: "Get", URL: server.URL, Err: errors.New("connection refused")}
	if text := ExplainError(err, "reading runs").Error(); !strings.Contains(text, "doesn't answer") {
		t.Error(text)
	}
}
