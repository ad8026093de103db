package source

import (
	"crypto/ed25519"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/record"
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
func TestEpisodesWithoutReceipts(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	planned := score.PlannedEpisode{Index: 0, Task: "refund", Scenario: "C07"}
	receipt, err := (&score.Ledger{Run: "u"}).Receipt(planned,
		score.Episode{Outcome: score.Scored, Score: score.One}).Sign(private)
	if err != nil {
		t.Fatal(err)
	}
	line := record.Episode{Task: "refund", Scenario: "C07", Grade: record.Grade{Outcome: score.Scored, Score: new(1.0)}}
	for name, tt := range map[string]struct {
		change  func(*record.Episode)
		claimed bool
	}{
		"a receipt":   {func(e *record.Episode) { e.Receipt = receipt }, false},
		"none":        {func(*record.Episode) {}, true},
		"another's":   {func(e *record.Episode) { e.Index, e.Receipt = 1, receipt }, true},
		"not to read": {func(e *record.Episode) { e.Receipt = "x" }, true},
		"replayed":    {func(e *record.Episode) { e.Replayed = true }, false},
		"no score":    {func(e *record.Episode) { e.Score = nil }, false},
	} {
		e := line
		tt.change(&e)
		if got := CountEpisode(e, score.Plan{Run: "u"}, public); got.Claimed != tt.claimed {
			t.Errorf("%s: %+v", name, got)
		}
	}
	run := &v1alpha1.EvaluationRun{Status: v1alpha1.EvaluationRunStatus{Episodes: &v1alpha1.RunEpisodes{Total: 2,
		Scored: 2}}}
	concludeStored(run, score.Accumulator{}, 2)
	if got := run.Status.Conditions[0].Message; !strings.Contains(got, "2 episodes counted without a valid receipt") {
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

// Passes are counted at the run's pass score.
func TestFoldedScores(t *testing.T) {
	run := &v1alpha1.EvaluationRun{Status: v1alpha1.EvaluationRunStatus{PassScore: "0.75"}}
	rows, err := foldScores(run, func(yield func(record.Episode, error) bool) {
		for i, points := range []float64{0.74, 0.75, 1} {
			if !yield(record.Episode{Index: int64(i), Task: "refund", Scenario: "C07",
				Grade: record.Grade{Outcome: score.Scored, Score: &points}}, nil) {
				return
			}
		}
	})
	if err != nil || len(rows) != 1 || rows[0].Episodes != 3 || rows[0].Passes != 2 {
		t.Errorf("%+v, %v", rows, err)
	}
}
