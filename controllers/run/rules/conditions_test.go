package rules

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/envserver/score"
)

func TestNoStoredEpisodesBeforeTheFirstShard(t *testing.T) {
	for is, want := range map[evaluation.State]string{evaluation.Running: "ResultsStored=Unknown/StorePending",
		evaluation.Failed: "ResultsStored=Unknown/NothingCounted"} {
		if got := runtest.FormatConditions([]metav1.Condition{describeStored(score.Accumulator{}, is)}); got != want {
			t.Errorf("describeStored(%v) = %s, want %s", is, got, want)
		}
	}
}
