package score

import (
	"errors"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/poolkey"
)

// What is sealed can be opened for its purpose alone, and its size doesn't tell what it says. The
// largest planned ledger still fits into a summary.
func TestSealed(t *testing.T) {
	c, err := poolkey.NewScoreCipher(testKey())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "a", "\x01", strings.Repeat("\x01", 979), strings.Repeat("x", 980)} {
		sealed := SealText(text, "run", c)
		if got, err := OpenText(sealed, "run", c); err != nil || got != text || text != "" && !IsSealed(sealed) {
			t.Errorf("%q is %q, %v", text, got, err)
		}
		if _, err := OpenText(sealed, "other", c); text != "" && !errors.Is(err, ErrSealed) {
			t.Errorf("opened for another purpose: %v", err)
		}
	}
	if a, b := SealText("1", "", c), SealText(strings.Repeat("1", 979), "", c); len(a) != len(b) {
		t.Errorf("sizes %d and %d", len(a), len(b))
	}
	for _, text := range []string{sealedPrefix, sealedPrefix + "?", sealedPrefix + "AAAA"} {
		if _, err := OpenText(text, "", c); !errors.Is(err, ErrSealed) {
			t.Errorf("%q: %v", text, err)
		}
	}
	largest := SignedLedger{Payload: make([]byte, maxPlannedLedgerBytes), Signature: make([]byte, 64)}
	if n := len(largest.Seal(c).Payload); n > ledgerBytes {
		t.Errorf("the largest ledger takes %d sealed bytes of %d", n, ledgerBytes)
	}
	if got, err := largest.Seal(c).Open(c); err != nil || len(got.Payload) != maxPlannedLedgerBytes {
		t.Errorf("it is %d bytes, %v", len(got.Payload), err)
	}
	if _, err := largest.Seal(c).Verify(publicKey()); !errors.Is(err, ErrSignature) {
		t.Errorf("a sealed ledger is verified: %v", err)
	}
}
