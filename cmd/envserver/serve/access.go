package serve

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"
)

// access has the tokens of clients and the certificate, nil for none.
type access struct {
	tokens       func() []string
	certificates *reloaded[*tls.Certificate]
}

func newAccess(o *options, log *slog.Logger) (access, error) {
	var a access
	if o.tokenFile != "" {
		tokens, err := newReloaded(func() ([]string, error) { return readTokens(o.tokenFile) }, time.Now, log,
			o.tokenFile)
		if err != nil {
			return a, err
		}
		a.tokens = tokens.get
	}
	if o.tlsCertFile != "" {
		var err error
		a.certificates, err = newReloaded(func() (*tls.Certificate, error) {
			return readCertificate(o.tlsCertFile, o.tlsKeyFile)
		}, time.Now, log, o.tlsCertFile, o.tlsKeyFile)
		if err != nil {
			return a, err
		}
	}
	return a, nil
}

// readTokens reads the tokens of a file, which must not be empty.
func readTokens(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading --token-file: %w", err)
	}
	tokens := strings.Fields(string(text))
	if len(tokens) == 0 {
		return nil, fmt.Errorf("--token-file %s has no token: write one per line", path)
	}
	return tokens, nil
}

func readCertificate(certificate, key string) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("reading --tls-cert-file and --tls-key-file: %w", err)
	}
	return &pair, nil
}

// secure serves TLS if there is a certificate. WebSockets need HTTP/1.1.
func (a access) secure(plain net.Listener) net.Listener {
	if a.certificates == nil {
		return plain
	}
	return tls.NewListener(plain, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.certificates.get(), nil },
	})
}

// peerTLS is for connections to peers, nil for plain text. Certificates don't name the addresses of
// peers, so the key is compared, which all servers of a pool share.
func (a access) peerTLS() *tls.Config {
	if a.certificates == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares the key
		VerifyConnection: func(state tls.ConnectionState) error {
			if !bytes.Equal(state.PeerCertificates[0].RawSubjectPublicKeyInfo,
				a.certificates.get().Leaf.RawSubjectPublicKeyInfo) {
				return errors.New("the peer's certificate has another key than this server's: give all servers of " +
					"--peers the same --tls-key-file")
			}
			return nil
		},
	}
}
