package episodes

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/authoring"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/tasks"
	"github.com/csenv/csenv/envserver/ticket"
	"github.com/csenv/csenv/envserver/web/transcript"
	"github.com/csenv/csenv/scenarios"
)

// NewPlayCommand returns the command for playing an episode by hand.
func NewPlayCommand() *cobra.Command {
	options := episode.Options{RewardMode: episode.Terminal, EpisodeID: "play"}
	cmd := &cobra.Command{
		Use:   "play [SCENARIO]",
		Short: "Play a ticket or a workflow yourself and see its grade",
		Args:  cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return cli.ScenarioIDs(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cli.Help(cmd, "play")
	packs := cli.PackFlag(cmd.Flags())
	cmd.Flags().StringVar(&options.Task, "task", "", "`task` to play: "+strings.Join(tasks.Names(), ", ")+
		"; by default that of the scenario")
	cmd.Flags().Int64Var(&options.Seed, "seed", 0, "seed that draws the scenario's values")
	cmd.Flags().BoolVar(&options.Pressure, "pressure", false, "play ticket-resolve under simulated time")
	cli.Complete(cmd, "task", tasks.Names)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		catalog, err := cli.LoadCatalog(*packs)
		if err != nil {
			return err
		}
		if len(args) == 1 {
			options.Scenario = args[0]
		}
		t, err := newPlayer(catalog, &options, cmd.InOrStdin(), cmd.OutOrStdout())
		if err != nil {
			return err
		}
		return t.play(cmd.Context(), options)
	}
	return cmd
}

// player is a person at a terminal.
type player struct {
	kind    episode.Kind
	env     episode.Environment
	in      *bufio.Scanner
	out     io.Writer
	watcher transcript.Watcher
	// echo prints the input, for input that doesn't come from a terminal.
	echo bool
	// actions are those of the menu, in its order.
	actions []episode.Tool
	// queue are the tickets of a shift, and at is the selected one.
	queue []ticket.QueuedTicket
	at    string
}

func newPlayer(catalog *scenarios.Catalog, options *episode.Options, in io.Reader, out io.Writer) (*player, error) {
	environment, err := environmentFor(catalog, options)
	if err != nil {
		return nil, err
	}
	kind, err := transcript.NewKind(catalog, environment, nil)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, record.MaxLine)
	return &player{kind: kind, env: kind.New(), in: lines, out: out, echo: !view.IsTerminal(in)}, nil
}

// environmentFor returns the environment of the options' task and scenario, and sets the task if it
// is empty.
func environmentFor(catalog *scenarios.Catalog, options *episode.Options) (string, error) {
	if w, ok := catalog.Workflow(options.Scenario); ok {
		if options.Task == "" {
			options.Task = w.Task()
		}
		return tasks.Workflow, nil
	}
	_, isTicket := catalog.Ticket(options.Scenario)
	isQueue := authoring.IsQueue(catalog, options.Scenario)
	if options.Task == "" {
		options.Task = tasks.TicketResolve
		if isQueue {
			options.Task = tasks.QueueManagement
		}
	}
	environment, err := local.EnvironmentOf(options.Task)
	if err != nil {
		return "", err
	}
	if options.Scenario != "" && !isTicket && !isQueue {
		_, err := authoring.Instantiate(catalog, options.Scenario, 0)
		return "", err
	}
	return strings.ToLower(string(environment)), nil
}

// errStopped means that the player quit.
var errStopped = errors.New("stopped before the end, so the episode has no score")

func (p *player) play(ctx context.Context, options episode.Options) error {
	begun, err := p.env.Reset(options)
	if err != nil {
		return fmt.Errorf("beginning the episode: %w", err)
	}
	p.see(begun.Observation)
	p.menu()
	for {
		action, err := p.choose(ctx)
		if errors.Is(err, errStopped) && len(p.queue) > 0 {
			return p.endShift(ctx)
		}
		if err != nil {
			return err
		}
		result, err := p.env.Step(ctx, action)
		if invalid, ok := errors.AsType[*episode.ActionError](err); ok {
			view.Paragraph(p.out, "  ", invalid.Error())
			continue
		}
		if err != nil {
			return fmt.Errorf("playing the action: %w", err)
		}
		if result, err = p.advance(ctx, result); err != nil {
			return err
		}
		offered := p.actions
		p.see(result.Observation)
		if result.Final != nil {
			p.explain(result.Final)
			return nil
		}
		if !slices.EqualFunc(offered, p.actions, func(a, b episode.Tool) bool { return a.Name == b.Name }) {
			p.menu() // the numbers have changed
		}
	}
}

// see shows an observation, and keeps what the menu depends on.
func (p *player) see(observation any) {
	printItems(p.out, p.watcher.See(observation))
	p.actions = p.kind.Schemas().Tools
	seen, ok := observation.(ticket.Observation)
	if !ok {
		return
	}
	p.actions = slices.DeleteFunc(slices.Clone(p.actions), func(t episode.Tool) bool {
		return len(seen.AllowedActions) > 0 && !slices.Contains(seen.AllowedActions, t.Name) && t.Name != "submit"
	})
	p.queue, p.at = nil, seen.TicketID
	if seen.QueueStatus != nil {
		p.queue = seen.Queue
	}
}

// isOpen reports whether a ticket of a queue still needs work.
func isOpen(q ticket.QueuedTicket) bool { return q.Status != "resolved" && q.Status != "escalated" }

// advance selects the next open ticket of a queue if the selected one was closed.
func (p *player) advance(ctx context.Context, result episode.Result) (episode.Result, error) {
	seen, ok := result.Observation.(ticket.Observation)
	if !ok || result.Final != nil || seen.QueueStatus == nil {
		return result, nil
	}
	at := slices.IndexFunc(seen.Queue, func(q ticket.QueuedTicket) bool { return q.TicketID == seen.TicketID })
	next := slices.IndexFunc(seen.Queue, isOpen)
	if next < 0 || at < 0 || isOpen(seen.Queue[at]) {
		return result, nil
	}
	view.Paragraph(p.out, "  > ", seen.Feedback)
	return p.act(ctx, map[string]string{"action_type": "select_ticket", "ticket_id": seen.Queue[next].TicketID})
}

// act plays an action that the player didn't type.
func (p *player) act(ctx context.Context, action map[string]string) (episode.Result, error) {
	encoded, err := json.Marshal(action)
	if err != nil {
		return episode.Result{}, fmt.Errorf("writing the action: %w", err)
	}
	result, err := p.env.Step(ctx, encoded)
	if err != nil {
		return result, fmt.Errorf("playing the action: %w", err)
	}
	return result, nil
}

// endShift resolves the open tickets of a queue until the shift is over.
func (p *player) endShift(ctx context.Context) error {
	fmt.Fprintln(p.out, "\n  the shift ends: open tickets are resolved as they are")
	for _, q := range slices.DeleteFunc(slices.Clone(p.queue), func(q ticket.QueuedTicket) bool { return !isOpen(q) }) {
		if q.TicketID != p.at {
			chosen := map[string]string{"action_type": "select_ticket", "ticket_id": q.TicketID}
			if _, err := p.act(ctx, chosen); err != nil {
				return err
			}
		}
		result, err := p.act(ctx, map[string]string{"action_type": "resolve"})
		if err != nil {
			return err
		}
		if p.at = q.TicketID; result.Final != nil {
			p.explain(result.Final)
			return nil
		}
	}
	return errStopped
}

// argument is the schema of an action's field.
type argument struct {
	Description string     `json:"description"`
	Enum        []any      `json:"enum"`
	AnyOf       []argument `json:"anyOf"`
}

// choices returns the allowed values, nil for free text.
func (a argument) choices() []string {
	var values []string
	for _, v := range a.Enum {
		if text, ok := v.(string); ok {
			values = append(values, text)
		}
	}
	for _, alternative := range a.AnyOf {
		values = append(values, alternative.choices()...)
	}
	return values
}

// menu prints the actions that are possible.
func (p *player) menu() {
	actions := view.Section{Header: []string{" ", "action", "description"}}
	for i, t := range p.actions {
		actions.Rows = append(actions.Rows, []string{strconv.Itoa(i + 1), t.Name, t.Description})
	}
	fmt.Fprintln(p.out)
	view.Document{Sections: []view.Section{actions}}.Print(p.out, "table")
}

// choose prompts until an action is entered.
func (p *player) choose(ctx context.Context) (json.RawMessage, error) {
	stops := "q stops"
	if len(p.queue) > 0 {
		stops = "q ends the shift"
	}
	for ctx.Err() == nil {
		line, err := p.ask("action (number, name or JSON; ? lists them, " + stops + ")")
		if err != nil || line == "q" {
			return nil, errStopped
		}
		if line == "?" {
			p.menu()
			continue
		}
		if strings.HasPrefix(line, "{") {
			return json.RawMessage(line), nil
		}
		at := slices.IndexFunc(p.actions, func(t episode.Tool) bool { return t.Name == line })
		if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(p.actions) {
			at = n - 1
		}
		if at < 0 {
			view.Paragraph(p.out, "  ", fmt.Sprintf("%q is none of the possible actions: ? lists them", line))
			continue
		}
		return p.arguments(p.actions[at])
	}
	return nil, ctx.Err()
}

// fieldPlace is the place of a field in the order of the prompts, -1 for other fields.
func fieldPlace(name string) int {
	return slices.Index([]string{"ticket_id", "category", "priority", "decision", "order_id", "payment_id", "amount",
		"team", "reason", "query", "message"}, name)
}

func (p *player) arguments(t episode.Tool) (json.RawMessage, error) {
	var schema struct {
		Properties map[string]argument `json:"properties"`
		Required   []string            `json:"required"`
	}
	if err := json.Unmarshal(t.InputSchema, &schema); err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", t.Name, err)
	}
	names, given := view.SortedKeys(schema.Properties), map[string]string{}
	slices.SortStableFunc(names, func(a, b string) int { return fieldPlace(a) - fieldPlace(b) })
	for _, name := range names {
		value, err := p.argument(name, schema.Properties[name], slices.Contains(schema.Required, name))
		if err != nil {
			return nil, err
		}
		if value != "" {
			given[name] = value
		}
	}
	encoded, err := json.Marshal(given)
	if err != nil {
		return nil, fmt.Errorf("writing the action: %w", err)
	}
	return t.Action(encoded)
}

// argument prompts for one value: several lines for a message, otherwise a line.
func (p *player) argument(name string, a argument, required bool) (string, error) {
	choices := a.choices()
	if name == "ticket_id" {
		choices = view.Each(p.queue, func(q ticket.QueuedTicket) string { return q.TicketID })
	}
	what := name
	if len(choices) > 0 {
		what += " (" + strings.Join(choices, ", ") + ")"
	}
	if !required {
		what += ", or empty to omit it"
	}
	if name == "message" {
		return p.text(what + ", end with an empty line")
	}
	for {
		line, err := p.ask(what)
		if err != nil {
			return "", errStopped
		}
		if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(choices) {
			return choices[n-1], nil
		}
		if line == "" && required || line != "" && len(choices) > 0 && !slices.Contains(choices, line) {
			fmt.Fprintln(p.out, "  choose one of the listed values")
			continue
		}
		return line, nil
	}
}

func (p *player) ask(what string) (string, error) {
	fmt.Fprintf(p.out, "\n%s: ", what)
	if !p.in.Scan() {
		fmt.Fprintln(p.out)
		return "", io.EOF
	}
	line := strings.TrimSpace(p.in.Text())
	if p.echo {
		fmt.Fprintln(p.out)
		view.Paragraph(p.out, "  ", line)
	}
	return line, nil
}

// text reads lines until an empty one.
func (p *player) text(what string) (string, error) {
	fmt.Fprintf(p.out, "\n%s:\n", what)
	var kept []string
	for p.in.Scan() {
		line := strings.TrimRight(p.in.Text(), " \t\r")
		if line == "" {
			break
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "\n"), p.in.Err()
}

// explain prints the grade, and the gold beside what was given.
func (p *player) explain(final *episode.Final) {
	points := float64(final.Score) / score.One
	grade := record.Grade{
		Outcome: final.Outcome, Class: final.Cause, Score: &points, Dimensions: final.Dimensions, Judge: final.Judge,
		GraderVersion: p.kind.GraderVersion(), Verdicts: final.Verdicts,
	}
	printGrade(p.out, grade)
	for _, r := range transcript.ReviewOf(grade, p.env) {
		printReview(p.out, r)
	}
}
