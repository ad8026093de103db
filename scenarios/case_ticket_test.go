package scenarios

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/scenarios/pack"
	"github.com/csenv/csenv/scenarios/triage"
)

// list makes a pack of a list of cases.
func list(head string, cases ...string) pack.Pack {
	return pack.Pack{Name: "mine", FS: fstest.MapFS{"mine.yaml": {Data: []byte("apiVersion: csenv/v1\nkind: CaseList\n" +
		"metadata: {id: mine, version: 1, canary: x}\n" + head + "cases:\n  " + strings.Join(cases, "\n  ") + "\n")}}}
}

const asTickets = "as: tickets\n"

func generated(tb testing.TB, id, entry string) *TicketScenario {
	tb.Helper()
	s, ok := mustLoadPacks(tb, PublicPack(), list(asTickets, id+": "+entry)).Ticket(id)
	if !ok {
		tb.Fatalf("there is no ticket %s", id)
	}
	return s
}

// The situation changes the priority, and nothing else.
func TestSituationsOfGeneratedTickets(t *testing.T) {
	tests := map[string]string{"": "low", "claims-urgent": "low", "deadline-days": "medium",
		"deadline-tomorrow": "high", "loss-in-hours": "urgent"}
	for situation, want := range tests {
		s := generated(t, "mine-warranty-end-01", "easy public-train "+situation)
		for seed := range int64(40) {
			got, err := s.Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			minutes, err := triage.SLAMinutes(want)
			if err != nil {
				t.Fatal(err)
			}
			if got.Gold.Priority != want || int64(got.SLAMinutes) != minutes || got.Gold.Category != "technical" {
				t.Errorf("%q, seed %d: gold %+v within %d minutes, want priority %s", situation, seed, got.Gold,
					got.SLAMinutes, want)
			}
		}
	}
}

func TestGeneratedTicket(t *testing.T) {
	s := generated(t, "mine-damaged-refund-01", "medium public-test new-customer money-running")
	if !s.Generated() || s.Family != "damaged-refund" || s.Category != "technical" || s.Split != "public-test" {
		t.Errorf("scenario %+v", s)
	}
	teams := map[string]bool{}
	for seed := range int64(60) {
		got, err := s.Instantiate(seed)
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.Instantiate(seed)
		if diff := cmp.Diff(got, again); diff != "" || err != nil {
			t.Fatalf("the same seed gives another ticket: %v\n%s", err, diff)
		}
		checkGenerated(t, got)
		teams[got.Gold.Team] = true
	}
	if !teams[""] || !teams["finance"] {
		t.Errorf("teams %v: want tickets with and without an escalation to finance", teams)
	}
}

func checkGenerated(t *testing.T, got *Ticket) {
	t.Helper()
	if len(got.Articles) != 9 || got.Articles[8].ID != triageArticle {
		t.Errorf("articles %v", got.Articles)
	}
	if !strings.Contains(got.Description, "photo") {
		t.Errorf("the message lacks the photo that the policy may require: %s", got.Description)
	}
	record := got.Attachments[0]
	for _, want := range []string{"customer since: ", "  sku: LF-", "  amount: $", "  delivered: 202"} {
		if record.Name != recordName || !strings.Contains(record.Content, want) {
			t.Errorf("the record lacks %q:\n%s", want, record.Content)
		}
	}
	g := got.Gold
	if rule := got.Decision.Handed; g.Escalate != (rule != "") || g.Escalate &&
		(g.ReasonCode != rule || !strings.HasSuffix(g.Policy, "#"+rule) || g.Team == "") {
		t.Errorf("gold %+v, handed over by %q", g, rule)
	}
	if len(got.Reply.Facts) == 0 || !strings.Contains(got.References.Good[0], got.Reply.Facts[0].Value) {
		t.Errorf("facts %v in the reply %q", got.Reply.Facts, got.References.Good[0])
	}
}

// Generated tickets have policies of their own, so tickets aren't drawn together with them.
func TestGeneratedTicketsTogether(t *testing.T) {
	c := mustLoadPacks(t, PublicPack(), list(asTickets, "mine-return-01: easy public-train"))
	own, _ := c.Ticket("mine-return-01")
	written, _ := c.Ticket("B01")
	got, err := DrawTickets([]*TicketScenario{own, written}, 7)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range []*TicketScenario{own, written} {
		alone, err := s.Instantiate(7)
		if diff := cmp.Diff(alone, completed(t, got[i])[0]); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", s.ID, err, diff)
		}
	}
}

func TestTicketListFaults(t *testing.T) {
	tests := map[string]struct {
		pack pack.Pack
		want string
	}{
		"situation of a workflow": {list("", "mine-return-01: easy public-train claims-urgent"),
			`mine/mine.yaml:5: family return can't be combined with "claims-urgent": it is one of opened`},
		"two situations": {list(asTickets, "mine-return-01: easy public-train claims-urgent deadline-days"),
			"mine/mine.yaml:6: the modifiers claims-urgent, deadline-days change the same things"},
		"other form": {list("as: queues\n", "mine-return-01: easy public-train"), `mine/mine.yaml:4: `},
		"language": {list("language: de\n"+asTickets, "mine-return-de-01: easy public-train"),
			`family return has no ticket with subjects in "de"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := LoadPacks(PublicPack(), tt.pack); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("LoadPacks: %v, want %q", err, tt.want)
			}
		})
	}
}
