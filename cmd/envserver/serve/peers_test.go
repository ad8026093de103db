package serve

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/testkit"
)

// Two servers with one key and one certificate, which doesn't name their addresses, play each
// other's sessions. Neither forwards anything to a server with another certificate's key.
func TestPeers(t *testing.T) {
	key, _ := writeKey(t)
	folder := t.TempDir()
	roots := x509.NewCertPool()
	certificate := func(name string, serial int) (string, string) {
		crt, private := filepath.Join(folder, name+".crt"), filepath.Join(folder, name+".key")
		roots.AddCert(certify(t, crt, private, serial))
		return crt, private
	}
	crt, private := certificate("pool", 1)
	foreignCrt, foreignPrivate := certificate("foreign", 2)
	addresses := testkit.FreeAddresses(t, 3)
	for i, address := range addresses {
		start(t, func(o *options) {
			o.addr, o.advertise, o.peers, o.ledgerKey, o.maxSessions = address, address, addresses, key, 1
			if o.tlsCertFile, o.tlsKeyFile = crt, private; i == 2 {
				o.tlsCertFile, o.tlsKeyFile = foreignCrt, foreignPrivate
			}
		})
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots,
		MinVersion: tls.VersionTLS12}}}
	begin := func() string {
		t.Helper()
		response, err := client.Post("https://"+addresses[0]+"/mcp", "",
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"openenv/session/create"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	for i, want := range []string{"session_id", "session_id", "1/1 sessions"} {
		if body := begin(); !strings.Contains(body, want) {
			t.Errorf("session %d: %s, want %s", i, body, want)
		}
	}
}

func TestLookUp(t *testing.T) {
	got, err := lookUp(t.Context(), []string{"192.0.2.1:8000", "[2001:db8::1]:9", "no-such-host.invalid:1"})
	if diff := cmp.Diff([]string{"192.0.2.1:8000", "[2001:db8::1]:9"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	if got, err := lookUp(t.Context(), []string{"no-such-host.invalid:1"}); err == nil {
		t.Errorf("no error for a name without addresses but %v", got)
	}
}
