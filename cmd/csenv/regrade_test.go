package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/llm"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/play/rollout"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

// downJudge imitates a model that can't be reached.
type downJudge struct{}

func (downJudge) Name() string { return "llm:model@1" }

func (downJudge) Judge(context.Context, grader.Case) (grader.Verdict, error) {
	return grader.Verdict{Status: grader.StatusError, Cause: grader.CauseUnavailable},
		errors.New("the endpoint is down")
}

// recordFile plays three tickets in both simple tasks with the oracle, and writes the records to a
// file.
func recordFile(t *testing.T, judge grader.Judge) string {
	t.Helper()
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	kind, err := ticket.New(catalog, judge)
	if err != nil {
		t.Fatal(err)
	}
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	server, err := openenv.New(openenv.Config{Kind: kind, LedgerKey: key, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	front := httptest.NewServer(server.Handler())
	defer front.Close()
	plan, err := score.NewPlan(score.Plan{
		Run: "run-1", Seed: 42, PassScore: 750_000, ScenarioDigest: kind.ScenarioDigest(),
		GraderVersion: kind.GraderVersion(), Judge: kind.Judge(),
		LedgerKey: score.FormatPublicKey(key.Public().(ed25519.PublicKey)),
		Tasks: []score.PlanTask{
			{Name: tasks.TicketClassify, Trials: 1, Scenarios: []string{"B06", "B07", "S03"}},
			{Name: tasks.TicketResolve, Trials: 1, Scenarios: []string{"B06", "B07", "S03"}},
		},
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := policy.NewBuiltin(policy.Oracle, "ticket", catalog)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w := record.NewWriter(&file)
	if _, err := rollout.Run(t.Context(), rollout.Config{
		Plan: plan, Environment: "ticket", Policy: agent, Concurrency: 2, EpisodeAttempts: 1,
		Clock: rollout.SystemClock(), Log: slog.New(slog.DiscardHandler),
		Pods: func(context.Context) ([]string, error) {
			return []string{strings.TrimPrefix(front.URL, "http://")}, nil
		},
		Record: func(e record.Episode) {
			if err := w.Write(e); err != nil {
				t.Error(err)
			}
		},
	}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "episodes.jsonl")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, file string) map[int64]record.Episode {
	t.Helper()
	episodes := map[int64]record.Episode{}
	for e, err := range record.Read(strings.NewReader(file)) {
		if err != nil {
			t.Fatal(err)
		}
		episodes[e.Index] = e
	}
	return episodes
}

func TestRegradeKeepsTheGrade(t *testing.T) {
	path := recordFile(t, offline.New())
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out, errs, code := csenv(t, "regrade", path)
	if code != exitDone || !strings.Contains(errs, "6 episodes: 6 graded again (0 with another score") {
		t.Errorf("exit %d: %s", code, errs)
	}
	folder := filepath.Join(t.TempDir(), "shard-00000")
	if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, "000001.jsonl"), was, 0o600),
		os.WriteFile(filepath.Join(filepath.Dir(folder), "manifest.json"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if stored, errs, code := csenv(t, "regrade", filepath.Dir(folder)); code != exitDone || stored != out {
		t.Errorf("from a stored run: exit %d, %s, %d bytes; from its file, %d", code, errs, len(stored), len(out))
	}
	if _, errs, code := csenv(t, "regrade", folder); code != exitError ||
		!strings.Contains(errs, folder+" contains no run") {
		t.Errorf("from another folder: exit %d, %s", code, errs)
	}
	before, after := read(t, string(was)), read(t, out)
	if len(after) != 6 {
		t.Errorf("%d episodes of 6", len(after))
	}
	for index, e := range after {
		if diff := cmp.Diff(before[index].Grade, e.Grade); diff != "" || e.Before == nil {
			t.Errorf("episode %d (-was +is)\n%s", index, diff)
		}
	}
}

// Episodes without a verdict have no score until a judge is named. The rules never replace the
// judge.
func TestRegradeWithoutAVerdict(t *testing.T) {
	path := recordFile(t, downJudge{})
	out, errs, code := csenv(t, "regrade", path)
	if code != exitOutcome || !strings.Contains(errs, "3 graded again") ||
		!strings.Contains(errs, "3 not gradable: no verdict is recorded: choose a judge") {
		t.Errorf("exit %d: %s", code, errs)
	}
	for _, e := range read(t, out) {
		if e.Task == tasks.TicketResolve && (e.Score != nil || e.Outcome != score.Errored) {
			t.Errorf("a score without a verdict: %+v", e.Grade)
		}
	}
	out, errs, code = csenv(t, "regrade", path, "--judge", "offline", "--only", "judge_failed,judge_unavailable")
	if code != exitDone || !strings.Contains(errs, "3 graded again") || !strings.Contains(errs, "3 passed through") {
		t.Errorf("exit %d: %s", code, errs)
	}
	for _, e := range read(t, out) {
		if e.Score == nil || *e.Score < 0.9 {
			t.Errorf("%s %s scores %+v", e.Task, e.Scenario, e.Grade)
		}
		if judged := e.Task == tasks.TicketResolve; judged != (e.Before != nil) {
			t.Errorf("%s %s: before %+v", e.Task, e.Scenario, e.Before)
		}
	}
}

func TestRegradeErrors(t *testing.T) {
	path := recordFile(t, offline.New())
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) string {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no file":     {[]string{"none.jsonl"}, exitError, "none.jsonl"},
		"not records": {[]string{write("a", "hello\n")}, exitError, "the input contains none: line 1: not a record"},
		"a foreign line": {[]string{write("e", "hello\n"+string(whole)+"{}\n")}, exitOutcome,
			"2 lines skipped because they aren't records; the first: line 1: not a record"},
		"no such folder": {[]string{path, "-O", filepath.Join(t.TempDir(), "none", "out")}, exitError,
			"writing records"},
		"onto itself":        {[]string{path, "-O", path}, exitError, "choose another file"},
		"an unknown judge":   {[]string{path, "--judge", "me"}, exitError, "--judge"},
		"a model of nowhere": {[]string{path, "--judge", "llm"}, exitError, "--judge-"},
		"cut off": {[]string{write("b", string(whole[:len(whole)-20]))}, exitOutcome,
			"1 not gradable: the last record is incomplete"},
		"another scenario": {[]string{write("c", strings.ReplaceAll(string(whole), `"scenario":"B07"`,
			`"scenario":"Z99"`))}, exitOutcome, "2 not gradable: unknown scenario"},
		"another world": {[]string{write("d", strings.ReplaceAll(string(whole), `"environment":"ticket"`,
			`"environment":"chess"`))}, exitOutcome, `6 not gradable: unknown environment "chess"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs, code := csenv(t, append([]string{"regrade"}, c.args...)...)
			if code != c.code || !strings.Contains(errs, c.want) {
				t.Errorf("exit %d, want %d: %q doesn't tell %q", code, c.code, errs, c.want)
			}
		})
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(whole, now) {
		t.Errorf("the records were changed: %v", err)
	}
}

// mixedJudge is a model that denies every claim, and can't be reached for the S tickets.
type mixedJudge struct{ model *llm.Judge }

const modelScale = "llm:model@" + llm.RubricVersion

func newMixedJudge(t *testing.T) grader.Judge {
	t.Helper()
	j, err := llm.New(llm.Config{BaseURL: "http://model.test/v1", Model: "model", Votes: 1, CacheMode: llm.CacheOff,
		OnFailure: llm.FailureIsOffline, HTTPClient: &http.Client{Transport: denying{}}}, offline.New())
	if err != nil {
		t.Fatal(err)
	}
	return mixedJudge{j}
}

func (j mixedJudge) Name() string { return j.model.Name() }

func (j mixedJudge) Judge(ctx context.Context, c grader.Case) (grader.Verdict, error) {
	v, err := j.model.Judge(context.WithValue(ctx, unreachable{}, strings.HasPrefix(c.Ticket.ScenarioID, "S")), c)
	v.Case = c.Digest()
	return v, err
}

type (
	denying     struct{}
	unreachable struct{}
)

var claimID = regexp.MustCompile(`(?m)^- (c\d+): `)

func (denying) RoundTrip(r *http.Request) (*http.Response, error) {
	status := http.StatusOK
	if down, _ := r.Context().Value(unreachable{}).(bool); down {
		status = http.StatusUnauthorized
	}
	var asked struct{ Messages []struct{ Content string } }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return nil, err
	}
	verdicts := []map[string]string{}
	for _, id := range claimID.FindAllStringSubmatch(asked.Messages[1].Content, -1) {
		verdicts = append(verdicts, map[string]string{"id": id[1], "evidence_quote": "", "reason": "", "verdict": "unmet"})
	}
	content, err := json.Marshal(map[string]any{"verdicts": verdicts,
		"letter": map[string]any{"reason": "", "may_be_sent": true}})
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]any{"choices": []any{map[string]any{"finish_reason": "stop",
		"message": map[string]any{"role": "assistant", "content": string(content)}}}})
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)), Request: r}, err
}

// A run that has verdicts by facts in place of the model keeps its scores and its scale.
func TestRegradeOnAMixedScale(t *testing.T) {
	path := recordFile(t, newMixedJudge(t))
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(was), string(grader.StatusFallback)) ||
		!strings.Contains(string(was), `"judge":"`+modelScale+`"`) {
		t.Fatalf("not verdicts of both judges: %s", was)
	}
	out, errs, code := csenv(t, "regrade", path)
	if code != exitDone || !strings.Contains(errs, "6 graded again (0 with another score, 0 without a score)") {
		t.Errorf("exit %d: %s", code, errs)
	}
	before := read(t, string(was))
	for index, e := range read(t, out) {
		if e.Score == nil || *e.Score != *before[index].Score || e.Judge != before[index].Judge {
			t.Errorf("episode %d: %+v, was %+v", index, e.Grade, before[index].Grade)
		}
	}
}

// An episode whose verdicts don't match its replies keeps its grade.
func TestRegradeKeepsGradesThatVerdictsDoNotFit(t *testing.T) {
	path := recordFile(t, newMixedJudge(t))
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, replaced := range map[string]string{
		"another judge":  strings.ReplaceAll(string(was), `"judge":"`+modelScale+`"`, `"judge":"llm:other@1"`),
		"other replies":  strings.ReplaceAll(string(was), `"case":"`, `"case":"0`),
		"other verdicts": strings.ReplaceAll(string(was), `"verdict":"unmet"`, `"verdict":"maybe"`),
	} {
		t.Run(name, func(t *testing.T) {
			if replaced == string(was) {
				t.Fatal("nothing was replaced")
			}
			if err := os.WriteFile(path, []byte(replaced), 0o600); err != nil {
				t.Fatal(err)
			}
			out, errs, code := csenv(t, "regrade", path)
			if code != exitOutcome || !strings.Contains(errs, "0 without a score") ||
				!strings.Contains(errs, "not gradable: the recorded verdicts don't match") {
				t.Errorf("exit %d: %s", code, errs)
			}
			before := read(t, replaced)
			for index, e := range read(t, out) {
				if e.Score == nil || *e.Score != *before[index].Score {
					t.Errorf("episode %d: %+v, was %+v", index, e.Grade, before[index].Grade)
				}
			}
		})
	}
}

// The file of --out is replaced atomically and keeps its mode, and no other file remains in its
// folder.
func TestRegradeReplacesTheFile(t *testing.T) {
	path := recordFile(t, offline.New())
	dir := t.TempDir()
	out, foreign := filepath.Join(dir, "out.jsonl"), filepath.Join(t.TempDir(), "foreign")
	for file, content := range map[string]string{out: "old", foreign: "hello\n"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, errs, code := csenv(t, "regrade", foreign, "-O", out); code != exitError {
		t.Errorf("exit %d: %s", code, errs)
	}
	if now, err := os.ReadFile(out); err != nil || string(now) != "old" {
		t.Errorf("after a failure the file holds %q, %v", now, err)
	}
	if _, errs, code := csenv(t, "regrade", path, "-O", out); code != exitDone {
		t.Errorf("exit %d: %s", code, errs)
	}
	now, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, string(now)); len(got) != 6 {
		t.Errorf("%d episodes of 6", len(got))
	}
	info, err := os.Stat(out)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("the folder holds %v, %v", left, err)
	}
	if _, errs, code := csenv(t, "regrade", path, "-O", os.DevNull); code != exitDone {
		t.Errorf("into a device: exit %d: %s", code, errs)
	}
}
