package episodes

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

func TestPrintTranscript(t *testing.T) {
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		environment, task, scenario string
		actions, want               []string
	}{
		"a ticket": {"ticket", tasks.TicketResolve, "B07",
			[]string{`{"action_type":"search_knowledge_base","query":"xyzzy"}`,
				`{"action_type":"resolve","message":"We have refunded the difference.","facts":[{"what":"team",` +
					`"value":"finance"},{"what":"count","value":3}]}`},
			[]string{"\n  facts          team: finance\n                 count: 3\n", "account level  ", "no article found", "ACTION 2 OF 2", "action         resolve",
				"We have refunded the difference.", "> step 2 of 10, resolved", "GRADE", "GIVEN AND GOLD"}},
		"a workflow": {"workflow", "refund", "C09",
			[]string{`{"action_type":"check_order_status","payload":{"order_id":"LD-937813"}}`, `not JSON`,
				`{"action_type":"respond_user","payload":{"message":"Hello","facts":[{"what":"price","value":"0"}]}}`},
			[]string{"\n  facts          price: 0\n", "\n  order_id       LD-937813\n\n  error:\n    there is no order", "ACTION 2 OF 3", "not JSON", "refund amount     not stated"}},
		"a queue": {"ticket", tasks.QueueManagement, "Q001", []string{`{"action_type":"resolve"}`},
			[]string{"minutes and 2 escalations left", "WAITING", ">  1  T-", "TICKET T-", " (URGENT): "}},
	} {
		t.Run(name, func(t *testing.T) {
			e := record.Episode{Environment: tt.environment, Task: tt.task, Scenario: tt.scenario, Seed: 3,
				Grade: record.Grade{Outcome: score.Scored}}
			for _, action := range tt.actions {
				e.Turns = append(e.Turns, record.Turn{Action: json.RawMessage(action)})
			}
			var out bytes.Buffer
			if err := PrintTranscript(t.Context(), &out, catalog, nil, e); err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("missing %q in:\n%s", want, &out)
				}
			}
			for line := range strings.Lines(out.String()) {
				if n := utf8.RuneCountInString(line); n > view.Width+1 {
					t.Errorf("a line of %d columns: %s", n, line)
				}
			}
		})
	}
}

// The grade of a generated case names the rules that decide it with their words, and the command
// that shows the scenario. A fact that only the letter has is said to be there.
func TestTranscriptSaysWhy(t *testing.T) {
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	s, known := catalog.Workflow("talk-cancel-custom-01")
	if !known {
		t.Fatal("the scenario is gone")
	}
	const seed = 65388732356001
	drawn, err := s.Instantiate(seed)
	if err != nil {
		t.Fatal(err)
	}
	letter, _ := json.Marshal(drawn.References.Good[0])
	e := record.Episode{Environment: "workflow", Task: "talk-easy", Scenario: s.ID, Seed: seed,
		Grade: record.Grade{Outcome: score.Scored}, Turns: []record.Turn{{Action: json.RawMessage(
			`{"action_type":"respond_user","payload":{"message":` + string(letter) + `}}`)}}}
	var out bytes.Buffer
	if err := PrintTranscript(t.Context(), &out, catalog, []string{"mine"}, e); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	wanted := []string{"csenv scenarios show talk-cancel-custom-01 --seed 65388732356001 --pack mine",
		"ask the customer", "in the letter, not among"}
	for _, rule := range drawn.Decision.Rules {
		words := drawn.Policy.Rule(rule)
		if len(words) < 20 || strings.ContainsAny(words, "*\n") {
			t.Errorf("rule %s is %q", rule, words)
		}
		wanted = append(wanted, rule+" "+strings.Join(strings.Fields(words), " "))
	}
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("missing %q in:\n%s", want, &out)
		}
	}
	e.Scenario = "mine-01"
	out.Reset()
	if err := PrintTranscript(t.Context(), &out, catalog, nil, e); err != nil {
		t.Fatal(err)
	}
	if grade := strings.Index(out.String(), "GRADE"); !strings.Contains(out.String()[:grade], "--pack loads") ||
		strings.Contains(out.String(), "scenarios show") {
		t.Error(out.String())
	}
}
