package score

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/score/bitstream"
)

// receiptOf returns the receipt of the plan's first episode.
func receiptOf(p Plan) Receipt {
	e := Episode{
		Outcome: Failed, Score: 333_333, Category: "billing", Difficulty: "hard", Language: "de",
		Dimensions: []Dimension{{"reply", 200, 500}, {"penalty", -100, 0}},
	}
	return newLedger(p, 0).Receipt(PlannedEpisode{Index: 7, Task: "resolve", Scenario: "A", Trial: 3, Seed: 99,
		Pressure: true}, e)
}

func signedReceipt(t interface{ Fatal(...any) }, r Receipt) string {
	text, err := r.Sign(testKey())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestReceiptRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := NewPlan(drawPlan(t), 1)
		if err != nil {
			t.Fatal(err)
		}
		for planned := range p.Shard(0) {
			e := drawEpisode(t, planned)
			want := newLedger(p, 0).Receipt(planned, e)
			got, err := VerifyReceipt(signedReceipt(t, want), publicKey())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatal(diff)
			}
			return
		}
	})
	if n := len(signedReceipt(t, receiptOf(mustPlan(t, plan(), 1)))); n > 600 {
		t.Errorf("a receipt takes %d bytes", n)
	}
}

// A ledger made from receipts has the same bytes as the ledger of the episodes.
func TestLedgerOfReceipts(t *testing.T) {
	p := mustPlan(t, plan(), 1)
	want, got := newLedger(p, 0), newLedger(p, 0)
	for ep := range p.Shard(0) {
		e := Episode{Outcome: Scored, Score: ep.Index * 100_000, Category: "billing", Difficulty: "easy",
			Language: "en", Dimensions: []Dimension{{"reply", 1, 2}}}
		if err := want.Add(ep, e); err != nil {
			t.Fatal(err)
		}
		r, err := VerifyReceipt(signedReceipt(t, want.Receipt(ep, e)), publicKey())
		if err := errors.Join(err, got.Accepts(r), got.Add(r.Planned, r.Episode)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestVerifyReceiptRefuses(t *testing.T) {
	good := signedReceipt(t, receiptOf(mustPlan(t, plan(), 1)))
	raw, err := base64.StdEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		changed := append([]byte(nil), raw...)
		changed[i] ^= 1
		if _, err := VerifyReceipt(base64.StdEncoding.EncodeToString(changed), publicKey()); !errors.Is(err,
			ErrReceipt) {
			t.Fatalf("a change of byte %d: error %v", i, err)
		}
	}
	payload := raw[:len(raw)-ed25519.SignatureSize]
	signed := func(prefix string, payload []byte) string {
		return base64.StdEncoding.EncodeToString(append(slices.Clone(payload), signPayload(testKey(), prefix, payload)...))
	}
	for name, text := range map[string]string{
		"nothing":                 "",
		"prose":                   "scored 1.0",
		"a ledger's signature":    signed(ledgerPrefix, payload),
		"cut":                     signed(receiptPrefix, payload[:20]),
		"longer":                  signed(receiptPrefix, append(slices.Clip(payload), 0)),
		"another version":         signed(receiptPrefix, append([]byte{9}, payload[1:]...)),
		"far too much":            strings.Repeat("A", maxReceiptText+4),
		"a line break in between": good[:40] + "\n" + good[40:],
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := VerifyReceipt(text, publicKey()); !errors.Is(err, ErrReceipt) {
				t.Errorf("error %v, want ErrReceipt", err)
			}
		})
	}
	other := ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey)
	if _, err := VerifyReceipt(good, other); !errors.Is(err, ErrReceipt) {
		t.Errorf("another pool's key: error %v", err)
	}
}

func TestSignRefusesImpossibleReceipts(t *testing.T) {
	for name, change := range map[string]func(*Receipt){
		"errored":             func(r *Receipt) { r.Episode.Outcome = Errored },
		"a score above one":   func(r *Receipt) { r.Episode.Score = One + 1 },
		"a negative index":    func(r *Receipt) { r.Planned.Index = -1 },
		"a long scenario":     func(r *Receipt) { r.Planned.Scenario = strings.Repeat("x", maxName+1) },
		"too many dimensions": func(r *Receipt) { r.Episode.Dimensions = make([]Dimension, maxDims+1) },
		"points without end":  func(r *Receipt) { r.Episode.Dimensions[0].Earned = -(1 << 40) },
	} {
		t.Run(name, func(t *testing.T) {
			r := receiptOf(mustPlan(t, plan(), 1))
			change(&r)
			if _, err := r.Sign(testKey()); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestLedgerAcceptsItsOwnReceipts(t *testing.T) {
	p := mustPlan(t, plan(), 1)
	for name, tc := range map[string]struct {
		change func(*Receipt)
		want   error
	}{
		"its own":         {func(*Receipt) {}, nil},
		"another run":     {func(r *Receipt) { r.Run = "other" }, ErrForeign},
		"another shard":   {func(r *Receipt) { r.Shard++ }, ErrForeign},
		"another grader":  {func(r *Receipt) { r.GraderVersion = "x" }, ErrGrader},
		"other scenarios": {func(r *Receipt) { r.ScenarioDigest = "x" }, ErrGrader},
		"another judge":   {func(r *Receipt) { r.Judge = "x" }, ErrGrader},
		"another pass":    {func(r *Receipt) { r.PassScore++ }, ErrGrader},
	} {
		t.Run(name, func(t *testing.T) {
			r := receiptOf(p)
			tc.change(&r)
			if err := newLedger(p, 0).Accepts(r); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}

func FuzzVerifyReceipt(f *testing.F) {
	f.Add([]byte{byte(receiptVersions.Newest)})
	f.Add(bitstream.Encode(receiptVersions.Newest, new(receiptOf(mustPlan(f, plan(), 1))).code))
	f.Fuzz(func(t *testing.T, payload []byte) {
		text := base64.StdEncoding.EncodeToString(
			append(slices.Clip(payload), signPayload(testKey(), receiptPrefix, payload)...))
		r, err := VerifyReceipt(text, publicKey())
		if err != nil {
			return
		}
		l := &Ledger{Run: r.Run, Shard: r.Shard, PassScore: r.PassScore, ScenarioDigest: r.ScenarioDigest,
			GraderVersion: r.GraderVersion, Judge: r.Judge}
		if err := errors.Join(l.Accepts(r), l.Add(r.Planned, r.Episode)); err != nil {
			t.Errorf("a valid receipt can't be counted: %v", err)
		}
	})
}
