package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/csenv/csenv/api/v1alpha1"
)

const evalManifest = `
apiVersion: csenv.dev/v1alpha1
kind: EvaluationRun
metadata: {name: small}
spec:
  environmentRef: {name: support}
  agent: {type: Builtin, builtin: {policy: Oracle}}
  tasks: [{name: ticket-classify, scenarios: {ids: [B06, S03]}}]
  seed: 42
---
apiVersion: csenv.dev/v1alpha1
kind: CustomerSupportEnv
metadata: {name: support}
`

func manifestFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "run.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestEval(t *testing.T) {
	out, errs, code := csenv(t, "eval", "--task", "ticket-resolve", "--scenarios", "B06,S03", "--trials", "2")
	if code != exitDone || errs != "" {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	narrow(t, out)
	for _, want := range []string{"heuristic: Completed, 4 of 4 episodes scored", "task ticket-resolve", "escalation",
		"pass^2", "sha256:"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output does not contain %q:\n%s", want, out)
		}
	}
}

func TestEvalManifest(t *testing.T) {
	file := manifestFile(t, evalManifest)
	out, errs, code := csenv(t, "eval", "-f", file, "-o", "json")
	var run v1alpha1.EvaluationRun
	if err := json.Unmarshal([]byte(out), &run); err != nil || code != exitDone || errs != "" {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
	}
	if run.Kind != "EvaluationRun" || run.Status.Score.Mean != "1.0000" || run.Status.Progress != "2/2" ||
		*run.Spec.Concurrency != 16 || run.UID == "" {
		t.Errorf("the object is %s", out)
	}
	table, _, _ := csenv(t, "eval", "-f", file, "-o", "csv")
	rows, err := csv.NewReader(strings.NewReader(table)).ReadAll()
	if err != nil || rows[1][1] != "run" || rows[1][4] != "1.0000" {
		t.Errorf("CSV %v, %v", rows, err)
	}
	markdown, _, _ := csenv(t, "eval", "-f", file, "-o", "markdown")
	if !strings.Contains(markdown, "| task ticket-classify | 2 | 1.00 |") {
		t.Errorf("Markdown:\n%s", markdown)
	}
}

func TestEvalOutcomes(t *testing.T) {
	args := []string{"eval", "--task", "ticket-classify", "--scenarios", "B06,S03", "--threshold", "meanScore=0.9"}
	if out, errs, code := csenv(t, append(args, "--agent", "noop")...); code != exitOutcome || errs != "" ||
		!strings.Contains(out, "meanScore is 0.0000, below 0.9") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	scoped := append(slices.Clone(args[:5]), "--threshold", "meanScore:billing=0.9,passRate:ticket-classify=0.9",
		"--agent", "noop")
	if out, _, code := csenv(t, scoped...); code != exitOutcome ||
		!strings.Contains(out, "meanScore of category billing is 0.0000") ||
		!strings.Contains(out, "passRate of task ticket-classify is 0.0000") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, errs, code := csenv(t, append(args, "--agent", "Oracle")...); code != exitDone || errs != "" {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}

func TestEvalErrors(t *testing.T) {
	t.Setenv("CSENV_AGENT_KEY", "")
	file := manifestFile(t, evalManifest)
	tests := map[string]struct {
		args []string
		want string
	}{
		"nothing":       {nil, "nothing to play: give --task"},
		"misspelt task": {[]string{"ticket-reslove"}, `there is no task "ticket-reslove": did you mean "ticket-resolve"?`},
		"a scenario":    {[]string{"B01"}, "B01 is a scenario, not a task: `csenv eval ticket-resolve --scenario B01` plays it"},
		"a scenario of another task": {[]string{"ticket-resolve", "--scenario", "C07"},
			"task ticket-resolve has no scenario C07: `csenv eval refund --scenario C07` plays it"},
		"misspelt flag": {[]string{"--models", "m"}, "did you mean --model?"},
		"unknown task":  {[]string{"--task", "chess"}, `there is no task "chess": known are ticket-classify`},
		"unknown agent": {[]string{"--task", "refund", "--agent", "genius"},
			`--agent is "genius": choose one of heuristic`},
		"no model": {[]string{"--task", "refund", "--agent", "openai"}, "--agent openai requires --model"},
		"no key": {[]string{"--task", "refund", "--agent", "openai", "--model", "m"},
			"requires a key: set it in CSENV_AGENT_KEY"},
		"no listener": {[]string{"--task", "refund", "--agent", "openai", "--model", "m", "--base-url",
			"http://127.0.0.1:1/v1"}, "nothing was played, because the agent can't act"},
		"no URL":            {[]string{"--task", "refund", "--agent", "http"}, "--agent http requires --agent-url"},
		"a bad threshold":   {[]string{"--task", "refund", "--threshold", "0.7"}, "write METRIC=MIN"},
		"an unknown metric": {[]string{"--task", "refund", "--threshold", "elo=0.7"}, "spec.thresholds[0].metric"},
		"a bad score": {[]string{"--task", "refund", "--pass-score", "80"},
			`--pass-score is "80": give a number from 0 to 1`},
		"no trials":     {[]string{"refund", "--trials", "0"}, "--trials is 0: give 1 or more"},
		"odd trials":    {[]string{"refund", "--trials", "x"}, `--trials is "x": give a whole number`},
		"a dotted name": {[]string{"refund", "--name", "gpt-4.1-mini"}, "such as gpt-4-1-mini"},
		"a digit first": {[]string{"refund", "--name", "4o"}, "beginning with a letter, such as run-4o"},
		"a long name":   {[]string{"refund", "--name", strings.Repeat("a", 51)}, "at most 50"},
		"two environments": {[]string{"--task", "ticket-resolve", "--task", "refund"},
			"tasks of two environments, and a run plays one: evaluate ticket-resolve and refund apart"},
		"a model for rules": {[]string{"refund", "--agent", "heuristic", "--model", "m"},
			"--model is for --agent openai, and the agent is heuristic"},
		"a model and a URL": {[]string{"refund", "--model", "m", "--agent-url", "http://h"},
			"--agent-url is for --agent http, and the agent is openai"},
		"an implied model":  {[]string{"ticket-resolve", "--model", "gpt-4"}, "set it in CSENV_AGENT_KEY"},
		"a task and a file": {[]string{"refund", "-f", file}, "the task refund can't be combined with -f"},
		"an unknown flag":   {[]string{"--bogus"}, "unknown flag: --bogus: see `csenv eval --help`"},
		"no scope": {[]string{"--task", "refund", "--threshold", "meanScore:=0.7"},
			"name a task or a category after the colon"},
		"an unplayed category": {[]string{"--task", "ticket-classify", "--categories", "billing", "--threshold",
			"meanScore:shipping=0.7"}, "spec.thresholds names category shipping, of which the run plays no scenario"},
		"a vague threshold": {[]string{"--task", "refund", "--threshold", "meanScore=high"}, "--threshold: "},
		"no temperature": {[]string{"--task", "refund", "--agent", "openai", "--model", "m", "--temperature", "hot"},
			"--temperature: "},
		"another's scenario": {[]string{"--task", "refund", "--scenarios", "B01"},
			"task refund has no scenario B01: `csenv eval ticket-resolve --scenario B01` plays it"},
		"no manifest":        {[]string{"-f", "none.yaml"}, "reading the manifest: open none.yaml"},
		"flags and manifest": {[]string{"-f", file, "--seed", "3"}, "--seed can't be combined with -f"},
		"a pool missing": {[]string{"-f", manifestFile(t, strings.Replace(evalManifest, "metadata: {name: support}",
			"metadata: {name: other}", 1))}, "the run's environmentRef is support, and -f contains the pools other"},
		"packs missing": {[]string{"-f", manifestFile(t, evalManifest+"spec: {scenarios: {packs: [{configMap: "+
			"{name: c}}]}}\n")}, "give their folders with --pack"},
		"suspended": {[]string{"-f", manifestFile(t, strings.Replace(evalManifest, "seed: 42", "suspend: true",
			1))}, "spec.suspend is true"},
		"trainers": {[]string{"-f", manifestFile(t, "apiVersion: csenv.dev/v1alpha1\nkind: "+
			"EvaluationRun\nmetadata: {name: grpo-7}\nspec: {environmentRef: {name: support}, agent: {type: "+
			"External}}\n")}, "Create it in the cluster with `csenv run -f`"},
		"a stray judge flag": {[]string{"--task", "refund", "--judge-model", "m"},
			"--judge-model given, but --judge is offline"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, errs, code := csenv(t, append([]string{"eval"}, tt.args...)...)
			if code != exitError || out != "" || !strings.Contains(errs, tt.want) {
				t.Errorf("exit code %d, output %q, error %q; want it to contain %q", code, out, errs, tt.want)
			}
		})
	}
}

// Fields that apply only in a cluster are not ignored silently.
func TestEvalReportsUnusedFields(t *testing.T) {
	file := manifestFile(t, strings.Replace(evalManifest, "  seed: 42",
		"  seed: 42\n  results: {url: 's3://b/p'}\n  baselineRef: {name: before}", 1))
	_, errs, code := csenv(t, "eval", "-f", file)
	if code != exitDone || !strings.Contains(errs, "--results is none") ||
		!strings.Contains(errs, "no comparison with spec.baselineRef") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
