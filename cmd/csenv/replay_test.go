package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReplay(t *testing.T) {
	store := t.TempDir()
	if _, errs, code := csenv(t, "eval", "ticket-resolve", "--agent", "oracle", "--scenario", "B07", "--name", "r",
		"--results", store); code != exitDone {
		t.Fatalf("playing: exit %d: %s", code, errs)
	}
	out, errs, code := csenv(t, "replay", "r", "B07", "--results", store)
	if code != exitDone || !strings.Contains(out, "\nthe same\n") || !strings.Contains(out, "verdicts: facts compared") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if out, _, code = csenv(t, "replay", "r", "0", "--results", store, "-o", "json"); code != exitDone ||
		!strings.Contains(out, `"same": true`) {
		t.Errorf("as JSON: exit %d: %s", code, out)
	}
	if _, errs, code = csenv(t, "replay", "r", "99", "--results", store); code != exitError ||
		!strings.Contains(errs, "no stored episode 99") {
		t.Errorf("an unknown episode: exit %d: %s", code, errs)
	}

	files, err := filepath.Glob(filepath.Join(store, "*", "shard-00000", "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("stored in %v, %v", files, err)
	}
	records, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	forged := strings.Replace(string(records), `"reward":1`, `"reward":0.9`, 1)
	if forged == string(records) {
		t.Fatalf("no reward to forge in %s", records)
	}
	if err := os.WriteFile(files[0], []byte(forged), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code = csenv(t, "replay", "r", "0", "--results", store)
	if code != exitOutcome || !strings.Contains(out, "0.900") || !strings.Contains(out, "differs") ||
		!strings.Contains(out, "\nnot the same\n") {
		t.Errorf("a forged reward: exit %d: %s%s", code, out, errs)
	}
}
