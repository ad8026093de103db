package ledger

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/internal/testkit/echo"
)

// elapse waits in fake time.
func elapse(d time.Duration) { <-time.After(d) }

func TestFullLedgerRefuses(t *testing.T) {
	store := New(echo.Kind{})
	l, err := store.Open(protocol.RunTag{Run: "u"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(maxEnded) {
		l.ended[i] = struct{}{}
	}
	if _, err := store.Open(protocol.RunTag{Run: "u"}); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("opened with %v", err)
	}
}

// Shards of made-up runs push no ledger out that is in use; one that has been idle for long makes
// room.
func TestIdleLedgerMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := New(echo.Kind{})
		for i := range maxLedgers {
			if _, err := store.Open(protocol.RunTag{Run: "u", Shard: i}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := store.Open(protocol.RunTag{Run: "made-up"}); err == nil ||
			!strings.Contains(err.Error(), "more servers") {
			t.Errorf("a ledger too many was opened with %v", err)
		}
		if _, err := store.Open(protocol.RunTag{Run: "u", Shard: 5}); err != nil {
			t.Errorf("a ledger that is there: %v", err)
		}
		elapse(ledgerIdle)
		for i := range maxLedgers {
			if i == 1 {
				continue
			}
			if _, err := store.Sign(Key{"u", i}, echo.Key()); err != nil { // touches all but one
				t.Fatal(err)
			}
		}
		if _, err := store.Open(protocol.RunTag{Run: "v"}); err != nil {
			t.Errorf("an idle ledger makes no room: %v", err)
		}
		if got := store.Figures().Open; got != maxLedgers {
			t.Errorf("%d ledgers, want %d", got, maxLedgers)
		}
		if _, err := store.Sign(Key{"u", 1}, echo.Key()); !errors.Is(err, ErrNoLedger) {
			t.Errorf("the idle ledger is still there: %v", err)
		}
		if _, err := store.Open(protocol.RunTag{Run: "w"}); err == nil {
			t.Error("a second ledger found room")
		}
	})
}

// However the ends of episodes interleave, each index counts once.
func TestConcurrentEndsCountOnce(t *testing.T) {
	store := New(echo.Kind{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			l, err := store.Open(protocol.RunTag{Run: "u"})
			if err != nil {
				t.Error(err)
				return
			}
			for i := range int64(100) {
				l.Begin()
				if _, err := l.Finish(score.PlannedEpisode{Index: i, Task: "talk", Scenario: "E01"},
					score.Episode{Outcome: score.Scored}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	sums := store.byKey[Key{"u", 0}].sums
	if sums.Scored != 100 || sums.Replayed != 700 || sums.Opened != 800 {
		t.Errorf("%d scored, %d replayed, %d opened", sums.Scored, sums.Replayed, sums.Opened)
	}
}

func TestLoadKey(t *testing.T) {
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
		"Ed25519":        {encode("PRIVATE KEY", echo.Key()), ""},
		"another type":   {encode("PRIVATE KEY", other), "not Ed25519"},
		"another block":  {encode("CERTIFICATE", echo.Key()), "openssl genpkey"},
		"no PEM":         {[]byte("secret"), "openssl genpkey"},
		"a broken block": {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}}), "parsing"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key.pem")
			if err := os.WriteFile(path, c.content, 0o600); err != nil {
				t.Fatal(err)
			}
			key, err := LoadKey(path)
			if c.want == "" && (err != nil || !bytes.Equal(key, echo.Key())) {
				t.Errorf("loaded %v, %v", key, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := LoadKey(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that isn't there: %v", err)
	}
}

func TestRunReportsAreBounded(t *testing.T) {
	store := New(echo.Kind{})
	for i := range score.MaxRunReports + 10 {
		l, err := store.Open(protocol.RunTag{Run: fmt.Sprintf("run-%03d", i), PassScore: 1})
		if err != nil {
			t.Fatal(err)
		}
		l.touched = time.Unix(int64(i), 0)
	}
	got := store.RunReports(nil)
	if len(got) != score.MaxRunReports || got[0].Run != "run-010" || got[len(got)-1].Run != "run-265" {
		t.Errorf("%d runs from %s, want the %d that were played last", len(got), got[0].Run, score.MaxRunReports)
	}
}
