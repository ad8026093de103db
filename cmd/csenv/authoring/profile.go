package authoring

import (
	"context"
	"fmt"
	"strings"

	"github.com/csenv/csenv/envserver/queue"
	"github.com/csenv/csenv/scenarios"
)

// profile is the summary of a scenario at seed 0.
type profile struct {
	ID           string `json:"id"`
	Kind         string `json:"kind"`
	Version      int    `json:"version"`
	Category     string `json:"category"`
	Priority     string `json:"priority"`
	Escalation   bool   `json:"escalation"`
	AccountLevel string `json:"account_level"`
	Tone         string `json:"tone"`
	Cue          string `json:"cue"`
	Difficulty   string `json:"difficulty"`
	Split        string `json:"split"`
	Language     string `json:"language"`
	UserSim      bool   `json:"user_sim"`
	Title        string `json:"title"`
	Pack         string `json:"pack"`
	File         string `json:"file"`
}

// The kinds of scenarios.
const (
	kindTicket   = "Ticket"
	kindWorkflow = "Workflow"
	kindQueue    = "Queue"
	kindCase     = "Case"
)

// profiles lists the tickets, the workflows and the queues. A workflow has no category, priority or
// tone; its difficulty is its class, and it escalates where a required step does.
func profiles(ctx context.Context, c *scenarios.Catalog) ([]profile, error) {
	out := make([]profile, 0, len(c.Tickets())+len(c.Workflows()))
	for _, s := range c.Tickets() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		t, err := s.Instantiate(0)
		if err != nil {
			return nil, fmt.Errorf("instantiating %s: %w", s.ID, err)
		}
		out = append(out, profile{
			ID: s.ID, Kind: kindTicket, Version: s.Version, Category: t.Gold.Category, Priority: t.Gold.Priority,
			Escalation: t.Gold.Escalate, AccountLevel: t.Customer.AccountLevel,
			Tone: t.Tone, Cue: s.Cue, Difficulty: s.Difficulty, Split: s.Split, Language: s.Language,
			UserSim: t.UserSim != nil, Title: t.Subject, Pack: s.Pack.Name, File: s.File,
		})
	}
	for _, s := range c.Workflows() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		w, err := s.Instantiate(0)
		if err != nil {
			return nil, fmt.Errorf("instantiating %s: %w", s.ID, err)
		}
		p := profile{
			ID: s.ID, Kind: kindWorkflow, Version: s.Version, AccountLevel: w.Customer.AccountLevel,
			Difficulty: s.Class, Split: s.Split, Language: s.Language,
			Title: w.Query, Pack: s.Pack.Name, File: s.File,
		}
		for _, step := range w.Steps {
			p.Escalation = p.Escalation || step.Action == scenarios.EscalateIssue
		}
		out = append(out, p)
	}
	for _, s := range c.Cases() {
		out = append(out, profile{ID: s.ID, Kind: kindCase, Version: s.Version, Category: s.Category(),
			Difficulty: s.Class, Split: s.Split, Language: s.Language, Title: strings.Join(s.Modifiers(), ", "),
			Pack: s.Pack.Name, File: s.File})
	}
	queues, err := queue.Compose(c)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		out = append(out, profile{ID: q.ID, Kind: kindQueue, Split: q.Split, Language: q.Language,
			Category: "queue", Title: strings.Join(q.Tickets[:], ", ")})
	}
	return out, nil
}
