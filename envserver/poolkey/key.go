// Package poolkey reads the ledger key of a pool and derives the pool's other secrets from it.
//
// The operator creates the key and the pool's servers sign with it, so that both can derive the
// same secrets without exchanging them. A secret reveals neither the key nor another secret.
package poolkey

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// Load reads an Ed25519 private key from a file: one PKCS#8 block of PEM.
func Load(path string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the ledger key: %w", err)
	}
	key, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("reading the ledger key %s: %w: make one with `openssl genpkey -algorithm ed25519`",
			path, err)
	}
	return key, nil
}

// Encode writes a key as one PKCS#8 block of PEM.
func Encode(key ed25519.PrivateKey) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err) // every Ed25519 key has this form
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der})
}

const pemType = "PRIVATE KEY"

// Parse reads an Ed25519 private key from one PKCS#8 block of PEM.
func Parse(text []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemType {
		return nil, errors.New("it is no PEM PRIVATE KEY")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing it: %w", err)
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("it is a %T, not Ed25519", key)
	}
	return private, nil
}
