package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/scenarios"
)

func TestGenerateAndProve(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "acme")
	out, errs, code := csenv(t, "scenarios", "generate", "acme", "-o", folder, "--families", "return,coupon",
		"--per-difficulty", "2")
	if code != exitDone || !strings.Contains(out, "digest of the catalogue with it: sha256:") {
		t.Fatalf("code %d: %s%s", code, out, errs)
	}
	for _, args := range [][]string{
		{"scenarios", "prove", folder, "--family", "coupon", "--cases", "40"},
		{"scenarios", "prove", "--cases", "60", "--draws", "100"},
		{"eval", "case-easy", "--pack", folder, "--agent", "oracle", "--threshold", "meanScore=1"},
	} {
		if strings.HasPrefix(args[0], "eval") {
			args = append(args, "--results", t.TempDir())
		}
		if out, errs, code := csenv(t, args...); code != exitDone {
			t.Errorf("%q: code %d: %s%s", args, code, out, errs)
		}
	}
	for problem, args := range map[string][]string{
		"isn't empty":     {"scenarios", "generate", "acme", "-o", folder},
		"isn't a name":    {"scenarios", "generate", "Acme-1", "-o", t.TempDir()},
		"with -o":         {"scenarios", "generate", "acme"},
		"no family":       {"scenarios", "generate", "acme", "-o", filepath.Join(t.TempDir(), "x"), "--families", "retrun"},
		"no cases of":     {"scenarios", "prove", "--family", "retrun"},
		"give at least 1": {"scenarios", "generate", "acme", "-o", t.TempDir(), "--tickets", "--count", "0"},
		"exclude each":    {"scenarios", "generate", "acme", "-o", t.TempDir(), "--public", "--salt", "0123456789abcdef"},
	} {
		if _, errs, code := csenv(t, args...); code == exitDone || !strings.Contains(errs, problem) {
			t.Errorf("%q: code %d: %s, want %q", args, code, errs, problem)
		}
	}
}

// TestGenerateTickets writes the training pack again.
func TestGenerateTickets(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "desk")
	if out, errs, code := csenv(t, "scenarios", "generate", "desk", "-o", folder, "--tickets",
		"--public"); code != exitDone || !strings.Contains(out, "wrote 303 tickets") {
		t.Fatalf("code %d: %s%s", code, out, errs)
	}
	for _, file := range []string{"pack.yaml", "desk.yaml"} {
		got, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("../../config/samples/training/desk", file))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s isn't that of config/samples/training: write the sample again", file)
		}
	}
	for _, args := range [][]string{
		{"scenarios", "prove", folder, "--family", "coupon", "--cases", "60"},
		{"scenarios", "show", "desk-coupon-02", "--pack", folder, "--seed", "3"},
		{"eval", "ticket-classify", "--pack", folder, "--agent", "oracle", "--threshold", "meanScore=1", "--results",
			t.TempDir()},
		{"eval", "ticket-resolve", "--pack", folder, "--agent", "oracle", "--scenarios",
			"desk-coupon-01,desk-return-02", "--threshold", "meanScore=1", "--results", t.TempDir()},
	} {
		if out, errs, code := csenv(t, args...); code != exitDone {
			t.Errorf("%q: code %d: %s%s", args, code, out, errs)
		}
	}
}

func TestProveReportsAWrongList(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "acme")
	if out, errs, code := csenv(t, "scenarios", "generate", "acme", "-o", folder, "--families", "coupon",
		"--per-difficulty", "1"); code != exitDone {
		t.Fatalf("code %d: %s%s", code, out, errs)
	}
	for problem, entry := range map[string]string{
		"must be \"acme-coupon-05\"": "  acme-coupon-5: easy private\n",
		"there is no family":         "  acme-cupon-01: easy private\n",
		"can't be combined with":     "  acme-coupon-77: easy private opened\n",
		"a case is written as":       "  acme-coupon-77: simple private\n",
		"there is no split":          "  acme-coupon-77: easy nowhere\n",
	} {
		list := filepath.Join(folder, "acme.yaml")
		before, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(list, append(before, entry...), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, errs, code := csenv(t, "scenarios", "prove", folder); code == exitDone || !strings.Contains(errs, problem) {
			t.Errorf("%s: code %d: %s, want %q", entry, code, errs, problem)
		}
		if err := os.WriteFile(list, before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The flags select the same cases as the fields of a manifest, by the names of flags or of the API.
func TestEvalSelectsCases(t *testing.T) {
	flags := []string{"eval", "case-hard", "--category", "return", "--modifier", "plus,gift-card", "--difficulty",
		"hard", "--split"}
	manifest := "apiVersion: csenv.dev/v1alpha1\nkind: EvaluationRun\nmetadata: {name: cases}\nspec:\n" +
		"  environmentRef: {name: desk}\n  agent: {type: Builtin, builtin: {policy: Oracle}}\n" +
		"  tasks: [{name: case-hard, scenarios: {categories: [return], modifiers: [plus, gift-card], " +
		"difficulties: [hard], splits: [Test]}}]\n"
	want := selectedCases(t)
	if len(want) == 0 {
		t.Fatal("the catalogue has no such case")
	}
	for name, args := range map[string][]string{
		"names of flags": append(slices.Clone(flags), "public-test", "--agent", "oracle", "--name",
			"cases"),
		"names of the API":     append(slices.Clone(flags), "Test", "--agent", "oracle", "--name", "cases"),
		"fields of a manifest": {"eval", "-f", manifestFile(t, manifest)},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			must(t, append(args, "--results", folder)...)
			var played []struct{ Scenario string }
			if err := json.Unmarshal([]byte(must(t, "episodes", "cases", "--results", folder, "-o", "json")),
				&played); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range played {
				got = append(got, e.Scenario)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// selectedCases are the hard cases of family return in the test split with one of two modifiers.
func selectedCases(t *testing.T) []string {
	t.Helper()
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, s := range catalog.Cases() {
		wanted := slices.Contains(s.Modifiers, "plus") || slices.Contains(s.Modifiers, "gift-card")
		if wanted && !s.Talks && s.Category() == "return" && s.Class == "hard" && s.Split == "public-test" {
			ids = append(ids, s.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

func TestEvalRefusesSelections(t *testing.T) {
	for problem, args := range map[string][]string{
		"--split is \"tset\": choose one of public-train":  {"case-hard", "--split", "tset"},
		"--difficulty is \"Hrad\": choose one of easy":     {"case-hard", "--difficulty", "Hrad"},
		"case-hard has no modifier pluss, use ":            {"case-hard", "--modifier", "pluss"},
		"case-hard has no split Private, use Dev, Test":    {"case-hard", "--split", "private"},
		"case-easy has no difficulty hard, use easy":       {"case-easy", "--difficulty", "hard"},
		"no scenario of task ticket-resolve has modifiers": {"ticket-resolve", "--modifier", "plus"},
		"no scenario that meets all of ids B01 and difficulties hard": {"ticket-resolve", "--scenario", "B01",
			"--difficulty", "hard"},
	} {
		_, errs, code := csenv(t, append([]string{"eval", "--results", "none"}, args...)...)
		if code != exitError || !strings.Contains(errs, problem) {
			t.Errorf("%q: code %d: %s, want %q", args, code, errs, problem)
		}
	}
}
