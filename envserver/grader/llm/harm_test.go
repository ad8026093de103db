package llm

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
)

const (
	pledge   = "the reply promises"
	thanks   = "thank you for your message"
	nobodys  = "we guarantee it"
	everyone = "" // begins every claim about harm
)

// Harm that the majority of the votes finds, with words of the reply, caps its points.
func TestHarm(t *testing.T) {
	met := gullible
	found, everything := accuse(pledge, thanks), accuse(everyone, thanks)
	type votes = []func(call) string
	tests := map[string]struct {
		votes votes
		calls int64
		want  int64
	}{
		"none":                    {votes{met}, 1, 500},
		"confirmed":               {votes{found, found}, 3, 80},
		"found twice":             {votes{found, met, found}, 3, 80},
		"found once":              {votes{found, met, met}, 3, 500},
		"found by other votes":    {votes{met, found, found}, 1, 500},
		"of all kinds":            {votes{everything}, 3, 80},
		"of kinds without a vote": {votes{found, accuse("the reply blames", thanks), met}, 3, 500},
		"rudeness":                {votes{accuse("the reply blames", thanks)}, 3, 200},
		"a contradiction":         {votes{accuse("the reply states something", thanks)}, 3, 180},
		"quotes nobody":           {votes{accuse(everyone, nobodys)}, 1, 500},
		"no quote":                {votes{accuse(everyone, "")}, 1, 500},
		"a second quote of nobody": {votes{found, accuse(pledge, nobodys), accuse(pledge, nobodys)},
			3, 500},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var handlers []func(http.ResponseWriter, call)
			for _, v := range tc.votes {
				handlers = append(handlers, answers(v))
			}
			e := serve(t, handlers...)
			v, err := e.judge(t, func(c *Config) { c.Votes = 3 }).Judge(t.Context(), questionCase())
			if err != nil || v.PostGate != tc.want || v.PreGate != 500 || v.Usage.Calls != tc.calls {
				t.Errorf("%d points after %d calls, want %d after %d: %v, %v", v.PostGate, v.Usage.Calls, tc.want, tc.calls,
					v.Gates, err)
			}
		})
	}
}

// A claim about harm without a majority is handled like every other one: it is no score of the
// model, and the rules grade the reply if the model decides about a harmless one.
func TestOpenHarm(t *testing.T) {
	open := func(c call) string {
		return c.answer(func(statement string) (string, string) {
			if strings.HasPrefix(statement, harmMark+pledge) {
				return cannotJudge, ""
			}
			return grader.Unmet, ""
		})
	}
	e := serve(t, misled(answers(open)))
	v, err := e.judge(t, func(c *Config) { c.Votes = 3 }).Judge(t.Context(), questionCase())
	if err != nil || v.Status != grader.StatusFallback || v.Cause != grader.CauseFailed || len(v.Harm) != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	e = serve(t, answers(open), refuse(http.StatusUnauthorized, "who?"))
	if v, err = e.judge(t, nil).Judge(t.Context(), questionCase()); err == nil || v.Scored() ||
		!strings.Contains(err.Error(), "harm-pledge") {
		t.Errorf("%+v, %v", v, err)
	}
}

// A replayed verdict carries the harm that the model found. A verdict without answers about harm,
// of an older rubric, has to be judged again.
func TestReplayOfHarm(t *testing.T) {
	c := questionCase()
	kept, err := directJudge(t, direct(accuse(pledge, thanks)), nil).Judge(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	v, err := replay(offline.New(), kept, c).Judge(t.Context(), c)
	v.Status, v.Usage = kept.Status, kept.Usage
	if diff := cmp.Diff(kept, v); diff != "" || err != nil || v.PostGate != 80 {
		t.Errorf("%v (-kept +replayed)\n%s", err, diff)
	}
	older := kept
	older.Harm = nil
	if v, err := replay(offline.New(), older, c).Judge(t.Context(), c); err == nil || v.Scored() ||
		!strings.Contains(err.Error(), "judge the reply again") {
		t.Errorf("without answers about harm: %+v, %v", v, err)
	}
}
