package ledger

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
)

// LoadKey reads an Ed25519 private key from a file: one PKCS#8 block of PEM.
func LoadKey(path string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the ledger key: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("no PEM PRIVATE KEY in %s: make it with `openssl genpkey -algorithm ed25519`", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing the ledger key %s: %w", path, err)
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the ledger key %s is a %T, not Ed25519: make one with `openssl genpkey -algorithm "+
			"ed25519`", path, key)
	}
	return private, nil
}
