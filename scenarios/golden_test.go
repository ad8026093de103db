package scenarios

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"slices"
	"testing"
)

// go test ./scenarios -run TestGolden -update writes the hashes anew. Do so with every change of
// content that is meant, and raise the scenario's version: a hash that moved without one means that
// recorded scores no longer belong to what is served.
var update = flag.Bool("update", false, "write the golden hashes of the embedded catalogue anew")

const goldenFile = "testdata/golden.json"

// TestGolden pins the embedded catalogue's instances: one hash for each scenario, over its
// instances at three seeds.
func TestGolden(t *testing.T) {
	c, err := Public()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range c.Tickets() {
		got[s.ID] = goldenHash(s.Instantiate)
	}
	for _, s := range c.Workflows() {
		got[s.ID] = goldenHash(s.Instantiate)
	}
	if *update {
		writeGolden(t, got)
	}
	data, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]string
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	for _, id := range slices.Sorted(maps.Keys(got)) {
		if got[id] != want[id] {
			t.Errorf("%s: instances changed: run with -update if that is meant", id)
		}
		delete(want, id)
	}
	for id := range want {
		t.Errorf("%s is gone: ids are never removed or reused; run with -update if that is meant", id)
	}
}

func writeGolden(t *testing.T, hashes map[string]string) {
	t.Helper()
	data, err := json.MarshalIndent(hashes, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(goldenFile, append(data, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func goldenHash[T any](instantiate func(int64) (*T, error)) string {
	h := sha256.New()
	for _, seed := range []int64{0, 1, 42} {
		sum := fingerprint(instantiate(seed))
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}
