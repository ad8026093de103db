package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	"github.com/csenv/csenv/envserver/testkit"
	testserver "github.com/csenv/csenv/envserver/testkit/server"
	"github.com/csenv/csenv/scenarios"
)

func serveTickets(t *testing.T, catalog *scenarios.Catalog) string {
	t.Helper()
	kind, err := ticket.New(catalog, offline.New())
	if err != nil {
		t.Fatal(err)
	}
	return testserver.Start(t, openenv.Config{Kind: kind}).URL
}

// The exported labels earn the full reward on csenv's server, and the sample has every kind of
// reward.
func TestExportedLabelsAreRight(t *testing.T) {
	catalog := testkit.Catalog(t)
	out, err := exportTickets(catalog, 84)
	if err != nil {
		t.Fatal(err)
	}
	url := serveTickets(t, catalog)
	got, err := compareEpisodes(t.Context(), url, url, out.Tickets)
	if err != nil {
		t.Fatal(err)
	}
	if got.episodes != 84 || got.full < 84/5 || got.part == 0 || got.none == 0 {
		t.Errorf("%s", got)
	}
	for seed, exported := range out.Tickets {
		if exported.Served.Subject == "" || len(exported.Articles) == 0 || exported.Gold.Category == "" {
			t.Fatalf("seed %d: %+v", seed, exported)
		}
	}
}

func TestServersThatDiffer(t *testing.T) {
	catalog := testkit.Catalog(t)
	out, err := exportTickets(catalog, 5)
	if err != nil {
		t.Fatal(err)
	}
	split := catalog.Split(scenarios.Splits[0])
	_, err = compareEpisodes(t.Context(), serveTickets(t, catalog), serveTickets(t, split), out.Tickets)
	if !errors.Is(err, errDiffer) || !strings.Contains(err.Error(), "seed ") {
		t.Errorf("error %v, want that the servers differ", err)
	}
}

func TestMoments(t *testing.T) {
	base := moment{subject: "a", step: 1, found: []string{"K1"}, reward: 0.3, done: true}
	if same := base; !base.equal(same) {
		t.Error("a moment differs from itself")
	}
	for name, change := range map[string]func(*moment){
		"subject": func(m *moment) { m.subject = "b" }, "step": func(m *moment) { m.step = 2 },
		"articles": func(m *moment) { m.found = nil }, "reward": func(m *moment) { m.reward = 0.301 },
		"end": func(m *moment) { m.done = false },
	} {
		other := base
		change(&other)
		if base.equal(other) {
			t.Errorf("another %s is equal", name)
		}
	}
}
