package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// front passes requests on to an API server with its administrator's rights, or fails.
type front struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	reason string
}

func newFront(t *testing.T, config *rest.Config) *front {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	f := &front{status: http.StatusOK}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		status, reason := f.status, f.reason
		f.mu.Unlock()
		switch status {
		case http.StatusOK:
			proxy.ServeHTTP(w, r)
		case 0:
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
				Status: metav1.StatusFailure, Reason: metav1.StatusReason(reason),
				Code:    int32(status),
				Message: "the server could not find the requested resource"})
		}
	}))
	t.Cleanup(func() { f.CloseClientConnections(); f.Close() })
	return f
}

// fail answers all further requests with a status, or closes their connections if it is 0, and ends
// those that are open.
func (f *front) fail(status int, reason string) {
	f.mu.Lock()
	f.status, f.reason = status, reason
	f.mu.Unlock()
	f.CloseClientConnections()
}

func (f *front) kubeconfig(namespace string) []byte {
	return fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: a,
clusters: [{name: a, cluster: {server: %q}}],
contexts: [{name: a, context: {cluster: a, namespace: %s}}]}`, f.URL, namespace)
}
