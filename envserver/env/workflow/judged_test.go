package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios/facts"
)

// model judges letters with a scripted verdict, or fails.
type model struct {
	gates []grader.Gate
	err   error
	cases []grader.Case
}

func (*model) Name() string { return "llm:m@r9" }

func (m *model) Judge(_ context.Context, c grader.Case) (grader.Verdict, error) {
	m.cases = append(m.cases, c)
	if m.err != nil {
		return grader.Verdict{Status: grader.StatusError, Cause: grader.CauseTimeout}, m.err
	}
	return grader.Verdict{Judge: m.Name(), Status: grader.StatusOK, Gates: m.gates,
		Letter: &grader.Evidence{Claim: grader.Claim{Kind: "letter"}, Verdict: grader.Met}}, nil
}

// judgedBy starts a workflow whose letters a judge reads.
func judgedBy(j grader.Judge) *environment {
	e := start(calm(), episode.Terminal)
	e.kind.judge, e.kind.scale, e.state.scale = j, j.Name(), j.Name()
	return e
}

// What a model finds in a letter caps the resolution, and no such reply is right.
func TestModelReadsTheLetter(t *testing.T) {
	for name, tc := range map[string]struct {
		gates      []grader.Gate
		resolution int64
		wrong      bool
	}{
		"a letter that may be sent": {nil, 500, false},
		"harm":                      {[]grader.Gate{{ID: "harm-pledge", Cap: 80}}, 80, true},
		"no letter":                 {[]grader.Gate{{ID: "no-letter", Cap: 20}, {ID: "harm-rudeness", Cap: 200}}, 20, true},
	} {
		m := &model{gates: tc.gates}
		_, last := play(t, judgedBy(m), order, payment, refundGood, reply)
		final := last.Final
		if final.Dimensions[1].Earned != tc.resolution || final.Wrong != tc.wrong || final.Judge != m.Name() {
			t.Errorf("%s: %+v", name, final)
		}
		var v grader.Verdict
		if err := json.Unmarshal(final.Verdicts[0], &v); err != nil || v.Judge != m.Name() || v.Letter == nil ||
			v.Case != m.cases[0].Digest() || v.Right == tc.wrong {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		if c := m.cases[0]; len(m.cases) != 1 || len(c.Done) != 1 || c.Reply != "We sent $12.50 back." || len(c.Stated) != 1 {
			t.Errorf("%s: the judge read %+v", name, m.cases)
		}
	}
}

// A letter that can't be judged is no step: it is sent again, and errors the episode at last.
func TestUnjudgedLetter(t *testing.T) {
	m := &model{err: errors.New("down")}
	e := judgedBy(m)
	play(t, e, order, payment, refundGood)
	fork, _ := e.Fork().(*environment)
	for range episode.MaxJudgeFailures - 1 {
		before := e.state
		_, err := e.Step(t.Context(), json.RawMessage(reply))
		failed, ok := errors.AsType[*episode.JudgeError](err)
		if !ok || failed.Cause != string(grader.CauseTimeout) || e.state != before || e.state.outcome != "" {
			t.Fatalf("%v, outcome %q", err, e.state.outcome)
		}
	}
	last := step(t, e, reply)
	if f := last.Final; f == nil || f.Outcome != score.Errored || f.Score != 0 || f.Cause != string(grader.CauseTimeout) ||
		len(f.Verdicts) > 0 {
		t.Errorf("%+v", f)
	}
	m.err = nil
	if last := step(t, fork, reply); last.Final.Score != score.One {
		t.Errorf("a fork before the failure: %+v", last.Final)
	}
}

// The judge without a model is the reader alone, and keeps the scale of the rules.
func TestJudgedByTheReader(t *testing.T) {
	k, err := NewJudged(testkit.Catalog(t), comparing())
	if err != nil || k.judge != nil || k.Judge() != unread {
		t.Errorf("%v, scale %s, %v", k.judge, k.Judge(), err)
	}
	if k, err = NewJudged(testkit.Catalog(t), &model{}); err != nil || k.judge == nil || k.Judge() != "llm:m@r9" {
		t.Errorf("scale %s, %v", k.Judge(), err)
	}
}

// A reply without facts is told so, whatever is right.
func TestNoFactsWereStated(t *testing.T) {
	for _, tc := range []struct {
		reply string
		want  string
	}{{reply, ""}, {wrongFact, ""}, {emptyWords, facts.NoneStated}} {
		for _, before := range [][]string{{order, payment, refundGood}, nil} {
			e := start(calm(), episode.Terminal)
			play(t, e, before...)
			var got struct{ Note string }
			o, _ := step(t, e, tc.reply).Observation.(Observation)
			if err := json.Unmarshal([]byte(o.LastResult), &got); err != nil || got.Note != tc.want {
				t.Errorf("%s after %v: %q, %v", tc.reply, before, got.Note, err)
			}
		}
	}
}
