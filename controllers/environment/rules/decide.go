// Package rules decides what happens to a pool. It is pure: a decision follows from a snapshot and
// the memory of earlier passes, and the status from the decision and what was written. Nothing
// changes a decision after DecidePool.
package rules

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/environment/snapshot"
)

// Memory is what decisions need of earlier passes. It is lost when the operator restarts: delays
// start again and metrics miss changes.
type Memory struct {
	history   history
	heldSince time.Time                  // when a scale-down began to wait for a full server, zero if none waits
	servers   map[types.UID]serverMemory // of the last pass, nil before the first
}

// ActiveSessions returns the open sessions that a server last reported.
func (m Memory) ActiveSessions(server types.UID) int64 { return m.servers[server].active }

// Input is what a decision follows from.
type Input struct {
	Snapshot snapshot.Snapshot
	Memory   Memory
	// MayUpdate says that the servers may be replaced because of another release of the operator.
	MayUpdate bool
}

// Decision is the result of a pass over a snapshot.
type Decision struct {
	snapshot.Snapshot
	Scaling   Scaling
	Scenarios string      // digest of the packs for which the servers were last replaced, "" if they never were
	Changes   Changes     // of the servers since the last pass
	Marks     []Mark      // of pods, to write before the objects
	Undrained []Undrained // servers to tell once more that they end
	Held      bool        // a smaller number of servers waits
	Postponed bool        // the Deployment of another release of the operator stays for now
	// NeedsMarks says that without the marks busy servers could be removed instead of idle ones.
	NeedsMarks bool
}

// Written is what was written of a decision.
type Written struct {
	Err      error // of the writes that failed
	Applied  bool  // an object differed from its intended state
	Unmarked bool  // marks that the decision needs could not be written, so the number of servers stays
}

// DecidePool chooses the number of servers and the scenarios that they play. It returns the memory
// for the next decision.
func DecidePool(in Input) (Decision, Memory) {
	s, m := in.Snapshot, in.Memory
	d := Decision{Snapshot: s, Scenarios: chooseScenarios(s)}
	d.Changes, m.servers = compareServers(s, m.servers)
	d.Scaling, m.history = decideReplicas(s, m.history)
	d.Held, m.heldSince = holdBack(s, d.Scaling, m.heldSince)
	if d.Held {
		d.Scaling = d.Scaling.keepNumber()
	}
	d.NeedsMarks = needsCosts(s, d.Scaling)
	d.Marks = markPods(s, d.NeedsMarks, m.servers)
	d.Undrained = listUndrained(s)
	d.Postponed = !in.MayUpdate && s.NeedsRelease() && d.Scenarios == s.AnnotatedScenarios()
	return d, m
}

// keepNumber is the decision that the number of servers stays.
func (s Scaling) keepNumber() Scaling {
	s.To, s.Reason, s.Why = s.From, "", ""
	return s
}

// needsCosts reports whether busy servers could be removed instead of idle ones.
func needsCosts(s snapshot.Snapshot, scaling Scaling) bool {
	l := summariseLoad(s)
	return 0 < scaling.To && scaling.To < scaling.From && l.idle < l.stay
}

// holdBack reports whether the number of servers stays, because a full server would be removed
// instead of an idle one. since is when the number began to stay, zero if it doesn't.
func holdBack(s snapshot.Snapshot, scaling Scaling, since time.Time) (held bool, next time.Time) {
	l := summariseLoad(s)
	wouldHit := scaling.Reason == scaleSpec && 0 < scaling.To && scaling.To < scaling.From-l.unready &&
		l.exposed > 0 && l.idle > l.unready
	switch {
	case !wouldHit:
		return false, time.Time{}
	case since.IsZero():
		since = s.Now
	}
	return s.Now.Sub(since) < fullPatience, since
}

// Servers returns the number of servers, which stays if marks that it needs weren't written.
func (d Decision) Servers(unmarked bool) int32 {
	if unmarked {
		return d.Scaling.From
	}
	return d.Scaling.To
}

// ChangesPacks reports whether the servers are replaced because their packs have changed.
func (d Decision) ChangesPacks() bool {
	return d.Scenarios != "" && d.Scenarios != d.AnnotatedScenarios()
}

// Step is a write: of an object's configuration, of a number of servers alone, or a deletion.
type Step struct {
	children.Child
	Obsolete snapshot.Object // to delete, or nil
	Scale    *int32          // of a Deployment to which nothing else is applied yet, or nil
}

// ListSteps lists the objects to apply, which are missing or lack an intended field, and those to
// delete. A name that another object has is left alone, and so is an object that admission changed
// when it was last applied and that is still as accepted says.
func ListSteps(d Decision, servers int32, accepted map[children.ID]string) []Step {
	var steps []Step
	pool := d.Pool
	pool.NoSurge = isSurgeRefused(d.Deployment())
	for _, c := range children.BuildObjects(pool, servers, d.Scenarios) {
		live, exists := d.Live[c.ID]
		switch {
		case slices.Contains(d.Taken, c.ID) || slices.Contains(d.Leaving, c.ID):
		case c.ID.Kind == children.KindDeployment && d.Postponed:
			if ptr.Deref(d.Deployment().Spec.Replicas, 1) != servers {
				steps = append(steps, Step{Child: c, Scale: &servers})
			}
		case c.Config == nil && exists:
			steps = append(steps, Step{Child: c, Obsolete: live})
		case c.Config != nil && (!exists || !children.IsUpToDate(c, live) &&
			accepted[c.ID] != children.IdentifyState(c, live)):
			steps = append(steps, Step{Child: c})
		}
	}
	return steps
}

// isSurgeRefused reports whether an update can't go on because a quota refuses the pods that it
// adds. It stays so until the update has ended.
func isSurgeRefused(d *appsv1.Deployment) bool {
	if d == nil || d.Status.UpdatedReplicas == d.Status.Replicas {
		return false
	}
	refusal := snapshot.FindCondition(d, appsv1.DeploymentReplicaFailure)
	refused := refusal != nil && refusal.Status == corev1.ConditionTrue
	update := d.Spec.Strategy.RollingUpdate
	return refused || update != nil && update.MaxUnavailable != nil && update.MaxUnavailable.IntValue() > 0
}
