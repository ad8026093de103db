package episodes

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/web/transcript"
	"github.com/csenv/csenv/scenarios"
)

// NewTranscriptCommand returns the command that shows a stored episode.
func NewTranscriptCommand() *cobra.Command {
	var from source.Flags
	cmd := &cobra.Command{
		Use:   "transcript RUN EPISODE",
		Short: "Show a stored episode: observations, actions and grade",
		Args:  cli.RequireArguments("RUN", "EPISODE"), SuggestFor: []string{"show", "episode"},
	}
	cli.SetHelp(cmd, "transcript")
	from.Add(cmd)
	packs, output := cli.PackFlag(cmd.Flags()), view.FormatFlag(cmd.Flags(), "text", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		run, e, err := findEpisode(cmd.Context(), &from, args[0], args[1])
		if err != nil {
			return err
		}
		if output.Name != "text" {
			return output.Encode(cmd.OutOrStdout(), e)
		}
		catalog, err := cli.LoadCatalog(*packs)
		if err != nil {
			return err
		}
		e.Run = run.Name
		return PrintTranscript(cmd.Context(), cmd.OutOrStdout(), catalog, *packs, e)
	}
	return cmd
}

// PrintTranscript writes the observations, actions and grade of an episode of a catalogue with
// these packs.
func PrintTranscript(ctx context.Context, w io.Writer, catalog *scenarios.Catalog, packs []string,
	e record.Episode) error {
	t, err := transcript.ReplayEpisode(ctx, catalog, e)
	if err != nil {
		return err
	}
	view.WriteParagraph(w, "", fmt.Sprintf("episode %d of run %s: task %s, scenario %s, trial %d, seed %d", e.Index,
		view.OrDash(e.Run), e.Task, e.Scenario, e.Trial, e.Seed))
	if t.Missing != "" {
		view.WriteParagraph(w, "", "note: "+t.Missing)
	}
	if t.Unknown != "" {
		view.WriteParagraph(w, "", "gold unknown: "+t.Unknown)
	}
	printGrade(w, e.Grade)
	if t.Lost != "" {
		view.WriteParagraph(w, "", "\nLost: "+t.Lost+".")
	}
	view.WriteHeading(w, "observations")
	printItems(w, t.Steps[0].Items)
	for _, step := range t.Steps[1:] {
		view.WriteHeading(w, fmt.Sprintf("action %d of %d", step.Number, len(e.Turns)))
		printAction(w, step.Action)
		if step.Refused != "" {
			view.WriteParagraph(w, "  ", "refused: "+step.Refused)
		}
		printItems(w, step.Items)
	}
	for _, r := range t.Reviews {
		printReview(w, r)
	}
	printTotals(w, t.Totals)
	if t.Unknown == "" {
		view.WriteParagraph(w, "", "\nThe scenario with these values: `"+t.ShowCommand(packs)+"`")
	}
	return nil
}

// printItems writes what an agent sees after an action.
func printItems(w io.Writer, items []transcript.Item) {
	for _, item := range items {
		switch {
		case item.Queue != nil:
			printQueue(w, item.Queue)
		case item.Opened != nil:
			printOpened(w, item.Opened)
		case item.Message.IsReply() || item.Message != nil && item.Message.Again: // shown with its action
		case item.Message != nil:
			title := strings.TrimSuffix(item.Message.Role+", "+item.Message.Note(), ", ")
			view.WriteTitledText(w, title, item.Message.Content)
		case item.Call != nil:
			printCall(w, item.Call)
		case item.Article != nil:
			view.WriteTitledText(w, "article "+item.Article.ID+", "+item.Article.Title, item.Article.Body)
		case item.Nothing:
			fmt.Fprintln(w, "\n  no article found")
		case item.Standing != nil:
			fmt.Fprintln(w)
			if item.Standing.Feedback != "" {
				view.WriteParagraph(w, "  > ", item.Standing.Feedback)
			}
			view.WriteParagraph(w, "  > ", item.Standing.String())
		}
	}
}

func printOpened(w io.Writer, o *transcript.Opened) {
	fmt.Fprintln(w)
	view.WriteField(w, "ticket", o.TicketID)
	view.WriteField(w, "task", o.Task)
	view.WriteField(w, "customer", view.FormatCustomer(o.Name, o.Company, o.Since))
	view.WriteField(w, "account level", o.Level)
	view.WriteField(w, "now", o.Now.Format(view.ClockTime))
	view.WriteField(w, "language", o.Language)
	view.WriteField(w, "subject", o.Subject)
	fmt.Fprintln(w)
	view.WriteParagraph(w, "  ", o.Text)
	for _, a := range o.Attachments {
		view.WriteTitledText(w, "attachment "+a.Name, a.Content)
	}
}

func printQueue(w io.Writer, q *transcript.Queue) {
	s := view.Section{
		Heading: fmt.Sprintf("  %d minutes and %d escalations left", q.MinutesLeft, q.EscalationsLeft),
		Header:  []string{" ", "#", "ticket", "subject", "level", "status", "waiting", "to SLA"},
	}
	for i, t := range q.Queue {
		mark, left := " ", "?"
		if t.TicketID == q.TicketID {
			mark = ">"
		}
		if t.MinutesToSLA != nil {
			left = strconv.Itoa(*t.MinutesToSLA)
		}
		s.Rows = append(s.Rows, []string{mark, strconv.Itoa(i + 1), t.TicketID, t.Subject, t.AccountLevel, t.Status,
			strconv.Itoa(t.WaitingMinutes), left})
	}
	fmt.Fprintln(w)
	view.Document{Sections: []view.Section{s}}.Print(w, "table")
}

// printCall writes what an action of a workflow returned.
func printCall(w io.Writer, c *transcript.Call) {
	customer := "customer"
	if c.Voice != "" {
		customer += ", " + c.Voice
	}
	for _, part := range []transcript.Field{{Name: "error", Value: c.Failed()}, {Name: "answer", Value: c.Returned()},
		{Name: customer, Value: c.Answer()}} {
		if part.Value != "" {
			view.WriteTitledText(w, part.Name, part.Value)
		}
	}
}

// printAction writes the members of an action, one per line.
func printAction(w io.Writer, a transcript.Action) {
	if a.Raw != "" {
		view.WriteParagraph(w, "  ", a.Raw)
		return
	}
	view.WriteField(w, "action", a.Type)
	for _, f := range append(a.Arguments, transcript.Field{Name: "message", Value: a.Message}) {
		view.WriteField(w, f.Name, f.Value)
	}
	stated := make([]string, len(a.Facts))
	for i, f := range a.Facts {
		stated[i] = f.What + ": " + strings.ReplaceAll(f.Value, "\n", " ")
	}
	view.WriteField(w, "facts", strings.Join(stated, "\n"))
}

// printReview writes what the agent gave beside the gold, with the points of each criterion.
// Without the gold it is a recorded verdict.
func printReview(w io.Writer, r transcript.Review) {
	view.WriteHeading(w, r.Heading)
	if r.Other != nil {
		view.WriteParagraph(w, "  ", view.FormatYAML(r.Other))
	}
	s := view.Section{Header: []string{"criterion", "given", "gold", "points", "why"}}
	for _, row := range r.Rows {
		why := row.Why
		if row.Evidence != nil {
			why = transcript.DescribeEvidence(*row.Evidence)
		}
		s.Rows = append(s.Rows, []string{strings.Repeat("  ", row.Depth) + row.Criterion, row.Given, row.Gold,
			row.Points.String(), why})
	}
	if len(s.Rows) > 0 {
		view.Document{Sections: []view.Section{s}}.Print(w, "table")
	}
	printTotals(w, r.Totals)
	if len(r.Rules) > 0 {
		view.WriteTitledText(w, "the rules that decide it", strings.Join(r.Rules, "\n"))
	}
	if r.Good != "" {
		view.WriteTitledText(w, "a good reply", r.Good)
	}
}

func printTotals(w io.Writer, totals []transcript.Total) {
	for _, t := range totals {
		view.WriteParagraph(w, "  ", t.Name+" = "+t.Value)
	}
}
