package main

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// Cosign itself, the program that $CSENV_COSIGN names, accepts each signature of a release and
// refuses each for something else.
func TestCosignVerifies(t *testing.T) {
	cosign := os.Getenv("CSENV_COSIGN")
	if cosign == "" {
		t.Skip("CSENV_COSIGN names no program: `make test-release` builds it")
	}
	public := func(key *ecdsa.PrivateKey) string {
		der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "cosign.pub")
		writeFile(t, name, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		return name
	}
	key := newKey(t)
	_, dir, pushed := pushRelease(t, key)
	file := public(key)
	check := func(want bool, args ...string) {
		t.Helper()
		flags := []string{"--key", file, "--insecure-ignore-tlog=true"}
		cmd := exec.CommandContext(t.Context(), cosign, slices.Insert(args, 1, flags...)...)
		cmd.Dir = dir
		if output, err := cmd.CombinedOutput(); (err == nil) != want {
			t.Errorf("cosign %v: %v\n%s", args, err, output)
		}
	}
	for _, reference := range pushed {
		check(true, "verify", reference)
	}
	checksums, provenance := checksumsFile+signedSuffix, provenanceFile+signedSuffix
	check(true, "verify-blob", "--bundle", checksums, checksumsFile)
	check(false, "verify-blob", "--bundle", checksums, installFile)
	check(true, "verify-blob-attestation", "--type", "slsaprovenance1", "--bundle", provenance, installFile)
	check(false, "verify-blob-attestation", "--type", "slsaprovenance1", "--bundle", provenance, checksums)
	file = public(newKey(t))
	check(false, "verify", pushed[0])
	check(false, "verify-blob", "--bundle", checksums, checksumsFile)
}
