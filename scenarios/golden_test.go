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

// go test ./scenarios -run TestGolden -update writes new hashes. Do so with every intended change
// of content, and raise the scenario's version. A hash that changed unintentionally means that
// recorded scores no longer belong to the served scenarios.
var update = flag.Bool("update", false, "write the golden hashes of the embedded catalogue")

const goldenFile, trainingFile = "testdata/golden.json", "testdata/golden-training.json"

// TestGolden fixes the embedded catalogue's instances: one hash for each scenario, over its
// instances at three seeds.
func TestGolden(t *testing.T) {
	c, err := LoadPublic()
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
	compareGolden(t, goldenFile, got)
}

// TestTrainingGolden fixes the generated tickets of the training pack.
func TestTrainingGolden(t *testing.T) {
	got := map[string]string{}
	for _, s := range trainingPack(t).Tickets() {
		if s.Generated() {
			got[s.ID] = goldenHash(s.Instantiate)
		}
	}
	compareGolden(t, trainingFile, got)
}

func trainingPack(tb testing.TB) *Catalog {
	tb.Helper()
	c, err := LoadFolders("", "../config/samples/training/desk")
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func compareGolden(t *testing.T, file string, got map[string]string) {
	t.Helper()
	if *update {
		writeGolden(t, file, got)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]string
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	for _, id := range slices.Sorted(maps.Keys(got)) {
		if got[id] != want[id] {
			t.Errorf("%s: instances changed: run with -update if that is intended", id)
		}
		delete(want, id)
	}
	for id := range want {
		t.Errorf("%s is missing: ids are never removed or reused; run with -update if that is intended", id)
	}
}

func writeGolden(t *testing.T, file string, hashes map[string]string) {
	t.Helper()
	data, err := json.MarshalIndent(hashes, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func goldenHash[T any](instantiate func(int64) (*T, error)) string {
	h := sha256.New()
	for _, seed := range []int64{0, 1, 42} {
		sum := hashInstance(instantiate(seed))
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}
