package client_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
)

// action is what the examples play of the ticket environment's actions.
type action struct {
	Type     string       `json:"action_type"`
	Category string       `json:"category,omitempty"`
	Priority string       `json:"priority,omitempty"`
	Message  string       `json:"message,omitempty"`
	Facts    []facts.Fact `json:"facts,omitempty"`
}

// dialTickets serves the built-in tickets in this process, in place of `csenv serve` or a pool, and
// opens a session. The returned function ends both.
func dialTickets(ctx context.Context) (session *client.Client, end func()) {
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		log.Fatal(err)
	}
	kind, err := ticket.New(catalog, offline.New())
	if err != nil {
		log.Fatal(err)
	}
	server, err := openenv.New(openenv.Config{
		Kind: kind, LedgerKey: echo.LedgerKey(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	session, err = client.Dial(ctx, "http://in-process", client.Options{Connect: server.Connect("example")})
	if err != nil {
		log.Fatal(err)
	}
	return session, func() {
		_ = session.Close()
		server.Close()
	}
}

// A session plays one episode after another. README.md shows the first and the last of
// these answers, docs/concepts.md the score of the one between them.
func Example() {
	ctx := context.Background()
	session, end := dialTickets(ctx)
	defer end()
	answers := map[string][]action{
		"bad": {
			{Type: "classify", Category: "billing", Priority: "urgent"},
			{Type: "resolve", Message: "Hi Darren, sorry about that! You will get INV-775957 by e-mail within 24 hours.",
				Facts: []facts.Fact{{What: "arrives_by", Value: "24 hours"}}},
		},
		"half": {
			{Type: "classify", Category: "billing", Priority: "high"},
			{Type: "resolve", Message: "Hi Darren, your copy of INV-775957 arrives within 40 minutes. " +
				"Every invoice is under Billing, Documents.",
				Facts: []facts.Fact{{What: "arrives_by", Value: "40 minutes"}, {What: "control", Value: "Billing"}}},
		},
		"good": {
			{Type: "classify", Category: "billing", Priority: "low"},
			{Type: "resolve", Message: "Hi Darren, I have just sent INV-775957 as a PDF to the address of your account; " +
				"it arrives within 40 minutes. You never have to ask: every invoice is under Billing, Documents.",
				Facts: []facts.Fact{{What: "arrives_by", Value: "40 minutes"}, {What: "control", Value: "Billing"},
					{What: "next_step", Value: "sent"}}},
		},
	}
	for _, name := range []string{"bad", "half", "good"} {
		_, err := session.Reset(ctx, map[string]any{"task": "ticket-resolve", "scenario": "B01", "seed": 0})
		if err != nil {
			log.Fatal(err)
		}
		var last client.Observation
		for _, a := range answers[name] {
			if last, err = session.Step(ctx, a); err != nil {
				log.Fatal(err)
			}
		}
		fmt.Printf("%s: %.2f, passes: %t\n", name, *last.Metadata.EpisodeScore, *last.Metadata.Right)
		for _, points := range last.Metadata.ScoreBreakdown {
			fmt.Printf("  %-10s %.3f of %.3f\n", points.Name, points.Earned, points.Offered)
		}
	}
	// Output:
	// bad: 0.40, passes: false
	//   category   0.200 of 0.200
	//   priority   0.000 of 0.100
	//   escalation 0.200 of 0.200
	//   response   0.000 of 0.500
	// half: 0.50, passes: false
	//   category   0.200 of 0.200
	//   priority   0.000 of 0.100
	//   escalation 0.200 of 0.200
	//   response   0.100 of 0.500
	// good: 1.00, passes: true
	//   category   0.200 of 0.200
	//   priority   0.100 of 0.100
	//   escalation 0.200 of 0.200
	//   response   0.500 of 0.500
}

// Forks of a session play on from the same state, for example to compare two actions.
func ExampleClient_Fork() {
	ctx := context.Background()
	session, end := dialTickets(ctx)
	defer end()
	if _, err := session.Reset(ctx, map[string]any{"task": "ticket-classify", "scenario": "B01", "seed": 0}); err != nil {
		log.Fatal(err)
	}
	priorities := []string{"low", "urgent"}
	forks, err := session.Fork(ctx, len(priorities))
	if err != nil {
		log.Fatal(err)
	}
	for i, priority := range priorities {
		fork, err := session.Attach(ctx, forks[i])
		if err != nil {
			log.Fatal(err)
		}
		last, err := fork.Step(ctx, action{Type: "classify", Category: "billing", Priority: priority})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: done %t, reward %.2f\n", priority, last.Done, last.Reward)
		_ = fork.Close()
	}
	// Output:
	// low: done true, reward 1.00
	// urgent: done true, reward 0.67
}
