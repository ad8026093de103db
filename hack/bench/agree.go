package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/scenarios"
)

// agreement is the comparison of the episodes of two servers.
type agreement struct {
	episodes int
	// full, part and none count the episodes by their reward.
	full, part, none int
}

func (a agreement) String() string {
	return fmt.Sprintf("%d episodes: %d with the full reward, %d with a part of it, %d without", a.episodes, a.full,
		a.part, a.none)
}

// errDiffer means that two servers don't serve the same environment.
var errDiffer = errors.New("the servers differ")

// sampledEpisodes is the number of episodes that are compared.
const sampledEpisodes = 420

// compareEpisodes plays the same episodes on two servers of tickets, and compares the ticket, the
// articles that a search finds, the rewards and the end. A difference is an error.
func compareEpisodes(ctx context.Context, one, other string, tickets []exportedTicket) (agreement, error) {
	var a agreement
	sessions := make([]*client.Client, 0, 2)
	for _, url := range []string{one, other} {
		session, err := client.Dial(ctx, url, client.Options{})
		if err != nil {
			return a, fmt.Errorf("comparing rewards: %w", err)
		}
		defer session.Close()
		sessions = append(sessions, session)
	}
	for seed := range tickets {
		actions := sampleActions(seed, tickets[seed].Gold)
		played := make([][]moment, len(sessions))
		for i, session := range sessions {
			var err error
			if played[i], err = playSample(ctx, session, seed, actions); err != nil {
				return a, fmt.Errorf("comparing rewards, seed %d: %w", seed, err)
			}
		}
		if !slices.EqualFunc(played[0], played[1], moment.equal) {
			return a, fmt.Errorf("%w at seed %d: %v, %v", errDiffer, seed, played[0], played[1])
		}
		a.count(played[0])
	}
	return a, nil
}

func (a *agreement) count(episode []moment) {
	a.episodes++
	switch reward := episode[len(episode)-1].reward; {
	case reward == 1:
		a.full++
	case reward > 0:
		a.part++
	default:
		a.none++
	}
}

// sampleActions searches and classifies: with the right labels, with alternates, or with labels
// that depend on the seed. Some episodes run out of steps or end with submit.
func sampleActions(seed int, g gold) []map[string]string {
	queries := []string{"refund", "delivery delay parcel", "How do I reset my password?", "zz", "invoice credit order"}
	category := scenarios.Categories[seed%4]
	priority := scenarios.Priorities[seed/4%4]
	switch seed % 3 {
	case 0:
		category, priority = g.Category, g.Priority
	case 1:
		if names := slices.Sorted(maps.Keys(g.CategoryAlternates)); len(names) > 0 {
			category = names[0]
		}
		if names := slices.Sorted(maps.Keys(g.PriorityAlternates)); len(names) > 0 {
			priority = names[0]
		}
	}
	search := map[string]string{"action_type": "search_knowledge_base", "query": queries[seed%len(queries)]}
	switch seed % 7 {
	case 5:
		return []map[string]string{search, {"action_type": "classify", "category": category}, search, search}
	case 6:
		return []map[string]string{search, {"action_type": "submit", "priority": priority}}
	}
	return []map[string]string{search, {"action_type": "classify", "category": category},
		{"action_type": "classify", "priority": priority}}
}

// moment is the part of an answer in which two servers must agree.
type moment struct {
	subject string
	step    int
	found   []string
	reward  float64
	done    bool
}

func (m moment) equal(other moment) bool {
	const rounding = 1e-9
	return m.subject == other.subject && m.step == other.step && slices.Equal(m.found, other.found) &&
		math.Abs(m.reward-other.reward) < rounding && m.done == other.done
}

func playSample(ctx context.Context, session *client.Client, seed int, actions []map[string]string) ([]moment, error) {
	first, err := session.Reset(ctx, map[string]any{"seed": seed})
	if err != nil {
		return nil, err
	}
	answers := []client.Observation{first}
	for _, action := range actions {
		answer, err := session.Step(ctx, action)
		if err != nil {
			return nil, err
		}
		answers = append(answers, answer)
	}
	moments := make([]moment, len(answers))
	for i, answer := range answers {
		if moments[i], err = momentOf(answer); err != nil {
			return nil, err
		}
	}
	return moments, nil
}

func momentOf(answer client.Observation) (moment, error) {
	var o struct {
		Subject       string
		Step          int
		KnowledgeBase []article `json:"knowledge_base"`
	}
	if err := json.Unmarshal(answer.Observation, &o); err != nil {
		return moment{}, fmt.Errorf("reading an observation: %w", err)
	}
	m := moment{subject: o.Subject, step: o.Step, reward: answer.Reward, done: answer.Done}
	for _, a := range o.KnowledgeBase {
		m.found = append(m.found, a.ID)
	}
	return m, nil
}
