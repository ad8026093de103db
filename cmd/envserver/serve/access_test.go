package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// writeFile writes a file whose time differs from that of every earlier version.
func writeFile(t *testing.T, path, text string, version int) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	modified := time.Unix(int64(1_000_000+version), 0)
	if err := os.Chtimes(path, modified, modified); err != nil {
		t.Fatal(err)
	}
}

func TestReloaded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, path, "first\nsecond\n", 1)
	now := time.Unix(0, 0)
	tokens, err := newReloaded(func() ([]string, error) { return readTokens(path) }, func() time.Time { return now },
		slog.New(slog.DiscardHandler), path)
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		text string
		pass time.Duration
		want []string
	}{
		{"first\nsecond\n", 0, []string{"first", "second"}},
		{"third", reloadInterval - 1, []string{"first", "second"}},
		{"third", 1, []string{"third"}},
		{"", reloadInterval, []string{"third"}},
		{"fourth", reloadInterval, []string{"fourth"}},
	} {
		writeFile(t, path, step.text, i+2)
		now = now.Add(step.pass)
		if diff := cmp.Diff(step.want, tokens.get()); diff != "" {
			t.Errorf("step %d (-want +got)\n%s", i, diff)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	now = now.Add(reloadInterval)
	if diff := cmp.Diff([]string{"fourth"}, tokens.get()); diff != "" {
		t.Errorf("without the file (-want +got)\n%s", diff)
	}
}

// certify writes a certificate for the loopback address with the given serial number, and returns
// it.
func certify(t *testing.T, certificate, key string, serial int) *x509.Certificate {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(serial)), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, certificate, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), serial)
	writeFile(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})), serial)
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestTLSAndTokens(t *testing.T) {
	folder := t.TempDir()
	certificate, key, tokens := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"), filepath.Join(
		folder, "tokens")
	root := certify(t, certificate, key, 1)
	writeFile(t, tokens, "secret\n", 1)
	r := start(t, func(o *options) { o.tlsCertFile, o.tlsKeyFile, o.tokenFile = certificate, key, tokens })
	pool := x509.NewCertPool()
	pool.AddCert(root)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool,
		MinVersion: tls.VersionTLS12}}}
	ask := func(path, token string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			strings.Replace(r.protocol, "http://", "https://", 1)+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		if response.ProtoMajor != 1 {
			t.Errorf("%s was served by %s, which has no WebSockets", path, response.Proto)
		}
		return response.StatusCode
	}
	for _, c := range []struct {
		path, token string
		want        int
	}{{"/health", "", 200}, {"/metadata", "wrong", 401}, {"/metadata", "secret", 200}} {
		if got := ask(c.path, c.token); got != c.want {
			t.Errorf("%s with %q: %d, want %d", c.path, c.token, got, c.want)
		}
	}
	if status, _ := get(t, r.ops+"/readyz"); status != 200 {
		t.Errorf("/readyz on the other port, in plain text and without a token: %d", status)
	}
}

func TestCertificateIsReloaded(t *testing.T) {
	folder := t.TempDir()
	certificate, key := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	certify(t, certificate, key, 1)
	now := time.Unix(0, 0)
	pair, err := newReloaded(func() (*tls.Certificate, error) { return readCertificate(certificate, key) },
		func() time.Time { return now }, slog.New(slog.DiscardHandler), certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	certify(t, certificate, key, 2)
	now = now.Add(reloadInterval)
	if got := pair.get().Leaf.SerialNumber.Int64(); got != 2 {
		t.Errorf("certificate %d, want the second", got)
	}
	writeFile(t, key, "not a key", 3)
	now = now.Add(reloadInterval)
	if got := pair.get().Leaf.SerialNumber.Int64(); got != 2 {
		t.Errorf("certificate %d after a broken key, want the second still", got)
	}
}
