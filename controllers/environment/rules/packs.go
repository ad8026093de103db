package rules

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/csenv/csenv/controllers/environment/snapshot"
)

// The operator can't read packs, because it has no access to Secrets. Servers watch their mounted
// packs and report the digest that a new server would load, or an error. A digest that differs from
// the loaded one becomes an annotation of the pod template, so the Deployment replaces the servers.
//
// All servers of the newest template that answer must report the same digest, because kubelets
// update mounts minutes apart. A digest isn't annotated twice in a row or during a rolling update,
// so an image with random reports causes at most one rolling update per replacePause.

// replacePause is the minimum time between two rolling updates for changed packs.
const replacePause = 2 * time.Minute

// newRolloutReason is the reason of a Deployment's Progressing condition after a rolling update,
// from k8s.io/kubernetes/pkg/controller/deployment/util.
const newRolloutReason = "NewReplicaSetAvailable"

// chooseScenarios returns the digest with which the servers are annotated next.
func chooseScenarios(s snapshot.Snapshot) string {
	current := s.AnnotatedScenarios()
	if !mayReplace(s) {
		return current
	}
	next, isPlayed := "", true
	for _, report := range s.NewestReports(current) {
		packs := report.Packs
		if packs == nil || packs.Error != "" || packs.Digest == "" || next != "" && packs.Digest != next {
			return current
		}
		next, isPlayed = packs.Digest, isPlayed && packs.Digest == report.ScenarioDigest
	}
	if isPlayed {
		return current
	}
	return next
}

// mayReplace reports whether the last rolling update ended at least replacePause ago.
func mayReplace(s snapshot.Snapshot) bool {
	d := s.Deployment()
	if d == nil || len(s.Env.Spec.Scenarios.Packs) == 0 || !snapshot.IsObserved(d) || d.Spec.Replicas == nil {
		return false
	}
	c := snapshot.FindCondition(d, appsv1.DeploymentProgressing)
	return c != nil && c.Reason == newRolloutReason && s.Now.Sub(c.LastUpdateTime.Time) >= replacePause &&
		d.Status.Replicas == *d.Spec.Replicas && d.Status.UpdatedReplicas == *d.Spec.Replicas
}
