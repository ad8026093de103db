package rules

import (
	"time"

	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/runner"
)

// listAlarms are the times after which a run that has not ended is looked at again, in the stage
// that it has reached. Zero is never.
func listAlarms(asked Stage) []func(*pass, Facts) time.Duration {
	switch asked {
	case Beginning:
		return []func(*pass, Facts) time.Duration{awaitPool}
	case Collecting:
		return []func(*pass, Facts) time.Duration{awaitDeadline, awaitSilent, awaitAcknowledgement, awaitSegments}
	default:
		return []func(*pass, Facts) time.Duration{awaitDeadline, awaitPlan, awaitStart, awaitCreation, awaitSummaries,
			awaitSidecars}
	}
}

// awaitPool is for what isn't watched: the server's reports, the names of others.
func awaitPool(p *pass, _ Facts) time.Duration {
	if evaluation.IsSuspended(p.s.Run) {
		return 0
	}
	return waitDelay
}

func awaitDeadline(p *pass, _ Facts) time.Duration {
	_, left := p.s.Deadline()
	return max(left, 0)
}

func awaitPlan(_ *pass, f Facts) time.Duration {
	if f.Plan.Missing == nil {
		return 0
	}
	return waitDelay
}

// awaitStart is for runners that can't start.
func awaitStart(p *pass, _ Facts) time.Duration {
	left, stuck := p.findStuck()
	if !stuck || !p.isJobCurrent() {
		return 0
	}
	return left
}

// awaitCreation is for containers that the kubelet prepares, and pods that a scheduler hasn't seen.
func awaitCreation(p *pass, _ Facts) time.Duration {
	var next time.Duration
	for i := range p.s.Pods {
		pod := &p.s.Pods[i]
		left := pods.CreationPatience - p.s.Now.Sub(runner.ReadScheduledTime(pod))
		waits := runner.IsCreating(pod) || pods.IsUnclaimed(pod)
		if left > 0 && waits && p.isJobCurrent() && (next == 0 || left < next) {
			next = left
		}
	}
	return next
}

// awaitSummaries is for the pods of a complete Job.
func awaitSummaries(p *pass, _ Facts) time.Duration {
	if !p.isJobCurrent() {
		return 0
	}
	wait, _ := p.findLost()
	return wait
}

func awaitSidecars(p *pass, _ Facts) time.Duration {
	_, next := runner.FindOutlived(p.s.Succeeded, p.s.Now)
	return next
}

// awaitSilent is for servers that don't reply to a run whose deadline is over.
func awaitSilent(p *pass, _ Facts) time.Duration {
	if p.collected == nil || !p.s.IsDeadlineOver() || !p.awaitsSilent() {
		return 0
	}
	return AcknowledgeDelay
}

// awaitAcknowledgement is for a draining server that waits for its segment to be acknowledged.
func awaitAcknowledgement(p *pass, _ Facts) time.Duration {
	switch {
	case p.collected == nil:
		return startDelay
	case p.collected.Awaited:
		return AcknowledgeDelay
	}
	return 0
}

func awaitSegments(p *pass, _ Facts) time.Duration {
	switch {
	case evaluation.IsSuspended(p.s.Run):
		return 0
	case p.collected != nil && p.collected.Silent > 0 && p.collected.Silent == len(p.s.Segments):
		return SilentInterval
	default:
		return CollectInterval
	}
}
