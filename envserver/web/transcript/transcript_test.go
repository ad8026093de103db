package transcript

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

func public(t testing.TB) *scenarios.Catalog {
	t.Helper()
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	return catalog
}

// played is a record of actions.
func played(environment, task, scenario string, actions ...string) record.Episode {
	e := record.Episode{Environment: environment, Task: task, Scenario: scenario, Seed: 3,
		Grade: record.Grade{Outcome: score.Scored}}
	for _, action := range actions {
		e.Turns = append(e.Turns, record.Turn{Action: json.RawMessage(action)})
	}
	return e
}

// kinds names the items of a step.
func kinds(items []Item) string {
	var names []string
	for _, item := range items {
		switch {
		case item.Queue != nil:
			names = append(names, "queue")
		case item.Opened != nil:
			names = append(names, fmt.Sprintf("opened %v", item.Opened.Again))
		case item.Message != nil:
			names = append(names, fmt.Sprintf("%s %v%s", item.Message.Role, item.Message.Again, item.Message.Note()))
		case item.Call != nil:
			names = append(names, "call "+item.Call.Action)
		case item.Article != nil:
			names = append(names, "article")
		case item.Nothing:
			names = append(names, "nothing")
		case item.Standing != nil:
			names = append(names, item.Standing.String())
		}
	}
	return strings.Join(names, "; ")
}

func TestRead(t *testing.T) {
	catalog := public(t)
	first := played("ticket", tasks.QueueManagement, "Q001")
	begun, err := ReplayEpisode(t.Context(), catalog, first)
	if err != nil {
		t.Fatal(err)
	}
	tickets := begun.Steps[0].Items[0].Queue.Queue
	selecting := func(at int) string {
		return `{"action_type":"select_ticket","ticket_id":"` + tickets[at].TicketID + `"}`
	}
	for name, tt := range map[string]struct {
		e    record.Episode
		want []string
	}{
		"a ticket": {played("ticket", tasks.TicketResolve, "B07", `{"action_type":"search_knowledge_base","query":"xyzzy"}`,
			`{"action_type":"resolve","message":"Done."}`),
			[]string{"opened false; step 0 of 10, open, the customer is calm",
				"nothing; step 1 of 10, in_progress, the customer is calm",
				"agent false; step 2 of 10, resolved, the customer is calm, score so far"}},
		"a ticket to which the agent returns": {played("ticket", tasks.QueueManagement, "Q001", selecting(1),
			`{"action_type":"respond","message":"Good day."}`, selecting(0), selecting(1)),
			[]string{"queue; opened false;", "queue; opened false;", "queue; agent false;", "queue; opened true;",
				"queue; opened true; agent true;"}},
		"a case": {played("workflow", "refund", "C09", `{"action_type":"check_order_status","payload":{"order_id":"LD-1"}}`),
			[]string{"opened false; step 0 of", "call check_order_status; step 1 of"}},
		"more actions than the episode has": {played("ticket", tasks.TicketResolve, "B07", `{"action_type":"resolve"}`,
			`{"action_type":"resolve"}`), []string{"opened", "step 1 of 10, resolved", "step 1 of 10, resolved"}},
	} {
		got, err := ReplayEpisode(t.Context(), catalog, tt.e)
		if err != nil || got.Missing+got.Unknown != "" || len(got.Steps) != len(tt.want) || len(got.Reviews) == 0 {
			t.Fatalf("%s: %d steps, %d reviews, %q, %v", name, len(got.Steps), len(got.Reviews), got.Missing, err)
		}
		for i, want := range tt.want {
			if items := kinds(got.Steps[i].Items); !strings.HasPrefix(items, want) {
				t.Errorf("%s, step %d: %s, want %s", name, i, items, want)
			}
		}
	}
}

// Records that nothing can replay are shown as they are.
func TestReadOddRecords(t *testing.T) {
	catalog := public(t)
	huge := `{"action_type":"respond","message":"` + strings.Repeat("x", 1<<20) + `"}`
	deep := strings.Repeat("[", 20_000)
	verdict := json.RawMessage(`{"criteria":[{"id":"Q1","earned":1,"offered":2,"evidence":[{"claim":"Q1","about":"f1"}]}],` +
		`"gates":[{"id":"promise","cap":100}],"postGate":1}`)
	for name, tt := range map[string]struct {
		e                record.Episode
		missing, unknown string
		reviews          int
	}{
		"an unknown scenario": {e: played("ticket", tasks.TicketResolve, "X99", `{}`), unknown: "isn't in the catalogue",
			missing: "--pack loads", reviews: 2},
		"another environment":  {e: played("chess", "e4", "e5", `{}`), missing: "unknown environment", unknown: "chess", reviews: 2},
		"another task":         {e: played("workflow", tasks.TicketResolve, "B07"), missing: "can't be shown", unknown: "task", reviews: 2},
		"no environment":       {e: played("", "", ""), missing: "unknown environment", unknown: "choose", reviews: 2},
		"actions of any kind":  {e: played("ticket", tasks.TicketResolve, "B07", "", "null", "[]", `"\ud800"`, "{", deep, huge, `{"action_type":{}}`, `{"payload":3}`), reviews: 1},
		"actions of a case":    {e: played("workflow", "refund", "C09", "", "null", deep, huge, `{"action_type":"respond_user","payload":{"message":7}}`), reviews: 1},
		"an action beyond UTF": {e: played("ticket", tasks.TicketResolve, "B07", "{\"message\":\"\xff\x1b[2J\u202e<script>\"}"), reviews: 1},
	} {
		tt.e.Verdicts = []json.RawMessage{verdict, json.RawMessage("}{")}
		got, err := ReplayEpisode(t.Context(), catalog, tt.e)
		if err != nil || !strings.Contains(got.Missing, tt.missing) || !strings.Contains(got.Unknown, tt.unknown) ||
			(got.Unknown == "") != (tt.unknown == "") || len(got.Reviews) != tt.reviews ||
			len(got.Steps) != len(tt.e.Turns)+1 {
			t.Errorf("%s: %d steps, %d reviews, %q, %q, %v", name, len(got.Steps), len(got.Reviews), got.Missing,
				got.Unknown, err)
		}
		if tt.unknown != "" && (len(got.Reviews[0].Rows) != 3 || got.Reviews[0].Rows[2].Points.String() != "at most 0.100") {
			t.Errorf("%s: the verdict is %+v", name, got.Reviews[0])
		}
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ReplayEpisode(stopped, catalog, played("ticket", tasks.TicketResolve, "B07", "{}")); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that ended gives %v", err)
	}
}

func TestReadAction(t *testing.T) {
	for raw, want := range map[string][3]string{
		`{"action_type":"classify","priority":"low","category":"billing"}`: {"classify", "category billing, priority low", ""},
		`{"action_type":"submit","message":"Hello","team":null,"n":[1]}`:   {"submit", "n [1]", "Hello"},
		`{"action_type":"respond_user","payload":{"message":"Hi","order_id":"LD-1"}}`: {"respond_user", "order_id LD-1",
			"Hi"},
		`{"payload":"text"}`: {"", "payload text", ""},
		`nonsense`:           {"", "", ""},
	} {
		a := ReadAction(json.RawMessage(raw))
		if got := [3]string{a.Type, a.Summary(), a.Message}; got != want || (a.Raw == raw) != (raw == "nonsense") {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

func TestExcerpt(t *testing.T) {
	for _, tt := range []struct{ steps, from, first, last, tail, before, after int }{
		{0, 0, 0, 0, 0, 0, 0}, {13, 0, 0, 13, 0, 0, 0}, {210, 0, 0, 210, 0, 0, 0}, {211, 0, 0, 200, 10, 0, 201},
		{10_000, 0, 0, 200, 10, 0, 201}, {10_000, 201, 201, 400, 10, 1, 401}, {10_000, 9_801, 9_801, 10_000, 0, 9_601, 0},
		{10_000, 1 << 40, 10_000, 10_000, 0, 9_800, 0}, {10_000, -5, 0, 200, 10, 0, 201}, {10_000, 50, 50, 249, 10, 1, 250},
	} {
		e := Transcript{Steps: make([]Step, tt.steps+1)}.Excerpt(tt.from)
		before, after := 0, 0
		if r := e.Before(); r != nil {
			before = r.From
		}
		if r := e.After(); r != nil {
			after = r.From
		}
		got := []int{e.From, e.To, len(e.Last), before, after, len(e.Shown)}
		want := []int{tt.first, tt.last, tt.tail, tt.before, tt.after, tt.last - tt.first + 1}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("step %d of %d: %v, want %v", tt.from, tt.steps, got, want)
		}
	}
}

// A record with very many steps takes about 0.1 s of processor time, whether the steps were
// refused, follow the end of the episode, or can't be replayed. The limit allows for a busy
// machine.
func TestManySteps(t *testing.T) {
	const steps, limit = 10_000, 5 * time.Second
	catalog := public(t)
	for name, e := range map[string]record.Episode{
		"refused":       played("ticket", tasks.TicketResolve, "B07", `{"nonsense":1}`),
		"after the end": played("ticket", tasks.QueueManagement, "Q001", `{"action_type":"respond","message":"Hello."}`),
		"a case":        played("workflow", "refund", "C09", `{"action_type":"check_order_status","payload":{}}`),
		"unknown":       played("ticket", tasks.TicketResolve, "X99", `{"action_type":"respond","message":"Hello."}`),
	} {
		for len(e.Turns) < steps {
			e.Turns = append(e.Turns, e.Turns[0])
		}
		began := time.Now()
		got, err := ReplayEpisode(t.Context(), catalog, e)
		if took := time.Since(began); err != nil || took > limit || len(got.Steps) != steps+1 {
			t.Errorf("%s: %d steps took %v, %v", name, len(got.Steps), took, err)
		}
	}
}
