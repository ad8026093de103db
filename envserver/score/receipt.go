package score

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/csenv/csenv/envserver/score/bitstream"
)

// receiptPrefix separates receipts from anything else that the key may ever sign.
const receiptPrefix = "csenv receipt v1\n"

const receiptVersion = 1

// maxReceiptText bounds the text of a receipt, in bytes: 16 dimensions with names of 63 bytes and
// room for the rest.
const maxReceiptText = 4096

// ErrReceipt means that a receipt was not signed by the pool's key, was changed afterwards, or is
// none.
var ErrReceipt = errors.New("the receipt doesn't hold")

// Receipt is a pod's word for one episode that it graded: all that a ledger adds up. Any pod with
// the same key can so count the episode in a ledger of its own, if the pod that graded it is lost.
// A pod gives one receipt for an episode of a run, at its first end.
type Receipt struct {
	// Run, Shard and PassScore are those of the ledger that counted the episode.
	Run       string
	Shard     int
	PassScore int64
	// ScenarioDigest, GraderVersion and Judge are those of the pod that graded.
	ScenarioDigest string
	GraderVersion  string
	Judge          string
	// Planned leaves the trial out: the pod doesn't know it.
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

// Accepts says whether the receipt's episode belongs into the ledger. An error wraps ErrForeign or
// ErrGrader.
func (l *Ledger) Accepts(r Receipt) error {
	if r.Run != l.Run || r.Shard != l.Shard {
		return fmt.Errorf("%w: run %q shard %d, not run %q shard %d", ErrForeign, r.Run, r.Shard, l.Run, l.Shard)
	}
	if from := (identity{r.Run, r.ScenarioDigest, r.GraderVersion, r.Judge, r.Shard,
		r.PassScore}); from != l.identity() {
		return fmt.Errorf("%w: episode %d with scenarios %s, grader %s, judge %s, pass score %s; here they are %s, "+
			"%s, %s, %s", ErrGrader, r.Planned.Index,
			r.ScenarioDigest, r.GraderVersion, r.Judge, Decimal(
				r.PassScore), l.ScenarioDigest, l.GraderVersion, l.Judge, Decimal(l.PassScore))
	}
	return nil
}

// Sign writes the receipt and its signature as base64: some four hundred bytes.
func (r Receipt) Sign(key ed25519.PrivateKey) (string, error) {
	if err := r.validate(); err != nil {
		return "", fmt.Errorf("signing receipt: %w", err)
	}
	payload := bitstream.Encode(receiptVersion, r.code)
	return base64.StdEncoding.EncodeToString(append(payload, ed25519.Sign(key, receiptMessage(payload))...)), nil
}

func receiptMessage(payload []byte) []byte { return append([]byte(receiptPrefix), payload...) }

// VerifyReceipt reads what Sign wrote and checks the signature. The text may be anybody's: an error
// wraps ErrReceipt.
func VerifyReceipt(text string, pub ed25519.PublicKey) (Receipt, error) {
	if len(text) > maxReceiptText {
		return Receipt{}, fmt.Errorf("%w: %d bytes are more than %d", ErrReceipt, len(text), maxReceiptText)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	split := len(raw) - ed25519.SignatureSize
	if err != nil || split < 0 || strings.ContainsAny(text, "\r\n") {
		return Receipt{}, fmt.Errorf("%w: it is no base64 of a receipt", ErrReceipt)
	}
	payload := raw[:split:split]
	if len(pub) != ed25519.PublicKeySize || !ed25519.Verify(pub, receiptMessage(payload), raw[split:]) {
		return Receipt{}, fmt.Errorf("%w: the pool's key did not sign it", ErrReceipt)
	}
	var r Receipt
	if err := bitstream.Decode(payload, receiptVersion, r.code, r.validate); err != nil {
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

// validate refuses what a ledger could not count.
func (r *Receipt) validate() error {
	for i, text := range r.texts() {
		if limit := []int{bitstream.MaxText, bitstream.MaxText, bitstream.MaxText, bitstream.MaxText, maxName, maxName, maxName, maxName,
			maxName}[i]; len(*text) > limit {
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
