package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/csenv/csenv/scenarios"
)

// TestFrozenScenarios compares what `csenv scenarios show` writes of the tickets, the workflows and
// the generated cases with a hash of before. With -short it shows a few of them.
func TestFrozenScenarios(t *testing.T) {
	const file = "testdata/frozen-show.txt"
	few, all := sha256.New(), sha256.New()
	for i, id := range scenarioIDs(t) {
		into := all
		if i%25 == 0 {
			into = few
		} else if testing.Short() {
			continue
		}
		out, errs, code := csenv(t, "scenarios", "show", id, "--seed", "1", "-o", "json")
		if code != exitDone {
			t.Fatalf("%s: %s", id, errs)
		}
		_, _ = io.WriteString(into, out)
	}
	got := hex.EncodeToString(few.Sum(nil)) + " a few\n"
	if !testing.Short() {
		got += hex.EncodeToString(all.Sum(nil)) + " the others\n"
	}
	if *update && !testing.Short() {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(want), got) {
		t.Errorf("the scenarios are shown in another way: run with -update, without -short, if that is intended")
	}
}

func scenarioIDs(t *testing.T) []string {
	t.Helper()
	c, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, s := range c.Tickets() {
		ids = append(ids, s.ID)
	}
	for _, s := range slices.Concat(c.Workflows(), c.Cases()) {
		ids = append(ids, s.ID)
	}
	return ids
}
