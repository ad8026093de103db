package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func mustRead(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestCertificatesVerify(t *testing.T) {
	dir := t.TempDir()
	if err := ensurePKI(dir, sampleNetwork()); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(mustRead(t, filepath.Join(dir, "ca.crt")))) {
		t.Fatal("ca.crt holds no certificate")
	}
	for _, id := range listIdentities(sampleNetwork()) {
		t.Run(id.file, func(t *testing.T) {
			pair, err := tls.LoadX509KeyPair(filepath.Join(dir, id.file+".crt"), filepath.Join(dir, id.file+".key"))
			if err != nil {
				t.Fatal(err)
			}
			verifyAs(t, pair.Leaf, id, roots)
		})
	}
}

func verifyAs(t *testing.T, certificate *x509.Certificate, id identity, roots *x509.CertPool) {
	t.Helper()
	inFiveYears := time.Now().AddDate(5, 0, 0)
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: usage,
		CurrentTime: inFiveYears}); err != nil {
		t.Error(err)
	}
	if certificate.Subject.CommonName != id.user || !slices.Equal(certificate.Subject.Organization, id.groups) {
		t.Errorf("subject %s", certificate.Subject)
	}
	for _, name := range id.names {
		if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("as the server %s: %v", name, err)
		}
	}
	if len(id.names) == 0 && slices.Contains(certificate.ExtKeyUsage, x509.ExtKeyUsageServerAuth) {
		t.Error("a client's certificate is valid for a server")
	}
}

func TestPKIIsKeptWhenCompleteAndRemadeWhenNot(t *testing.T) {
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.crt")
	var seen []string
	for range 2 {
		if err := ensurePKI(dir, sampleNetwork()); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, mustRead(t, ca))
	}
	if seen[0] != seen[1] {
		t.Error("a complete PKI was replaced")
	}
	// A killed command leaves everything but the last file.
	if err := os.Remove(ca); err != nil {
		t.Fatal(err)
	}
	if err := ensurePKI(dir, sampleNetwork()); err != nil {
		t.Fatal(err)
	}
	if mustRead(t, ca) == seen[0] {
		t.Error("a half-written PKI was kept")
	}
}

func TestKeysAreForTheOwnerOnly(t *testing.T) {
	dir := t.TempDir()
	if err := ensurePKI(dir, sampleNetwork()); err != nil {
		t.Fatal(err)
	}
	keys, err := filepath.Glob(filepath.Join(dir, "*.key"))
	if err != nil || len(keys) != len(listIdentities(sampleNetwork()))+2 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	for _, key := range keys {
		info, err := os.Stat(key)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", key, info.Mode(), err)
		}
		if block, _ := pem.Decode([]byte(mustRead(t, key))); block == nil || block.Type != "EC PRIVATE KEY" {
			t.Errorf("%s holds no key", key)
		}
	}
}
