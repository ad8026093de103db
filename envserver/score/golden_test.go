package score

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"
)

// Stored and signed bytes outlive a release: statuses of running runs, termination messages and
// receipts in result stores.
func TestEncodingsStayTheSame(t *testing.T) {
	sum := sha256.New()
	random := rand.New(rand.NewPCG(1, 2))
	var all Accumulator
	for _, trials := range []int{1, 4} {
		l := fullLedger(t, trials)
		signed, err := l.Sign(testKey())
		if err != nil {
			t.Fatal(err)
		}
		s := Summary{Ledger: signed, Retried: 7, RetriedBy: map[string]int64{"timeout": 2, "other": 1},
			Tokens: Tokens{12, 34}, Mute: 2, Stored: Stored{Episodes: 3, Error: "full"}}
		for range 50 {
			s.Durations.Observe(random.Int64N(1 << 20))
		}
		s.Errored = append(s.Errored, ErrorClass{Class: "env_error"})
		s.Errored[0].Episodes.Add(5)
		data, err := s.Encode()
		if err != nil {
			s.Ledger = SignedLedger{Payload: []byte("short"), Signature: signed.Signature}
			if data, err = s.Encode(); err != nil {
				t.Fatal(err)
			}
		}
		all.FoldSummary(l, s)
		fmt.Fprintf(sum, "%x %x %s %s\n", signed.Payload, signed.Signature, data, text(t, &all))
		p := mustPlan(t, plan(), 2)
		r := receiptOf(p)
		r.Planned.Pressure = trials == 4
		fmt.Fprintln(sum, signedReceipt(t, r))
	}
	all.Plan = "sha256:" + fmt.Sprintf("%064x", 77)
	fmt.Fprintln(sum, text(t, &all))
	got := hex.EncodeToString(sum.Sum(nil))
	if want := "463b90a43ac933b97a5fd9816792d252194760ae86990f107d41111cf00c8e06"; got != want {
		t.Errorf("the encodings have changed: digest %s, want %s", got, want)
	}
}
