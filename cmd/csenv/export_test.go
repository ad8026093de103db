package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/envserver/testkit/model"
)

// exportedMessage is a message without the id of its call.
type exportedMessage struct {
	Role      string  `json:"role"`
	Content   *string `json:"content"`
	ToolCalls []struct {
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

type exportedEpisode struct {
	Task     string
	Scenario string
	Split    string
	Outcome  string
	Score    *float64
	Reward   float64
	Messages []exportedMessage
	Tools    string
	Steps    []struct {
		Message     int
		Reward      float64
		DenseReward *float64 `json:"dense_reward"`
		Refused     *string
		Prompt      *int64    `json:"prompt_tokens"`
		Completion  *int64    `json:"completion_tokens"`
		PromptIDs   []int32   `json:"prompt_token_ids"`
		IDs         []int32   `json:"completion_token_ids"`
		Texts       []string  `json:"completion_token_texts"`
		LogProbs    []float64 `json:"logprobs"`
	}
	Prompt     *int64 `json:"prompt_tokens"`
	Completion *int64 `json:"completion_tokens"`
	Gold       *string
}

// exported returns the episodes that csenv export prints.
func exported(t *testing.T, args ...string) []exportedEpisode {
	t.Helper()
	out, errs, code := csenv(t, append([]string{"export"}, args...)...)
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var all []exportedEpisode
	for line := range strings.Lines(out) {
		var e exportedEpisode
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// asked is the part of a request that an exported episode must repeat.
type asked struct {
	Messages []exportedMessage `json:"messages"`
	Tools    []struct {
		Function struct{ Name, Description string }
	} `json:"tools"`
}

// The exported messages, tools and tokens are those that the model's endpoint had.
func TestExportedMessagesAreThoseOfTheModel(t *testing.T) {
	scripted, err := model.New("Heuristic", testkit.Catalog(t))
	if err != nil {
		t.Fatal(err)
	}
	scripted.Fault = func(err error) { t.Error(err) }
	scripted.Shape = func(asked model.Request, answer map[string]any) {
		if len(asked.Messages) == 4 { // the second action is refused
			answer["tool_calls"] = nil
			answer["content"] = "I am not sure."
		}
	}
	var mu sync.Mutex
	last := map[string]asked{} // by the first observation
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := readAll(t, r.Body)
		var request asked
		if err := json.Unmarshal(body, &request); err != nil {
			t.Error(err)
		}
		if len(request.Messages) > 1 {
			mu.Lock()
			last[*request.Messages[1].Content] = request
			mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		scripted.ServeHTTP(w, r)
	}))
	defer server.Close()
	store := t.TempDir()
	file := manifestFile(t, fmt.Sprintf(`
apiVersion: csenv.dev/v1alpha1
kind: EvaluationRun
metadata: {name: scripted}
spec:
  environmentRef: {name: support}
  agent:
    type: OpenAI
    openAI:
      baseURL: %s/v1
      model: m
      systemPrompt: Be kind.
      extraBody: {logprobs: true, return_token_ids: true}
  tasks: [{name: ticket-resolve, scenarios: {ids: [B06, S03]}}]
---
apiVersion: csenv.dev/v1alpha1
kind: CustomerSupportEnv
metadata: {name: support}
`, server.URL))
	if _, errs, code := csenv(t, "eval", "-f", file, "--results", store); code != exitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	episodes := exported(t, "scripted", "--results", store)
	if len(episodes) != 2 {
		t.Fatalf("%d episodes", len(episodes))
	}
	for _, e := range episodes {
		want := last[*e.Messages[1].Content]
		n := len(e.Messages)
		// The model never sees what its last action did.
		if diff := cmp.Diff(want.Messages, e.Messages[:n-2]); diff != "" || n != 2+2*len(e.Steps) {
			t.Errorf("the messages of %s (-sent +exported)\n%s", e.Scenario, diff)
		}
		if !strings.HasPrefix(*e.Messages[0].Content, "Be kind.\n") {
			t.Errorf("the instructions are %s", *e.Messages[0].Content)
		}
		var tools asked
		if err := json.Unmarshal([]byte(`{"tools":`+e.Tools+`}`), &tools); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Tools, tools.Tools); diff != "" {
			t.Errorf("the tools (-sent +exported)\n%s", diff)
		}
		e.checkTokens(t)
	}
}

func (e *exportedEpisode) checkTokens(t *testing.T) {
	t.Helper()
	n := int64(len(e.Steps))
	if *e.Prompt != n*model.PromptTokens || *e.Completion != n*model.CompletionTokens {
		t.Errorf("%d and %d tokens in %d steps", *e.Prompt, *e.Completion, n)
	}
	for i, s := range e.Steps {
		request := int64(s.PromptIDs[0] >> 8)
		if s.Message != 2+2*i || e.Messages[s.Message].Role != "assistant" || (s.Refused != nil) != (i == 1) ||
			*s.Prompt != model.PromptTokens || *s.Completion != model.CompletionTokens || request == 0 ||
			!slices.Equal(s.PromptIDs, model.TokenIDs(request, model.PromptTokens)) ||
			!slices.Equal(s.IDs, model.TokenIDs(-request, model.CompletionTokens)) ||
			len(s.Texts) != model.CompletionTokens || s.Texts[6] != "t6" || s.LogProbs[6] != model.LogProb(6) {
			t.Errorf("step %d: %+v", i, s)
		}
	}
}

func readAll(t *testing.T, r io.Reader) []byte {
	t.Helper()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Error(err)
	}
	return data
}

// stored plays a run and returns its store.
func stored(t *testing.T, args ...string) string {
	t.Helper()
	store := t.TempDir()
	if _, errs, code := csenv(t, append([]string{"eval", "--name", "r", "--results", store}, args...)...); code != exitDone {
		t.Fatalf("playing: exit %d: %s", code, errs)
	}
	return store
}

// Rewards by step are those of the record and those of the dense mode, in both environments.
func TestExportedRewards(t *testing.T) {
	for _, task := range []string{"ticket-resolve", "refund"} {
		store := stored(t, task, "--agent", "heuristic")
		dense := 0
		for _, e := range exported(t, "r", "--results", store) {
			sum := 0.0
			for i, s := range e.Steps {
				sum += s.Reward
				if s.DenseReward == nil || s.Reward != 0 && i < len(e.Steps)-1 {
					t.Fatalf("step %d of %s: %+v", i, e.Scenario, s)
				}
				if *s.DenseReward != 0 && i < len(e.Steps)-1 {
					dense++
				}
			}
			if sum != e.Reward || e.Split == "" || e.Score == nil || e.Prompt != nil || e.Gold != nil {
				t.Errorf("%s: %+v", e.Scenario, e)
			}
		}
		if dense < 10 {
			t.Errorf("%s: %d dense rewards before the last step", task, dense)
		}
	}
}

// Without --gold, no output has a good reply or a criterion of the gold.
func TestExportedGoldIsWithheld(t *testing.T) {
	store := stored(t, "ticket-resolve", "--agent", "noop")
	var replies []string
	for _, e := range exported(t, "r", "--results", store, "--gold") {
		var all []struct {
			Criteria []struct{ Name, Gold string }
			Reply    string
		}
		if err := json.Unmarshal([]byte(*e.Gold), &all); err != nil {
			t.Fatal(err)
		}
		if len(all) != 1 || len(all[0].Criteria) < 3 || all[0].Reply == "" {
			t.Errorf("the gold of %s is %s", e.Scenario, *e.Gold)
		}
		line, _, _ := strings.Cut(all[0].Reply, "\n")
		replies = append(replies, line)
	}
	for _, gold := range []bool{false, true} {
		args := []string{"export", "r", "--results", store}
		if gold {
			args = append(args, "--gold")
		}
		text, errs, code := csenv(t, args...)
		if code != exitDone {
			t.Fatalf("exit %d: %s", code, errs)
		}
		found := 0
		for _, reply := range append(replies, "criteria") {
			if strings.Contains(text, reply) {
				found++
			}
		}
		if all := len(replies) + 1; gold && found < all*9/10 || !gold && found > 0 {
			t.Errorf("with the gold %t: %d of %d parts of it are in the output", gold, found, all)
		}
	}
}

// contents returns all text below a path.
func contents(t *testing.T, path string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(file)
		all.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// The same episodes give the same bytes in every format, and an output of several runs has all.
func TestExportIsDeterministic(t *testing.T) {
	store := stored(t, "ticket-classify", "--agent", "heuristic", "--scenarios", "B06,S03,T01", "--trials", "2")
	for _, format := range []string{"jsonl", "parquet", "hf"} {
		var first string
		for i := range 2 {
			out := filepath.Join(t.TempDir(), "new", "out")
			if format == "jsonl" || format == "parquet" {
				out = filepath.Join(t.TempDir(), "out")
			}
			_, errs, code := csenv(t, "export", "r", "--results", store, "--format", format, "-O", out)
			if code != exitDone || !strings.Contains(errs, "exported 6 episodes of 1 run to "+out) {
				t.Fatalf("%s: exit %d: %s", format, code, errs)
			}
			text := contents(t, out)
			if i > 0 && text != first || len(text) < 1000 {
				t.Errorf("%s: %d bytes differ from the first", format, len(text))
			}
			first = text
		}
	}
}

// Every format says what the scores rest on.
func TestExportsSayWhatScoresRestOn(t *testing.T) {
	store := stored(t, "ticket-resolve", "--agent", "heuristic", "--scenarios", "B06")
	for _, format := range []string{"jsonl", "hf"} {
		out := filepath.Join(t.TempDir(), "out")
		_, errs, code := csenv(t, "export", "r", "--results", store, "--format", format, "-O", out)
		if code != exitDone || !strings.Contains(contents(t, out), "Facts compared exactly; the letter not judged.") {
			t.Errorf("%s: exit %d: %s", format, code, errs)
		}
	}
}

func TestExportRefuses(t *testing.T) {
	store := stored(t, "ticket-classify", "--agent", "noop", "--scenarios", "B06")
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no run":       {nil, "missing argument RUN"},
		"format":       {[]string{"r", "--format", "csv"}, `--format is "csv": choose one of jsonl, parquet, hf`},
		"no output":    {[]string{"r", "--format", "hf"}, "--format hf writes a file or a folder: name it with -O"},
		"files":        {[]string{"r", "--format", "hf", "-O", full}, "has files: name a new folder"},
		"task":         {[]string{"r", "--format", "hf", "-O", out, "--task", "refund"}, `no episode of task "refund"`},
		"score":        {[]string{"r", "--min-score", "high", "-O", out}, "--min-score"},
		"nothing":      {[]string{"r", "--format", "hf", "--min-score", "1", "-O", out}, "no episode is selected of 1 episode"},
		"both":         {[]string{"r", "--errored", "--min-score", "0.5"}, "choose one"},
		"unknown runs": {[]string{"r", "q"}, "there is no run q"},
		"twice":        {[]string{"r", "r"}, "is named twice"},
	} {
		_, errs, code := csenv(t, append([]string{"export", "--results", store}, tc.args...)...)
		if code != exitError || !strings.Contains(errs, tc.want) {
			t.Errorf("%s: exit %d: %s, want %q", name, code, errs, tc.want)
		}
		if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s left %s: %v", name, out, err)
		}
	}
	if left, err := filepath.Glob(filepath.Dir(out) + "/*"); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	for old, changed := range map[string]string{`"score":0,`: `"score":0.5,`, "sha256:": "sha256:0"} {
		forge(t, store, old, changed)
		if out, errs, code := csenv(t, "export", "r", "--results", store); code != exitError || out != "" ||
			!strings.Contains(errs, "exporting episode 0 of run r: its scenarios or the grader have changed since") {
			t.Errorf("%s: exit %d: %s%s", changed, code, out, errs)
		}
		forge(t, store, changed, old)
	}
}

// forge replaces a text in the only file of a store.
func forge(t *testing.T, store, old, changed string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(store, "*", "shard-00000", "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("stored in %v, %v", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	forged := strings.ReplaceAll(string(data), old, changed)
	if forged == string(data) {
		t.Fatalf("no %s in %s", old, data)
	}
	if err := os.WriteFile(files[0], []byte(forged), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Errored episodes are left out, and have no score if they are asked for.
func TestExportOfErroredEpisodes(t *testing.T) {
	store := stored(t, "ticket-classify", "--agent", "noop", "--scenarios", "B06,S03")
	forge(t, store, `"outcome":"failed","score":0,`, `"outcome":"errored","class":"judge_failed","score":null,`)
	_, errs, code := csenv(t, "export", "r", "--results", store)
	if code != exitError || !strings.Contains(errs, "no episode is selected of 2 episodes; 2 episodes without a score "+
		"left out (--errored adds them)") {
		t.Errorf("exit %d: %s", code, errs)
	}
	for _, e := range exported(t, "r", "--results", store, "--errored") {
		if e.Score != nil || e.Outcome != "errored" || e.Steps[0].DenseReward != nil {
			t.Errorf("%+v", e)
		}
	}
}
