package environment

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
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

// annotatedScenarios returns the digest for which the servers were last replaced, "" if they never
// were.
func annotatedScenarios(s snapshot) string {
	d := s.deployment()
	if d == nil || len(s.env.Spec.Scenarios.Packs) == 0 {
		return ""
	}
	return d.Spec.Template.Annotations[scenariosAnnotation]
}

// nextScenarios returns the digest with which the servers are annotated next.
func nextScenarios(s snapshot) string {
	current := annotatedScenarios(s)
	if !mayReplace(s) {
		return current
	}
	next, isPlayed := "", true
	for _, report := range newestReports(s, current) {
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
func mayReplace(s snapshot) bool {
	d := s.deployment()
	if d == nil || len(s.env.Spec.Scenarios.Packs) == 0 || !observed(d) || d.Spec.Replicas == nil {
		return false
	}
	c := deploymentCondition(d, "Progressing")
	return c != nil && c.Reason == newRolloutReason && s.now.Sub(c.LastUpdateTime.Time) >= replacePause &&
		d.Status.Replicas == *d.Spec.Replicas && d.Status.UpdatedReplicas == *d.Spec.Replicas
}

// newestReports returns the reports of the servers of the newest template, ordered by pod name.
func newestReports(s snapshot, scenarios string) []score.Report {
	var reports []score.Report
	isNewest := describes(s, scenarios)
	for _, pod := range s.pods {
		if report, ok := s.reports[pod.Name]; ok && !report.Draining && isNewest(pod) {
			reports = append(reports, report)
		}
	}
	return reports
}

// invalidPack reports that packs have changed and new servers would refuse them.
func invalidPack(d decision) *fault {
	for _, report := range newestReports(d.snapshot, d.scenarios) {
		if report.Packs != nil && report.Packs.Error != "" {
			if pack := emptyPack(d.env, report.Packs.Error); pack != "" {
				return faultf(v1alpha1.ReasonInvalidPack, "New servers can't start: %s", pack)
			}
			return faultf(v1alpha1.ReasonInvalidPack, "The changed scenario packs aren't rolled out. Servers "+
				"continue with the packs that they have loaded, but new servers can't start. Correct %s",
				pods.Quote(named(d.env, report.Packs.Error)))
		}
	}
	return nil
}

// emptyPack describes a pack of which a server says that it has no files, "" if there is none. Its
// volume is optional, so the server doesn't know whether the object exists.
func emptyPack(env *v1alpha1.CustomerSupportEnv, says string) string {
	for i, pack := range env.Spec.Scenarios.Packs {
		if !strings.Contains(says, packFolder(i)+": no scenario files") {
			continue
		}
		kind, name := packObject(pack)
		return fmt.Sprintf("%s %s doesn't exist in namespace %s, or it has no scenario files. Create it from the "+
			"pack's folder: %s.", kind, name, env.Namespace, pods.CreateFrom(strings.ToLower(kind), name, env.Namespace,
			"--from-file=FOLDER"))
	}
	return ""
}

// packObject returns the kind and the name of the object that has the pack's files.
func packObject(pack v1alpha1.ScenarioPack) (kind, name string) {
	if pack.ConfigMap != nil {
		return "ConfigMap", pack.ConfigMap.Name
	}
	return "Secret", pack.Secret.Name
}

// named replaces the servers' paths by the names of the mounted objects.
func named(env *v1alpha1.CustomerSupportEnv, text string) string {
	var names []string
	for i, pack := range env.Spec.Scenarios.Packs {
		kind, name := packObject(pack)
		names = append(names, packFolder(i), kind+" "+name)
	}
	if token := env.Spec.Access.TokenSecretRef; token != nil {
		names = append(names, tokenFolder+"/"+tokenEntry, fmt.Sprintf("key %q of Secret %s", token.Key, token.Name))
	}
	return strings.NewReplacer(names...).Replace(text)
}

// announcePacks emits an event when a rolling update for changed packs was applied.
func (r *Reconciler) announcePacks(d decision) {
	if d.applyErr == nil && d.scenarios != annotatedScenarios(d.snapshot) && d.scenarios != "" {
		r.recorder.Eventf(d.env, nil, corev1.EventTypeNormal, v1alpha1.ReasonPacksChanged, "Reconcile",
			"The scenario packs have changed. Servers are replaced to load %s.", d.scenarios)
	}
}
