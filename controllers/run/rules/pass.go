package rules

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// waitDelay is the time between two passes while a run waits for something that isn't watched.
const waitDelay = 15 * time.Second

// pass is the work on one decision.
type pass struct {
	s           observe.Snapshot
	d           Decision
	environment metav1.Condition // the pool's

	plan      score.Plan        // that summaries are checked against
	planErr   error             // why there is no plan
	invalid   error             // why there can't be one
	edited    error             // why the figures in the status can't be read
	tooLarge  error             // why the sums can't be stored
	collected *tally.Collection // nil until segments are counted

	// collectable are the empty sums of a collection that begins, provenance what it begins with.
	collectable *score.Ledger
	provenance  *v1alpha1.Provenance
}

func newPass(s observe.Snapshot) *pass {
	p := &pass{s: s, d: Decision{Status: *s.Run.Status.DeepCopy()}, environment: describePool(s)}
	p.d.Status.ObservedGeneration = s.Run.Generation
	return p
}

// nameAgent is a step.
func (p *pass) nameAgent() { p.d.Status.Agent = evaluation.AgentName(p.s.Run.Spec.Agent) }
