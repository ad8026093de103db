package score

import (
	"bytes"
	"crypto/cipher"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"strings"
)

// What has scores of a pool that withholds them is sealed: encrypted with a key that only the
// pool's servers and the operator have.

const (
	// sealedPrefix begins a sealed text.
	sealedPrefix = "sealed."
	// sealedBlock is the number of bytes to a multiple of which what is sealed is filled up,
	// because the size of a ledger or a receipt depends on its scores. A summary has room for two
	// of them.
	sealedBlock = 1008
	// sealedFrame is what sealing adds at least: a nonce, a tag and the first byte of the filling.
	sealedFrame = 12 + 16 + 1
)

// ErrSealed means that something was not sealed by the pool, or for another purpose.
var ErrSealed = errors.New("it was not sealed by this pool")

// sealData encrypts data for a purpose.
func sealData(data []byte, purpose string, c cipher.AEAD) []byte {
	filling := make([]byte, sealedBlock-(len(data)+sealedFrame-1)%sealedBlock)
	filling[0] = 1
	return c.Seal(nil, nil, append(bytes.Clone(data), filling...), []byte(purpose)) //nolint:gosec // c draws the nonce
}

func openSealed(sealed []byte, purpose string, c cipher.AEAD) ([]byte, error) {
	data, err := c.Open(nil, nil, sealed, []byte(purpose))
	end := bytes.LastIndexByte(data, 1)
	if err != nil || end < 0 {
		return nil, ErrSealed
	}
	return data[:end], nil
}

// SealText encrypts a text for a purpose. "" stays "".
func SealText(text, purpose string, c cipher.AEAD) string {
	if text == "" {
		return ""
	}
	return sealedPrefix + base64.RawStdEncoding.EncodeToString(sealData([]byte(text), purpose, c))
}

// IsSealed reports whether a text is from SealText.
func IsSealed(text string) bool { return strings.HasPrefix(text, sealedPrefix) }

// OpenText decrypts a sealed text, and returns any other as it is. An error is ErrSealed.
func OpenText(text, purpose string, c cipher.AEAD) (string, error) {
	sealed, is := strings.CutPrefix(text, sealedPrefix)
	if !is {
		return text, nil
	}
	raw, err := base64.RawStdEncoding.DecodeString(sealed)
	if err != nil {
		return "", ErrSealed
	}
	data, err := openSealed(raw, purpose, c)
	return string(data), err
}

// ReceiptPurpose is the purpose of sealed receipts, ledgerPurpose of sealed ledgers.
const (
	ReceiptPurpose = "receipt"
	ledgerPurpose  = "ledger"
)

// Seal encrypts the ledger and its signature.
func (s SignedLedger) Seal(c cipher.AEAD) SignedLedger {
	return SignedLedger{Payload: sealData(append(bytes.Clone(s.Signature), s.Payload...), ledgerPurpose, c)}
}

// IsSealed reports whether only the pool can read the ledger.
func (s SignedLedger) IsSealed() bool { return len(s.Payload) > 0 && len(s.Signature) == 0 }

// Open decrypts a sealed ledger, and returns any other as it is. An error is ErrSealed.
func (s SignedLedger) Open(c cipher.AEAD) (SignedLedger, error) {
	if !s.IsSealed() {
		return s, nil
	}
	data, err := openSealed(s.Payload, ledgerPurpose, c)
	if err != nil || len(data) < ed25519.SignatureSize {
		return s, ErrSealed
	}
	return SignedLedger{Signature: data[:ed25519.SignatureSize], Payload: data[ed25519.SignatureSize:]}, nil
}
