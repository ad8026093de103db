package score

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
)

// signaturePrefix separates ledgers from anything else that the key may ever sign.
const signaturePrefix = "csenv ledger v1\n"

// ErrSignature means that a ledger was not signed by the pool's key, or was changed afterwards.
var ErrSignature = errors.New("the ledger's signature doesn't hold")

// SignedLedger is an encoded ledger and the pool's Ed25519 signature over it. Its JSON is what an
// environment pod serves and a runner relays.
type SignedLedger struct {
	Payload   []byte `json:"payload"`
	Signature []byte `json:"signature"`
}

// Sign encodes and signs the ledger.
func (l *Ledger) Sign(key ed25519.PrivateKey) (SignedLedger, error) {
	payload, err := l.MarshalBinary()
	if err != nil {
		return SignedLedger{}, err
	}
	return SignedLedger{Payload: payload, Signature: ed25519.Sign(key, signed(payload))}, nil
}

// Verify checks the signature and decodes the ledger. An error wraps ErrSignature or ErrMalformed.
func (s SignedLedger) Verify(pub ed25519.PublicKey) (*Ledger, error) {
	if len(pub) != ed25519.PublicKeySize || !ed25519.Verify(pub, signed(s.Payload), s.Signature) {
		return nil, ErrSignature
	}
	l := &Ledger{}
	if err := l.UnmarshalBinary(s.Payload); err != nil {
		return nil, err
	}
	return l, nil
}

func signed(payload []byte) []byte { return append([]byte(signaturePrefix), payload...) }

// FormatPublicKey writes a public key as a pool's status carries it: standard base64 of its 32
// bytes.
func FormatPublicKey(pub ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(pub) }

// ParsePublicKey reads what FormatPublicKey wrote.
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("public key %q is not the base64 of %d bytes", text, ed25519.PublicKeySize)
	}
	return raw, nil
}
