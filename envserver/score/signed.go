package score

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/csenv/csenv/envserver/score/bitstream"
)

// The prefixes of signed messages prevent a signature over one kind of message from being valid for
// another.
const (
	ledgerPrefix  = "csenv ledger v1\n"
	receiptPrefix = "csenv receipt v1\n"
)

// receiptVersions are the versions of receipts in result stores, which outlive a release.
var receiptVersions = bitstream.Versions{Oldest: 1, Newest: 2}

// maxReceiptText bounds the text of a receipt, in bytes: 16 dimensions with names of 63 bytes and
// room for the rest.
const maxReceiptText = 4096

var (
	// ErrSignature means that a ledger was not signed with the pool's key, or was changed
	// afterwards.
	ErrSignature = errors.New("the ledger's signature is not valid")
	// ErrReceipt means that a receipt was not signed with the pool's key, was changed afterwards,
	// or is malformed.
	ErrReceipt = errors.New("the receipt is not valid")
)

// signPayload signs a payload under a prefix with Ed25519.
func signPayload(key ed25519.PrivateKey, prefix string, payload []byte) []byte {
	return ed25519.Sign(key, append([]byte(prefix), payload...))
}

func verifySignature(pub ed25519.PublicKey, prefix string, payload, signature []byte) bool {
	return len(pub) == ed25519.PublicKeySize && ed25519.Verify(pub, append([]byte(prefix), payload...), signature)
}

// FormatPublicKey writes a public key as standard base64 of its 32 bytes, as in a pool's status.
func FormatPublicKey(pub ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(pub) }

// ParsePublicKey reads what FormatPublicKey wrote.
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("public key %q is not the base64 of %d bytes", text, ed25519.PublicKeySize)
	}
	return raw, nil
}

// SignedLedger is an encoded ledger and the pool's signature over it, or both sealed as the
// payload. Servers send its JSON, and runners relay it.
type SignedLedger struct {
	Payload   []byte `json:"payload"`
	Signature []byte `json:"signature,omitempty"`
}

// Sign encodes and signs the ledger.
func (l *Ledger) Sign(key ed25519.PrivateKey) (SignedLedger, error) {
	payload, err := l.MarshalBinary()
	if err != nil {
		return SignedLedger{}, err
	}
	return SignedLedger{Payload: payload, Signature: signPayload(key, ledgerPrefix, payload)}, nil
}

// Verify checks the signature and decodes the ledger. An error wraps ErrSignature or ErrMalformed.
func (s SignedLedger) Verify(pub ed25519.PublicKey) (*Ledger, error) {
	if !verifySignature(pub, ledgerPrefix, s.Payload, s.Signature) {
		return nil, ErrSignature
	}
	l := &Ledger{}
	if err := l.UnmarshalBinary(s.Payload); err != nil {
		return nil, err
	}
	return l, nil
}

// Receipt is the signed proof of one graded episode, with everything that a ledger sums up. If the
// server that graded it is lost, another server with the same key can add the episode to its
// ledger. A server issues one receipt for each episode of a run, at its first end.
type Receipt struct {
	// Run, Shard and PassScore are the ledger's that counted the episode.
	Run       string
	Shard     int
	PassScore int64
	// ScenarioDigest, GraderVersion and Judge identify what the server graded with.
	ScenarioDigest string
	GraderVersion  string
	Judge          string
	// Planned has no trial, because the server doesn't have it.
	Planned PlannedEpisode
	Episode Episode
}

// Receipt is the receipt of an episode that the ledger has counted.
func (l *Ledger) Receipt(planned PlannedEpisode, e Episode) Receipt {
	planned.Trial = 0
	return Receipt{
		Run: l.Run, Shard: l.Shard, PassScore: l.PassScore, ScenarioDigest: l.ScenarioDigest,
		GraderVersion: l.GraderVersion, Judge: l.Judge,
		Planned: planned, Episode: e,
	}
}

// Accepts reports whether the receipt's episode belongs in the ledger. An error wraps ErrForeign or
// ErrGrader.
func (l *Ledger) Accepts(r Receipt) error {
	if r.Run != l.Run || r.Shard != l.Shard {
		return fmt.Errorf("%w: run %q shard %d, not run %q shard %d", ErrForeign, r.Run, r.Shard, l.Run, l.Shard)
	}
	if from := (grading{r.ScenarioDigest, r.GraderVersion, r.Judge, r.PassScore}); from != l.grading() {
		return fmt.Errorf("%w: episode %d has %s; the ledger has %s", ErrGrader, r.Planned.Index, from, l.grading())
	}
	return nil
}

// Sign writes the receipt and its signature as base64, about four hundred bytes.
func (r Receipt) Sign(key ed25519.PrivateKey) (string, error) {
	if err := r.validate(); err != nil {
		return "", fmt.Errorf("signing receipt: %w", err)
	}
	payload := bitstream.Encode(receiptVersions.Newest, r.code)
	return base64.StdEncoding.EncodeToString(append(payload, signPayload(key, receiptPrefix, payload)...)), nil
}

// VerifyReceipt reads what Sign wrote and checks the signature. The text is untrusted: an error
// wraps ErrReceipt.
func VerifyReceipt(text string, pub ed25519.PublicKey) (Receipt, error) {
	if len(text) > maxReceiptText {
		return Receipt{}, fmt.Errorf("%w: %d bytes are more than %d", ErrReceipt, len(text), maxReceiptText)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	split := len(raw) - ed25519.SignatureSize
	if err != nil || split < 0 || strings.ContainsAny(text, "\r\n") {
		return Receipt{}, fmt.Errorf("%w: it is not the base64 of a receipt", ErrReceipt)
	}
	payload := raw[:split:split]
	if !verifySignature(pub, receiptPrefix, payload, raw[split:]) {
		return Receipt{}, fmt.Errorf("%w: it was not signed with the pool's key", ErrReceipt)
	}
	var r Receipt
	if err := bitstream.Decode(payload, receiptVersions, r.code, r.validate); err != nil {
		return Receipt{}, fmt.Errorf("%w: %w", ErrReceipt, err)
	}
	return r, nil
}

// code describes the receipt's encoding.
func (r *Receipt) code(s *bitstream.Stream) {
	s.Texts(r.texts()...)
	s.Numbers(r.numbers()...)
	s.Int(&r.Shard)
	s.Flag(&r.Planned.Pressure)
	failed := r.Episode.Outcome == Failed
	if s.Flag(&failed); !s.Writing() {
		r.Episode.Outcome = Scored
		if failed {
			r.Episode.Outcome = Failed
		}
	}
	if s.Version() >= 2 {
		s.Flag(&r.Episode.Wrong)
	}
	codeDimensions(s, &r.Episode.Dimensions)
}

func (r *Receipt) texts() []*string {
	return []*string{
		&r.Run, &r.ScenarioDigest, &r.GraderVersion, &r.Judge, &r.Planned.Task, &r.Planned.Scenario,
		&r.Episode.Category, &r.Episode.Difficulty, &r.Episode.Language,
	}
}

func (r *Receipt) numbers() []*int64 {
	return []*int64{&r.PassScore, &r.Planned.Index, &r.Planned.Seed, &r.Episode.Score}
}

// validate refuses an episode that a ledger can't count.
func (r *Receipt) validate() error {
	for i, text := range r.texts() {
		limit := maxName
		if i < 4 {
			limit = bitstream.MaxText
		}
		if len(*text) > limit {
			return fmt.Errorf("a text of %d bytes is longer than %d", len(*text), limit)
		}
	}
	limits := []int64{One, MaxSeed, MaxSeed, One, maxCount}
	for i, n := range append(r.numbers(), new(int64(r.Shard))) {
		if *n < 0 || *n > limits[i] {
			return fmt.Errorf("%d is not within 0 and %d", *n, limits[i])
		}
	}
	switch e := r.Episode; {
	case e.Outcome != Scored && e.Outcome != Failed:
		return fmt.Errorf("an episode with outcome %q is in no figure", e.Outcome)
	case len(e.Dimensions) > maxDims:
		return fmt.Errorf("%d dimensions are more than %d", len(e.Dimensions), maxDims)
	}
	for _, d := range r.Episode.Dimensions {
		if len(d.Name) > maxName || d.Offered < 0 || d.Offered > maxPoints/maxCount ||
			max(d.Earned, -d.Earned) > maxPoints/maxCount {
			return fmt.Errorf("dimension %.40q has %d of %d points", d.Name, d.Earned, d.Offered)
		}
	}
	return nil
}
