package poolkey

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var planned = Grant{Plan: "sha256:11", Namespace: "team-a"}

var testKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

func TestLoad(t *testing.T) {
	encode := func(kind string, key any) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"Ed25519":        {Encode(testKey), ""},
		"another type":   {encode("PRIVATE KEY", other), "not Ed25519"},
		"another block":  {encode("CERTIFICATE", testKey), "openssl genpkey"},
		"no PEM":         {[]byte("secret"), "openssl genpkey"},
		"a broken block": {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}}), "parsing"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key.pem")
			if err := os.WriteFile(path, c.content, 0o600); err != nil {
				t.Fatal(err)
			}
			key, err := Load(path)
			if c.want == "" && (err != nil || !bytes.Equal(key, testKey)) {
				t.Errorf("loaded %v, %v", key, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// Each secret is valid for a single purpose and a single pool.
func TestSecrets(t *testing.T) {
	pool, err := DeriveSecrets(testKey)
	if err != nil {
		t.Fatal(err)
	}
	again, err := DeriveSecrets(testKey)
	if err != nil || again.Operations != pool.Operations || again.RunCredential("uid", planned) != pool.RunCredential("uid", planned) {
		t.Errorf("another server of the pool derives other secrets (%v)", err)
	}
	other, err := DeriveSecrets(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	var none *Secrets
	for _, c := range []struct {
		name           string
		secrets        *Secrets
		given          string
		run, ops, read bool
	}{
		{"the run's credential", pool, pool.RunCredential("uid", planned), true, false, false},
		{"that of the release before", pool, pool.OldRunCredential("uid"), true, false, false},
		{"that of another run", pool, pool.RunCredential("uid2", planned), false, false, false},
		{"that of another run and release", pool, pool.OldRunCredential("uid2"), false, false, false},
		{"that of another namespace", pool, strings.Replace(pool.RunCredential("uid", planned), "-a", "-b", 1), false, false,
			false},
		{"that of another plan", pool, strings.Replace(pool.RunCredential("uid", planned), "1", "2", 1), false, false,
			false},
		{"the operator's token", pool, pool.Operations, false, true, true},
		{"the token of Prometheus", pool, pool.Metrics, false, false, true},
		{"nothing", pool, "", false, false, false},
		{"another pool's credential", pool, other.RunCredential("uid", planned), false, false, false},
		{"another pool's operator", pool, other.Operations, false, false, false},
		{"no key is configured", none, "", true, true, true},
	} {
		grant, got := c.secrets.AdmitsRun("uid", c.given)
		if got != c.run || c.name == "the run's credential" && grant != planned {
			t.Errorf("%s opens the run's ledgers: %v", c.name, got)
		}
		if got := c.secrets.AdmitsOperator(c.given); got != c.ops {
			t.Errorf("%s opens the operations port: %v", c.name, got)
		}
		if got := c.secrets.AdmitsMetrics(c.given); got != c.read {
			t.Errorf("%s opens /metrics: %v", c.name, got)
		}
	}
	own := pool.RunCredential("uid", planned)
	if pool.IDKey(own) == pool.IDKey("") || pool.IDKey(own) != IDKey(own) || none.IDKey(own) != "" || IDKey("") != "" {
		t.Error("the key of a run's ids doesn't follow from its credential alone")
	}
}
