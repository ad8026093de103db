package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/envvars"
)

// TestEvalWithAModelAsTheCustomer records a conversation, and plays it again when the endpoint is
// gone.
func TestEvalWithAModelAsTheCustomer(t *testing.T) {
	t.Setenv(envvars.CustomerKey, "sk-customer")
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sk-customer" {
			http.Error(w, `{"error":{"message":"no such key"}}`, http.StatusUnauthorized)
			return
		}
		var body struct {
			Messages []struct{ Content string }
		}
		var about struct {
			Acts []struct {
				Sense string `json:"sense"`
			} `json:"acts"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return
		}
		if err := json.Unmarshal([]byte(body.Messages[1].Content), &about); err != nil {
			t.Error(err)
		}
		words := ""
		for _, act := range about.Acts {
			words += act.Sense + " "
		}
		content, _ := json.Marshal(map[string]string{"words": strings.ReplaceAll(words, ". ", ".  ")})
		text, _ := json.Marshal(string(content))
		_, _ = io.WriteString(w, fmt.Sprintf(`{"usage":{"prompt_tokens":10,"completion_tokens":2},"choices":[{`+
			`"finish_reason":"stop","message":{"role":"assistant","content":%s}}]}`, text))
	}))
	defer endpoint.Close()
	store := t.TempDir()
	flags := []string{"--customer", "llm", "--customer-base-url", endpoint.URL + "/v1", "--customer-model", "c-1"}
	play := append([]string{"eval", "talk-medium", "--agent", "oracle", "--scenario", "talk-return-02", "--name", "spoken",
		"--results", store, "-o", "json"}, flags...)
	out, errs, code := csenv(t, play...)
	var run struct {
		Status struct {
			Score    struct{ Mean string }
			Customer struct {
				Answers, Replaced, Failed int
				Tokens                    struct{ Prompt int }
			}
			Provenance struct{ GraderVersion string }
		}
	}
	if err := json.Unmarshal([]byte(out), &run); err != nil || code != exitDone {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	s := run.Status
	if s.Score.Mean != "1.0000" || s.Customer.Answers == 0 || s.Customer.Failed > 0 || s.Customer.Replaced > 0 ||
		s.Customer.Tokens.Prompt < 10*s.Customer.Answers ||
		!strings.Contains(s.Provenance.GraderVersion, "+customer=llm:c-1@") {
		t.Errorf("the run: %+v", s)
	}
	endpoint.Close()
	if out, errs, code = csenv(t, "replay", "spoken", "0", "--results", store); code != exitDone ||
		!strings.Contains(out, "\nthe same\n") || strings.Contains(out, "It was played with") {
		t.Errorf("replay: exit %d: %s%s", code, out, errs)
	}
	if out, errs, code = csenv(t, "transcript", "spoken", "0", "--results", store); code != exitDone ||
		!strings.Contains(out, "customer, a model's words:") {
		t.Errorf("transcript: exit %d: %s%s", code, out, errs)
	}
	if out, errs, code = csenv(t, "results", "spoken", "--results", store); code != exitDone ||
		!strings.Contains(out, "customer's answers") {
		t.Errorf("results: exit %d: %s%s", code, out, errs)
	}
	if _, errs, code = csenv(t, append(play, "--fresh")...); code != exitError ||
		!strings.Contains(errs, "nothing was played: trying the customer") {
		t.Errorf("without an endpoint: exit %d: %s", code, errs)
	}
	if _, errs, code = csenv(t, "eval", "talk-easy", "--customer-model", "c-1"); code != exitError ||
		!strings.Contains(errs, "--customer-model given, but --customer is template") {
		t.Errorf("a stray flag: exit %d: %s", code, errs)
	}
	if _, errs, code = csenv(t, append([]string{"eval", "ticket-classify"}, flags...)...); code != exitError ||
		!strings.Contains(errs, "for conversations") {
		t.Errorf("tickets: exit %d: %s", code, errs)
	}
	records, err := filepath.Glob(filepath.Join(store, "*", "shard-00000", "*.jsonl"))
	if err != nil || len(records) != 1 {
		t.Fatalf("stored in %v, %v", records, err)
	}
	if text, err := os.ReadFile(records[0]); err != nil || strings.Contains(string(text), "sk-customer") ||
		!strings.Contains(string(text), `"customer":[{"heard":`) {
		t.Errorf("%v: the record is %s", err, text)
	}
}
