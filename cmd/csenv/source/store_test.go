package source

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
)

// A folder in the runners' volume is not a folder of this machine: it is neither read nor created
// here.
func TestEpisodesInAVolume(t *testing.T) {
	for _, prefix := range []string{"file://", ""} {
		folder := filepath.Join(t.TempDir(), "results")
		run := &v1alpha1.EvaluationRun{Status: v1alpha1.EvaluationRunStatus{Results: prefix + folder}}
		for _, err := range episodesAt(t.Context(), run) {
			if err == nil || !strings.Contains(err.Error(), "copy them here and give the folder with --results") {
				t.Errorf("error %v", err)
			}
		}
		if _, err := os.Stat(folder); !os.IsNotExist(err) {
			t.Errorf("the folder was made: %v", err)
		}
	}
}

// The author of a run chooses its address, and the requests there are signed with the credentials
// of the reader's machine.
func TestCredentialsAreSentToAllowedAddresses(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Authorization")+r.Header.Get("X-Amz-Security-Token"))
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprint(w, `<ListBucketResult></ListBucketResult>`)
	}))
	defer server.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "host-key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_SESSION_TOKEN", "host-session")
	mine := "s3://evals/team/run-0a1b2c3d?region=r&use_path_style=true&endpoint=" + server.URL
	for name, tt := range map[string]struct {
		allowed string
		sent    bool
	}{
		"nothing is allowed":     {"", false},
		"the address":            {"gs://other s3://evals/any/prefix?endpoint=" + server.URL, true},
		"another bucket":         {"s3://evals2?endpoint=" + server.URL, false},
		"the bucket, at AWS":     {"s3://evals", false},
		"another server":         {"s3://evals?endpoint=http://127.0.0.1:1", false},
		"another kind of bucket": {"gs://evals?endpoint=" + server.URL, false},
	} {
		t.Run(name, func(t *testing.T) {
			asked = nil
			t.Setenv(envvars.Stores, tt.allowed)
			run := &v1alpha1.EvaluationRun{Status: v1alpha1.EvaluationRunStatus{Results: mine}}
			var failure error
			for _, err := range episodesAt(t.Context(), run) {
				failure = err
			}
			if sent := len(asked) > 0; sent != tt.sent {
				t.Errorf("the server was asked %q", asked)
			}
			want := "set CSENV_STORES='s3://evals?endpoint=" + url.QueryEscape(server.URL) + "'"
			if !tt.sent && (failure == nil || !strings.Contains(failure.Error(), want)) {
				t.Errorf("error %v, want %s", failure, want)
			}
		})
	}
}

// Records without a valid receipt count, and are reported separately.
// signedEpisode is a record whose receipt is signed, after a change of the receipt.
func signedEpisode(t *testing.T, plan score.Plan, private ed25519.PrivateKey, index int64,
	change func(*score.Receipt)) record.Episode {
	t.Helper()
	planned, shard, _ := plan.NewIndex().Episode(index)
	r := (&score.Ledger{Run: plan.Run, Shard: shard, PassScore: plan.PassScore, ScenarioDigest: plan.ScenarioDigest,
		GraderVersion: plan.GraderVersion, Judge: plan.Judge}).Receipt(planned,
		score.Episode{Outcome: score.Scored, Score: score.One})
	change(&r)
	text, err := r.Sign(private)
	if err != nil {
		t.Fatal(err)
	}
	return record.Episode{Index: index, Task: planned.Task, Scenario: planned.Scenario, Receipt: text,
		Grade: record.Grade{Outcome: score.Scored, Score: new(1.0)}}
}

func testPlan(t *testing.T, public ed25519.PublicKey) score.Plan {
	t.Helper()
	plan, err := score.NewPlan(score.Plan{Run: "u", Seed: 7, PassScore: 750_000, ScenarioDigest: "sha256:00",
		GraderVersion: "3", Judge: "rules", LedgerKey: score.FormatPublicKey(public),
		Tasks: []score.PlanTask{{Name: "refund", Trials: 2, Scenarios: []string{"C07", "C08"}}}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// A record counts if its receipt is signed with the plan's key and of the planned episode. Others
// with a score are in no figure, and are reported.
func TestEpisodesWithoutReceipts(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	plan := testPlan(t, public)
	checker, err := NewChecker(plan)
	if err != nil {
		t.Fatal(err)
	}
	same := func(*score.Receipt) {}
	signed := func(change func(*score.Receipt)) record.Episode { return signedEpisode(t, plan, private, 1, change) }
	changed := func(e record.Episode, change func(*record.Episode)) record.Episode { change(&e); return e }
	for name, tt := range map[string]struct {
		e               record.Episode
		counts, claimed bool
	}{
		"a receipt": {signed(same), true, false},
		"a better score beside it": {changed(signed(func(r *score.Receipt) { r.Episode.Score = 1 }),
			func(e *record.Episode) { e.Score = new(1.0) }), true, false},
		"none":           {changed(signed(same), func(e *record.Episode) { e.Receipt = "" }), false, true},
		"not to read":    {changed(signed(same), func(e *record.Episode) { e.Receipt = "x" }), false, true},
		"another's":      {changed(signed(same), func(e *record.Episode) { e.Index = 0 }), false, true},
		"of another key": {signedEpisode(t, plan, other, 1, same), false, true},
		"of another run": {signed(func(r *score.Receipt) { r.Run = "v" }), false, true},
		"of a shard":     {signed(func(r *score.Receipt) { r.Shard++ }), false, true},
		"of a seed":      {signed(func(r *score.Receipt) { r.Planned.Seed++ }), false, true},
		"of a scenario":  {signed(func(r *score.Receipt) { r.Planned.Scenario = "C08" }), false, true},
		"of a catalogue": {signed(func(r *score.Receipt) { r.ScenarioDigest = "sha256:01" }), false, true},
		"of a judge":     {signed(func(r *score.Receipt) { r.Judge = "lenient" }), false, true},
		"replayed": {changed(signed(same), func(e *record.Episode) { e.Receipt, e.Replayed = "", true }),
			false, false},
		"no score": {changed(signed(same), func(e *record.Episode) { e.Receipt, e.Score = "", nil }), false, false},
	} {
		got := checker.Count(tt.e)
		if got.Counts != tt.counts || got.Claimed != tt.claimed {
			t.Errorf("%s: %+v", name, got)
		}
	}
	sum := NewSum(plan)
	for _, e := range []record.Episode{signed(same), changed(signedEpisode(t, plan, private, 0, same),
		func(e *record.Episode) { e.Receipt = "" })} {
		if err := sum.Add(checker.Count(e)); err != nil {
			t.Fatal(err)
		}
	}
	if sum.Ledger.Scored != 1 || sum.Claimed != 1 {
		t.Errorf("%d scored, %d claimed", sum.Ledger.Scored, sum.Claimed)
	}
	run := &v1alpha1.EvaluationRun{}
	sum.conclude(run, plan)
	if got := run.Status.Conditions[0].Message; !strings.Contains(got, "1 episode stored without a valid receipt") {
		t.Error(got)
	}
}

// The pass score of a stored run keeps all digits. Runs with different ones aren't compared.
func TestPassScoreOfAStoredRun(t *testing.T) {
	for micro, want := range map[int64]string{800_000: "0.8", 123_456: "0.123456", 1: "0.000001", score.One: "1"} {
		run := &v1alpha1.EvaluationRun{}
		copyPlan(run, score.Plan{PassScore: micro})
		if got := run.Spec.PassScore.Text; got != want {
			t.Errorf("%d is %q, want %q", micro, got, want)
		}
	}
}

// Scores by scenario are folded from receipts, with passes at the run's pass score, and count only
// if they add up to the sums of the status.
func TestFoldedScores(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	plan := testPlan(t, public)
	ledger := &score.Ledger{PassScore: plan.PassScore}
	var episodes []record.Episode
	for i, points := range []int64{740_000, 750_000, 1_000_000} {
		e := signedEpisode(t, plan, private, int64(i), func(r *score.Receipt) { r.Episode.Score = points })
		r, err := score.VerifyReceipt(e.Receipt, public)
		if err == nil {
			err = ledger.Add(r.Planned, r.Episode)
		}
		if err != nil {
			t.Fatal(err)
		}
		e.Score = new(1.0) // which its owner has changed
		episodes = append(episodes, e)
	}
	var sums score.Accumulator
	sums.FoldSummary(ledger, score.Summary{})
	text, err := sums.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	run := &v1alpha1.EvaluationRun{Status: v1alpha1.EvaluationRunStatus{PassScore: "0.75",
		Shards:     &v1alpha1.Shards{Accumulator: string(text)},
		Provenance: &v1alpha1.Provenance{LedgerKey: plan.LedgerKey}}}
	run.UID = "u"
	yield := func(episodes []record.Episode) iter.Seq2[record.Episode, error] {
		return func(yield func(record.Episode, error) bool) {
			for _, e := range episodes {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
	rows, err := foldScores(run, yield(episodes))
	if err != nil || len(rows) != 2 || rows[0].Episodes != 2 || rows[0].Passes != 1 || rows[1].Passes != 1 {
		t.Errorf("%+v, %v", rows, err)
	}
	if _, err := foldScores(run, yield(episodes[1:])); err == nil || errors.Is(err, ErrTable) {
		t.Errorf("a part of the episodes: %v", err)
	}
}
