package evaluation

import (
	"strings"
	"testing"
	"time"

	"github.com/csenv/csenv/api/v1alpha1"
)

// Failures that a retry overcame are mentioned with the score: they took time, and may indicate an
// overloaded endpoint.
func TestCompletedMessageMentionsRetries(t *testing.T) {
	status := v1alpha1.EvaluationRunStatus{
		Episodes: &v1alpha1.RunEpisodes{Total: 9, Scored: 8, Failed: 1, Retried: 3},
		Score:    &v1alpha1.Score{Mean: "0.5000"}, PassRate: "0.2500",
		Errors: []v1alpha1.ErrorCount{{Class: "agent_rate_limited", Retried: 2}, {Class: "agent_timeout", Retried: 1},
			{Class: "capacity"}},
	}
	want := "All there: 9 episodes, mean score 0.5000, pass rate 0.2500; 1 failed because of the agent, " +
		"0 errored (excluded). Retried attempts: agent_rate_limited 2, agent_timeout 1."
	if got := completedMessage("All there", status); got != want {
		t.Errorf("completedMessage() = %q, want %q", got, want)
	}
	if got := muteMessage(5, status); !strings.Contains(got, "No answer was an action in 5 of 9 episodes") {
		t.Errorf("muteMessage() = %q", got)
	}
	if got := muteMessage(4, status); got != "" {
		t.Errorf("muteMessage() = %q for a minority", got)
	}
	status.Errors = nil
	if got := completedMessage("All there", status); !strings.HasSuffix(got, "(excluded).") {
		t.Errorf("without retries: %q", got)
	}
}

// A goal in the distant future has no estimate.
func TestTimeLeft(t *testing.T) {
	if left, known := TimeLeft(time.Minute, 1, 1<<31); known {
		t.Errorf("one of two billion in a minute leaves %s", left)
	}
	if left, known := TimeLeft(time.Minute, 1, 3); !known || left != 2*time.Minute {
		t.Errorf("one of three in a minute leaves %s, want 2m", left)
	}
	if _, known := TimeLeft(time.Minute, 0, 3); known {
		t.Error("none of three in a minute has an estimate")
	}
}
