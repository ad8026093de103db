package ticket

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/tasks"
)

const (
	respondPrice  = `{"action_type":"respond","message":"It is $8.","facts":[{"what":"price","value":8}]}`
	respondRefund = `{"action_type":"respond","message":"You get $5, by May 4.","facts":[{"what":"refund_amount",` +
		`"value":"$5"},{"what":"arrives_by","value":"May 4"}]}`
)

func TestFactsReachTheJudge(t *testing.T) {
	price, amount, day := facts.Fact{What: "price", Value: "8"}, facts.Fact{What: "refund_amount", Value: "$5"},
		facts.Fact{What: "arrives_by", Value: "May 4"}
	six := facts.Fact{What: "refund_amount", Value: "$6"}
	const members = `"facts":[{"what":"refund_amount","value":"$6"}]`
	for name, c := range map[string]struct {
		actions []string
		reply   string
		want    []facts.Fact
	}{
		"none": {[]string{say("resolve", "Hello")}, "Hello", nil},
		"of a reply and the ending": {[]string{respondRefund, `{"action_type":"resolve","message":"No, $6.",` + members + `}`},
			"You get $5, by May 4.\n\nNo, $6.", []facts.Fact{day, six}},
		"of two replies": {[]string{respondPrice, respondRefund, justResolve},
			"It is $8.\n\nYou get $5, by May 4.", []facts.Fact{price, amount, day}},
		"of an ending without a message": {[]string{say("respond", "You get $6."), `{"action_type":"resolve",` + members + `}`},
			"You get $6.", []facts.Fact{six}},
		"of a hand-over": {[]string{`{"action_type":"escalate","team":"finance","message":"You get $6.",` + members + `}`},
			"You get $6.", []facts.Fact{six}},
		"of a whole answer": {[]string{`{"action_type":"submit","decision":"resolve","message":"You get $6.",` + members + `}`},
			"You get $6.", []facts.Fact{six}},
	} {
		var judged *grader.Case
		e := start(tasks.TicketResolve, episode.Terminal, func(_ context.Context, c grader.Case) (int64, error) {
			judged = &c
			return 500, nil
		})
		play(t, e, c.actions...)
		if judged == nil {
			t.Errorf("%s: not judged", name)
			continue
		}
		if diff := cmp.Diff(c.want, judged.Stated); diff != "" || judged.Reply != c.reply {
			t.Errorf("%s: reply %q, facts (-want +got)\n%s", name, judged.Reply, diff)
		}
	}
}

// Messages are shown with the facts beside them.
func TestFactsAreObserved(t *testing.T) {
	schema := testkit.CompileSchema(t, testKind(judgeFunc(goodJudge)).Schemas().Observation)
	e := start(tasks.TicketResolve, episode.Terminal, goodJudge)
	_, last := play(t, e, respondPrice, say("respond", "Yes."), `{"action_type":"escalate","team":"finance","message":`+
		`"You get $6.","facts":[{"what":"refund_amount","value":"$6"}]}`)
	o := last.Observation.(Observation)
	testkit.ValidateJSON(t, schema, testkit.EncodeJSON(o))
	testkit.CheckAppendJSON(t, o)
	want := []Message{{Role: "customer", Content: "Hello?"},
		{Role: "agent", Content: "It is $8.", Facts: []facts.Fact{{What: "price", Value: "8"}}},
		{Role: "agent", Content: "Yes."},
		{Role: "agent", Content: "You get $6.", Facts: []facts.Fact{{What: "refund_amount", Value: "$6"}}}}
	if diff := cmp.Diff(want, o.ConversationHistory); diff != "" {
		t.Errorf("conversation (-want +got)\n%s", diff)
	}
}

// Two forks state other facts, and neither changes the other's.
func TestForksStateTheirOwnFacts(t *testing.T) {
	var judged []grader.Case
	e := start(tasks.TicketResolve, episode.Terminal, func(_ context.Context, c grader.Case) (int64, error) {
		judged = append(judged, c)
		return 500, nil
	})
	step(t, e, respondRefund)
	fork := e.Fork().(*environment)
	step(t, e, `{"action_type":"resolve","facts":[{"what":"price","value":"8"}]}`)
	step(t, fork, `{"action_type":"resolve","facts":[{"what":"refund_amount","value":"9"}]}`)
	want := [][]facts.Fact{
		{{What: "refund_amount", Value: "$5"}, {What: "arrives_by", Value: "May 4"}, {What: "price", Value: "8"}},
		{{What: "arrives_by", Value: "May 4"}, {What: "refund_amount", Value: "9"}}}
	if diff := cmp.Diff(want, [][]facts.Fact{judged[0].Stated, judged[1].Stated}); diff != "" {
		t.Errorf("facts (-want +got)\n%s", diff)
	}
}

// A stored verdict stands only for the facts that it judged.
func TestRecalledVerdictsAreOfTheSameFacts(t *testing.T) {
	calls := 0
	judge := func(context.Context, grader.Case) (int64, error) { calls++; return 500, nil }
	play(t, start(tasks.TicketResolve, episode.Terminal, judge), respondRefund, justResolve)
	first := start(tasks.TicketResolve, episode.Terminal, judge)
	play(t, first, respondRefund, justResolve)
	verdicts, err := first.Verdicts()
	if err != nil {
		t.Fatal(err)
	}
	for ending, want := range map[string]int{justResolve: 0,
		`{"action_type":"resolve","facts":[{"what":"price","value":"8"}]}`:            1,
		`{"action_type":"resolve","facts":[{"what":"refund_amount","value":"$5.0"}]}`: 1} {
		e := start(tasks.TicketResolve, episode.Terminal, judge)
		if err := e.Recall(verdicts); err != nil {
			t.Fatal(err)
		}
		calls = 0
		play(t, e, respondRefund, ending)
		if calls != want {
			t.Errorf("%s: %d calls of the judge, want %d", ending, calls, want)
		}
	}
}

// A message without facts is answered so, whatever is right, unless a model reads the letter.
func TestNoFactsWereStated(t *testing.T) {
	for _, ticket := range []string{"B02", "B07", "S04"} {
		for judge, told := range map[grader.Judge]bool{sharedReader(): true, scriptedJudge{}: false} {
			kind, err := New(testkit.Catalog(t), judge)
			if err != nil {
				t.Fatal(err)
			}
			for action, want := range map[string]string{
				say("resolve", "All is well."): "The ticket is resolved. " + facts.NoneStated,
				`{"action_type":"escalate","team":"finance","message":"Finance has it.","facts":[{"what":"team","value":"none"}]}`: "The ticket is escalated. " + facts.NoneStated,
				`{"action_type":"escalate","team":"finance"}`:                                          "The ticket is escalated.",
				`{"action_type":"resolve","message":"It is $8.","facts":[{"what":"price","value":8}]}`: "The ticket is resolved.",
			} {
				env := kind.New()
				if _, err := env.Reset(episode.Options{Task: tasks.TicketResolve, Scenario: ticket, Seed: 3}); err != nil {
					t.Fatal(err)
				}
				result, err := env.Step(t.Context(), json.RawMessage(action))
				if err != nil {
					t.Fatal(err)
				}
				if !told {
					want = strings.TrimSuffix(want, " "+facts.NoneStated)
				}
				if o, _ := result.Observation.(Observation); o.Feedback != want {
					t.Errorf("%s, %s: feedback %q, want %q", ticket, action, o.Feedback, want)
				}
			}
		}
	}
}

// scriptedJudge reads letters, as a model does.
type scriptedJudge struct{}

func (scriptedJudge) Name() string { return "llm:m@r9" }

func (scriptedJudge) Judge(context.Context, grader.Case) (grader.Verdict, error) {
	return grader.Verdict{Judge: "llm:m@r9", Status: grader.StatusOK}, nil
}
