package environment

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"github.com/csenv/csenv/controllers/keys"
)

func TestNewKeyPair(t *testing.T) {
	t.Parallel()
	public, private, err := newKeyPair(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, rest := pem.Decode(private)
	if block == nil || block.Type != "PRIVATE KEY" || len(rest) > 0 {
		t.Fatalf("the private half is not the PEM of one key: %q", private)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	signer, ok := key.(ed25519.PrivateKey)
	if !ok {
		t.Fatalf("the private half is a %T", key)
	}
	verifier, err := base64.StdEncoding.DecodeString(public)
	if err != nil {
		t.Fatal(err)
	}
	if !ed25519.Verify(verifier, []byte("ledger"), ed25519.Sign(signer, []byte("ledger"))) {
		t.Error("the public half doesn't verify what the private half signs")
	}
	if len(public) > 64 {
		t.Errorf("the public half is %d characters long, more than the status takes", len(public))
	}
}

type noEntropy struct{}

func (noEntropy) Read([]byte) (int, error) { return 0, errors.New("dry") }

func TestNewKeyPairWithoutEntropy(t *testing.T) {
	t.Parallel()
	_, _, err := newKeyPair(noEntropy{})
	if err == nil || !strings.Contains(err.Error(), "generating the ledger key: dry") {
		t.Errorf("error = %v", err)
	}
}

func TestKeySecret(t *testing.T) {
	t.Parallel()
	env := pool()
	secret := keySecret(env, "public", []byte("pem"))
	if secret.Immutable == nil || !*secret.Immutable {
		t.Error("the Secret isn't immutable")
	}
	if got := builtDeployment(t, env).Spec.Template.Spec.Volumes[0].Secret.SecretName; got != secret.Name {
		t.Errorf("servers mount %s, want the Secret %s", got, secret.Name)
	}
	if other := keys.SecretName(env.Name, "other"); other == secret.Name {
		t.Error("two key pairs share a Secret's name")
	}
}
