package poolkey

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// Secrets are derived from a pool's ledger key. The nil Secrets belong to a server without a
// configured key: they admit everyone.
type Secrets struct {
	// Operations is the bearer token of the operations port, which the operator sends.
	Operations string
	// Metrics is the bearer token with which Prometheus reads /metrics.
	Metrics string
	// Scores seals what has scores that a pool withholds.
	Scores cipher.AEAD
	// plans is the key of the runs' credentials, runs the key of the credentials that the release
	// before gave out.
	plans, runs []byte
}

// DeriveSecrets derives a pool's secrets.
func DeriveSecrets(key ed25519.PrivateKey) (*Secrets, error) {
	derived := make([][]byte, 4)
	for i, purpose := range []string{"operations", "metrics", "runs", "plans"} {
		var err error
		if derived[i], err = hkdf.Key(sha256.New, key.Seed(), nil, "csenv "+purpose, sha256.Size); err != nil {
			return nil, fmt.Errorf("deriving a secret from the ledger key: %w", err)
		}
	}
	scores, err := NewScoreCipher(key)
	if err != nil {
		return nil, err
	}
	return &Secrets{Operations: hex.EncodeToString(derived[0]), Metrics: hex.EncodeToString(derived[1]), Scores: scores,
		runs: derived[2], plans: derived[3]}, nil
}

// NewScoreCipher returns the cipher of Secrets.Scores.
func NewScoreCipher(key ed25519.PrivateKey) (cipher.AEAD, error) { return NewCipher(key, "scores") }

// NewCipher returns the cipher for what a pool's servers give to clients and take back, by
// purpose. It authenticates and hides the content, and every server with the key can open it.
func NewCipher(key ed25519.PrivateKey, purpose string) (cipher.AEAD, error) {
	derived, err := hkdf.Key(sha256.New, key.Seed(), nil, "csenv "+purpose, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("deriving a secret from the ledger key: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Grant is what the credential of a run is for.
type Grant struct {
	// Plan is the fingerprint of the run's plan (see score.FingerprintOf), and Namespace the run's.
	// Both are "" in a credential of the release before, and without a configured key.
	Plan, Namespace string
}

// RunCredential returns the secret of the run with a UID, which begins with the grant. With it a
// client can open the run's ledgers, play the plan's episodes, add receipts and fetch ledgers.
func (s *Secrets) RunCredential(run string, g Grant) string {
	return g.Plan + "." + g.Namespace + "." + computeMAC(s.plans, g.Plan+"\n"+g.Namespace+"\n"+run)
}

// OldRunCredential returns the secret of a run as the release before gave it out, for any plan.
func (s *Secrets) OldRunCredential(run string) string { return computeMAC(s.runs, run) }

// AdmitsRun reports whether the credential is the run's, and what it is for.
func (s *Secrets) AdmitsRun(run, credential string) (g Grant, admitted bool) {
	if s == nil {
		return g, true
	}
	parts := strings.Split(credential, ".")
	if len(parts) != 3 {
		return g, isSameSecret(credential, s.OldRunCredential(run))
	}
	g = Grant{Plan: parts[0], Namespace: parts[1]}
	return g, isSameSecret(credential, s.RunCredential(run, g))
}

// AdmitsOperator reports whether a token is the operator's.
func (s *Secrets) AdmitsOperator(token string) bool {
	return s == nil || isSameSecret(token, s.Operations)
}

// AdmitsMetrics reports whether /metrics may be read with a token.
func (s *Secrets) AdmitsMetrics(token string) bool {
	return s == nil || isSameSecret(token, s.Metrics) || isSameSecret(token, s.Operations)
}

// IDKey keys the ids that agents see in episodes of the run with a credential, and with "" those
// in episodes of no run. It is "" without a configured key.
func (s *Secrets) IDKey(credential string) string {
	if s == nil {
		return ""
	}
	if credential == "" {
		credential = s.OldRunCredential("")
	}
	return IDKey(credential)
}

// IDKey derives the key of a run's ids from the run's credential. It is "" without a credential.
func IDKey(credential string) string {
	if credential == "" {
		return ""
	}
	return computeMAC([]byte(credential), "csenv ids")
}

func computeMAC(key []byte, text string) string {
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, text) // never fails
	return hex.EncodeToString(mac.Sum(nil))
}

// isSameSecret compares in constant time.
func isSameSecret(given, want string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(want)) == 1
}
