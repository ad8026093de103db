package llm

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
)

// A run on a mixed scale has verdicts of two judges. The model's verdicts are added up again, and
// the offline judge's verdicts are computed again.
func TestReplayOfAMixedScale(t *testing.T) {
	mixed := func(c *Config) { c.OnFailure = FailureIsOffline }
	c := goodCase(t)
	model := directJudge(t, direct(gullible), mixed)
	judged, err := model.Judge(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	fallback, err := serve(t, refuse(401, "who?")).judge(t, mixed).Judge(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	older := fallback
	older.Judge = "offline-v1"
	forged := judged
	forged.Judge = model.Name()
	otherRules := fallback
	otherRules.Judge = judged.Judge
	for name, tt := range map[string]struct {
		scale string
		kept  grader.Verdict
		want  *grader.Verdict
	}{
		"the model's": {model.Name(), judged,
			&grader.Verdict{Judge: judged.Judge, Status: grader.StatusCached, PostGate: judged.PostGate}},
		"the rules'": {model.Name(), fallback, &grader.Verdict{Judge: offline.Name,
			Status: grader.StatusFallback, Cause: fallback.Cause, PostGate: fallback.PostGate}},
		"older rules'": {"llm:m@r1+offline-v1", older, &grader.Verdict{Judge: offline.Name,
			Status: grader.StatusFallback, Cause: fallback.Cause, PostGate: fallback.PostGate}},
		"the rules' on the model's scale": {judged.Judge, fallback, nil},
		"rules of another scale":          {model.Name(), older, nil},
		"a fallback in the model's name":  {model.Name(), otherRules, nil},
		"a verdict in both judges' names": {model.Name(), forged, nil},
		"the model's on another's scale":  {"llm:other@" + RubricVersion + "+" + offline.Name, judged, nil},
		"a failure that nothing stood for": {model.Name(), grader.Verdict{Case: c.Digest(), Judge: judged.Judge,
			Status: grader.StatusError}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tt.kept.Case = c.Digest()
			r := NewReplay(offline.New(), tt.scale, tt.kept)
			if r.Name() != tt.scale {
				t.Errorf("scale %s, want the run's, %s", r.Name(), tt.scale)
			}
			v, err := r.Judge(t.Context(), c)
			if tt.want == nil {
				if err == nil || v.Scored() {
					t.Errorf("%+v, %v", v, err)
				}
				return
			}
			got := grader.Verdict{Judge: v.Judge, Status: v.Status, Cause: v.Cause, PostGate: v.PostGate}
			if diff := cmp.Diff(*tt.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
}
