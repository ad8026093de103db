package evaluate

import (
	"fmt"
	"log/slog"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/record"
)

// estimate prints what a run would play. The options have the policy that knows the right answers,
// and the judge by rules, so that no endpoint is called. Any other agent that asks, searches or
// errs takes more actions.
func (e *evalCommand) estimate(cmd *cobra.Command, run *v1alpha1.EvaluationRun, o local.Options) error {
	played := run.DeepCopy()
	played.Spec.Thresholds, played.UID = nil, "dry-run"
	var actions, replies int
	o.Log = slog.New(slog.DiscardHandler)
	o.Record = func(r record.Episode) {
		e.mu.Lock()
		defer e.mu.Unlock()
		actions += len(r.Turns)
		replies += len(r.Verdicts)
	}
	if e.meter != nil {
		o.Agent = e.meter.Measure(o.Agent)
	}
	if err := local.Play(cmd.Context(), played, o); err != nil {
		return err
	}
	if err := cmd.Context().Err(); err != nil {
		return fmt.Errorf("estimating the run: %w", err)
	}
	s := view.Section{Header: []string{"what", "value"}}
	value := view.Object{}
	add := func(name, what, text string) {
		s.Rows = append(s.Rows, []string{what, text})
		value = append(value, name, text)
	}
	add("run", "run", run.Name)
	add("agent", "agent", source.AgentName(run))
	if address, _ := local.Endpoint(run.Spec.Agent); address != "" {
		add("endpoint", "endpoint", address)
	}
	for _, task := range played.Status.Tasks {
		add(task.Name, "task "+task.Name, view.Count(int(task.Episodes), "episode"))
	}
	add("episodes", "episodes", strconv.FormatInt(played.Status.Episodes.Total, 10))
	add("actions", "actions, at least", strconv.Itoa(actions))
	add("replies", "replies to judge, at least", strconv.Itoa(replies))
	if e.meter != nil {
		requests, used := e.meter.Measured()
		tokens := v1alpha1.Tokens{Prompt: used.Prompt, Completion: used.Completion}
		add("requests", "requests to the model, at least", strconv.FormatInt(requests, 10))
		add("promptTokens", "tokens of prompts, about", strconv.FormatInt(tokens.Prompt, 10))
		add("completionTokens", "tokens of answers, about", strconv.FormatInt(tokens.Completion, 10))
		if cost := evaluation.Cost(run.Spec.Prices, &tokens); cost != "" {
			add("cost", "cost, about", cost)
		}
	}
	add("results", "episodes stored in", e.store)
	return e.output.Print(cmd.OutOrStdout(), view.Result{Value: value, Header: s.Header, Rows: s.Rows,
		Document: view.Document{Sections: []view.Section{s}}})
}
