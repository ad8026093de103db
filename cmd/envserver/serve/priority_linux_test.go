package serve

import (
	"context"
	"os/exec"
	"testing"
	"time"
)

func TestAChecksProcessIsKilledFirst(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c",
		`until read -r score </proc/$$/oom_score_adj && [ "$score" = 1000 ]; do :; done`)
	if err := runAtLowPriority(cmd); err != nil {
		t.Errorf("the process never saw itself as the first to be killed: %v", err)
	}
}
