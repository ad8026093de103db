package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The formats of Sigstore, which cosign verifies.
const (
	bundleType    = "application/vnd.dev.sigstore.bundle.v0.3+json"
	signatureType = "https://sigstore.dev/cosign/sign/v1"
	payloadType   = "application/vnd.in-toto+json"
	emptyType     = types.MediaType("application/vnd.oci.empty.v1+json")
)

const (
	encryptedKey = "ENCRYPTED SIGSTORE PRIVATE KEY"
	plainKey     = "PRIVATE KEY"
)

// bundle is a Sigstore bundle of a signature by a key.
type bundle struct {
	MediaType            string `json:"mediaType"`
	VerificationMaterial struct {
		PublicKey struct {
			Hint string `json:"hint"`
		} `json:"publicKey"`
	} `json:"verificationMaterial"`
	MessageSignature *messageSignature `json:"messageSignature,omitempty"`
	Envelope         *envelope         `json:"dsseEnvelope,omitempty"`
}

type messageSignature struct {
	MessageDigest struct {
		Algorithm string `json:"algorithm"`
		Digest    []byte `json:"digest"`
	} `json:"messageDigest"`
	Signature []byte `json:"signature"`
}

// envelope is a DSSE envelope.
type envelope struct {
	Payload     []byte              `json:"payload"`
	PayloadType string              `json:"payloadType"`
	Signatures  []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	Sig []byte `json:"sig"`
}

// signed is the text that an envelope's signature is for.
func (e envelope) signed() []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(e.Payload), e.Payload)
}

func newBundle(key *ecdsa.PublicKey) (bundle, error) {
	b := bundle{MediaType: bundleType}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return bundle{}, err
	}
	hint := sha256.Sum256(der)
	b.VerificationMaterial.PublicKey.Hint = base64.StdEncoding.EncodeToString(hint[:])
	return b, nil
}

// signBytes signs deterministically (RFC 6979), so that a second release of a commit has the same
// bytes.
func signBytes(key *ecdsa.PrivateKey, text []byte) ([]byte, error) {
	digest := sha256.Sum256(text)
	return key.Sign(nil, digest[:], crypto.SHA256)
}

// signText makes the bundle of a file's signature.
func signText(key *ecdsa.PrivateKey, text []byte) ([]byte, error) {
	b, err := newBundle(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(text)
	b.MessageSignature = &messageSignature{}
	b.MessageSignature.MessageDigest.Algorithm, b.MessageSignature.MessageDigest.Digest = "SHA2_256", digest[:]
	if b.MessageSignature.Signature, err = signBytes(key, text); err != nil {
		return nil, err
	}
	return json.Marshal(b)
}

// signStatement makes the bundle of an in-toto statement.
func signStatement(key *ecdsa.PrivateKey, statement []byte) ([]byte, error) {
	b, err := newBundle(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	b.Envelope = &envelope{Payload: statement, PayloadType: payloadType}
	signature, err := signBytes(key, b.Envelope.signed())
	if err != nil {
		return nil, err
	}
	b.Envelope.Signatures = []envelopeSignature{{Sig: signature}}
	return json.Marshal(b)
}

// imageStatement is what the signature of an image says: it is for this digest.
func imageStatement(digest v1.Hash) ([]byte, error) {
	return json.Marshal(map[string]any{"_type": statementType, "predicateType": signatureType,
		"predicate": map[string]any{}, "subject": []subject{{Digest: map[string]string{digest.Algorithm: digest.Hex}}}})
}
