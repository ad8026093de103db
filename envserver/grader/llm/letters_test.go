package llm

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
)

// What the facts stated beside a letter, its language and the model's quotes do to its points.
func TestLetters(t *testing.T) {
	right := questionCase().Reply
	const german = "Guten Tag Maria, vielen Dank für Ihre Nachricht, wir haben die Rechnung mit allen Plätzen geprüft und " +
		"den Fehler gefunden. Der Unterschied ist $1,482.00 und das ist nicht Ihre Schuld."
	sum := facts.Fact{What: "amount_in_question", Value: "1482"}
	tests := map[string]struct {
		reply  string
		stated []facts.Fact
		model  func(call) string
		want   int64
		gates  string
	}{
		"no facts stated":          {right, nil, gullible, 500, ""},
		"its facts stated":         {right, []facts.Fact{sum}, gullible, 500, ""},
		"a true fact besides":      {right, []facts.Fact{{What: "price", Value: "$57.00"}}, gullible, 500, ""},
		"nothing stated as a fact": {right, []facts.Fact{{What: "refund_amount", Value: "none"}}, gullible, 500, ""},
		"a wrong fact stated": {right, []facts.Fact{sum, {What: "refund_amount", Value: "$1,482.00"}}, gullible, 150,
			"wrong-fact"},
		"another value stated": {right, []facts.Fact{{What: "amount_in_question", Value: "$1,428.00"}}, gullible, 150,
			"wrong-fact"},
		"a fact that the letter lacks": {strings.Replace(right, "$1,482.00", "large", 1), []facts.Fact{sum}, gullible, 20,
			"no-facts wrong-fact"},
		"another language": {german, nil, gullible, 250, "language"},
		"a quote of nobody": {right, nil, func(c call) string { return c.verdicts(grader.Met, "We owe you $1,482.00.") },
			20, "no-facts"},
		"the whole letter as a quote": {right + " Write to us. We are here.", nil,
			func(c call) string { return c.verdicts(grader.Met, c.reply) }, 20, "no-facts"},
		"a quote without the value": {right, nil,
			func(c call) string { return c.verdicts(grader.Met, "thank you for your message") }, 20, "no-facts"},
		"a value that nothing supports": {right + " We add $312.45.", nil, gullible, 150, "unsupported"},
		"a supported value as invented": {right + " A seat is $57.00.", nil,
			accuse("the reply states as a fact", "A seat is $57.00"), 500, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := questionCase()
			c.Reply, c.Stated = tc.reply, append(tc.stated, facts.Fact{What: "next_step", Value: "explained"})
			v, err := directJudge(t, direct(tc.model), nil).Judge(t.Context(), c)
			var gates []string
			for _, g := range v.Gates {
				gates = append(gates, g.ID)
			}
			slices.Sort(gates)
			if err != nil || v.PostGate != tc.want || strings.Join(gates, " ") != tc.gates || v.Right != (tc.want == 500) {
				t.Errorf("%d points, right %t, %v, %v, want %d: %v", v.PostGate, v.Right, v.Gates, err, tc.want, v.Criteria)
			}
		})
	}
}

// Where the model can't be reached, the judge without one compares the facts.
func TestFallbackComparesFacts(t *testing.T) {
	j := serve(t, refuse(http.StatusUnauthorized, "who?")).judge(t,
		func(c *Config) { c.OnFailure = FailureIsOffline })
	c := questionCase()
	for _, stated := range [][]facts.Fact{nil, facts.Stated(c.Ticket.Required())} {
		c.Stated = stated
		alone, err := offline.New().Judge(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		v, err := j.Judge(t.Context(), c)
		if err != nil || v.Judge != offline.Name || v.Status != grader.StatusFallback || v.PostGate != alone.PostGate ||
			(v.PostGate == grader.ResponsePoints) != (stated != nil) {
			t.Errorf("%+v, %v, want %d points", v, err, alone.PostGate)
		}
	}
}

// A scenario's own kinds of harm are asked about in its author's words, and cap the points by their
// severity.
func TestAuthoredHarm(t *testing.T) {
	for severity, want := range map[string]int64{"unacceptable": 80, "serious": 200} {
		c := questionCase()
		c.Ticket.Reply.Harm = append(c.Ticket.Reply.Harm, scenarios.Harm{ID: "h1", Severity: severity,
			Why: "sells the customer more seats"})
		v, err := directJudge(t, direct(accuse("the reply sells the customer more seats", thanks)), nil).Judge(t.Context(), c)
		if err != nil || v.PostGate != want || v.Gates[0].ID != "harm.h1" ||
			!strings.HasPrefix(v.Gates[0].Reason, "sells the customer more seats, according to the judge: ") {
			t.Errorf("%s: %+v, %v", severity, v, err)
		}
	}
}

// Of a reply to a workflow the model decides about harm and the letter. Code compares the facts.
func TestWorkflowLetters(t *testing.T) {
	c := questionCase()
	w := &scenarios.Workflow{ScenarioID: "C99", Version: 1, Language: "en", Now: c.Ticket.Now, Customer: c.Ticket.Customer,
		Query: "By how much were we overcharged?", Facts: c.Ticket.Reply.Facts,
		Harm:    []scenarios.Harm{{ID: "h1", Severity: "serious", Why: "sells the customer more seats"}},
		Records: desk.Records{Orders: []desk.Order{{ID: "LD-1", Total: 148200}}}}
	read := grader.Case{Workflow: w, Reply: c.Reply, Done: []string{`initiate_refund {"order_id":"LD-1"}: {"ok":true}`},
		Stated: []facts.Fact{{What: "amount_in_question", Value: "$1,482.00"}}}
	unsendable := func(c call) string { c.unsendable = true; return gullible(c) }
	for name, tc := range map[string]struct {
		model func(call) string
		want  int64
		right bool
	}{
		"sendable": {gullible, 500, true}, "no letter": {unsendable, 20, false},
		"harm": {accuse("the reply sells the customer more seats", thanks), 200, false},
	} {
		e := serve(t, answers(tc.model))
		v, err := e.judge(t, nil).Judge(t.Context(), read)
		if err != nil || v.PostGate != tc.want || v.Right != tc.right || v.PreGate != 500 {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		for id, statement := range e.last.statements {
			if !strings.HasPrefix(statement, harmMark) {
				t.Errorf("%s is asked: %s", id, statement)
			}
		}
		if !strings.Contains(e.last.user, "LD-1") || !strings.Contains(e.last.user, "initiate_refund") {
			t.Errorf("the prompt lacks the record or the changes:\n%s", e.last.user)
		}
		again, err := replay(offline.New(), v, read).Judge(t.Context(), read)
		if err != nil || again.PostGate != v.PostGate {
			t.Errorf("%s, replayed: %+v, %v", name, again, err)
		}
	}
	read.Stated = nil
	if v, err := directJudge(t, direct(gullible), nil).Judge(t.Context(), read); err != nil || v.PostGate != 0 || v.Right {
		t.Errorf("without facts: %+v, %v", v, err)
	}
}
