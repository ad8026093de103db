package run

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// waitDelay is how long a run waits for what nothing in the cluster tells: a pool that can't be read, a name that is taken.
	waitDelay = 15 * time.Second
	// startDeadline is how long a runner may fail to start for a reason that rarely goes away by itself, an image that can't be pulled above all.
	startDeadline = 10 * time.Minute
	// lostDeadline is how long after its Job's completion a run waits for summaries that no pod holds: caches are not that late.
	lostDeadline = 2 * time.Minute
	// deleteGrace is what a pod that is being deleted gets beyond its own deadline to end and leave a summary. After that its node is taken for lost.
	deleteGrace = time.Minute
)

// decision is what a pass is going to write, in the order of the fields.
type decision struct {
	status  v1alpha1.EvaluationRunStatus
	events  []event
	folding folding

	removePlan bool        // the ConfigMap isn't the plan
	createPlan *score.Plan // there is no ConfigMap
	deleteJob  bool
	createJob  bool
	// parallelism is what the Job's is to become.
	parallelism *int32

	lift  []corev1.Pod
	again time.Duration
}

type event struct{ kind, reason, note string }

// wake shortens the time until the next pass.
func (d *decision) wake(after time.Duration) {
	if d.again == 0 || after < d.again {
		d.again = max(after, time.Second)
	}
}

// decide says what follows from a snapshot of a run that exists.
func decide(s snapshot) decision {
	d := decision{status: *s.run.Status.DeepCopy()}
	if s.closing {
		vacate(&d, s)
		return d
	}
	d.status.ObservedGeneration = s.run.Generation
	if ended(s.run.Status.Conditions) {
		leave(&d, s)
		return d
	}
	var p progress
	if d.status.Provenance == nil {
		p = begin(&d, s)
	} else {
		p = proceed(&d, s)
	}
	conclude(&d, s, p)
	return d
}

// vacate stands aside while the namespace is being deleted: nothing can be created there, and the run is about to go. Kubernetes deletes a namespace's pods before its Jobs,
// but the Job controller holds the last failed pod of an index until it has made another, which it never can: so the Job has to go first.
func vacate(d *decision, s snapshot) {
	d.lift = s.pods
	d.deleteJob = stillActive(s.job)
}

// leave is all there is to do for a run that has ended: whatever its last pass couldn't finish.
func leave(d *decision, s snapshot) {
	for i := range d.status.Conditions {
		d.status.Conditions[i].ObservedGeneration = s.run.Generation
	}
	d.lift = s.pods
	d.deleteJob = meta.IsStatusConditionTrue(d.status.Conditions, v1alpha1.ConditionFailed) && stillActive(s.job)
}

// conclude writes the conditions and figures, and lets go of pods.
func conclude(d *decision, s snapshot, p progress) {
	setConditions(d, s, p)
	if p.state == completed || p.state == failed {
		d.status.CompletionTime = new(metav1.NewTime(s.now))
		d.removePlan, d.createPlan, d.createJob, d.parallelism = false, nil, false, nil
		// The Job of a completed run ends by itself, as soon as its controller has seen the pods that this one has seen.
		d.deleteJob = p.state == failed && stillActive(s.job)
		d.lift = s.pods
		d.again = 0
		return
	}
	d.lift = liftable(d, s)
}

// begin fixes the plan of a run that has none, as soon as the pool is there. The status remembers what the plan was made with before anything is played.
func begin(d *decision, s snapshot) progress {
	if c := environmentCondition(s); c.Status != metav1.ConditionTrue {
		d.wake(waitDelay)
		return progress{waiting, v1alpha1.ReasonWaitingForEnvironment, c.Message}
	}
	if len(s.taken) > 0 {
		d.wake(waitDelay)
		return progress{waiting, v1alpha1.ReasonNameTaken, fmt.Sprintf("%s belongs to something else. Delete it, or give the run another name.", strings.Join(s.taken, ", "))}
	}
	plan, err := makePlan(s, int(ptr.Deref(s.run.Spec.Parallelism, 1)))
	if err != nil {
		return unplannable(err)
	}
	sums := score.Accumulator{}
	if sums.Plan, err = plan.Fingerprint(); err != nil {
		return unplannable(err)
	}
	if d.status.Provenance, err = provenance(s); err != nil {
		return unplannable(err)
	}
	d.status.StartTime = new(metav1.NewTime(s.now))
	d.status.Episodes = &v1alpha1.RunEpisodes{Total: plan.Episodes()}
	d.status.Shards = &v1alpha1.Shards{Total: int32(plan.Shards)} //nolint:gosec // at most as many as the pool has scenarios
	d.folding.sums = sums
	writeFigures(&d.status, sums, score.IndexSet{})
	d.createPlan, d.createJob = &plan, true
	d.events = append(d.events, event{corev1.EventTypeNormal, v1alpha1.ReasonStarted, fmt.Sprintf("Playing %d episodes against pool %s. Shards: %d.", plan.Episodes(), s.env.Name, plan.Shards)})
	return progress{running, v1alpha1.ReasonRunning, runningMessage(d, s)}
}

func unplannable(err error) progress {
	return progress{failed, v1alpha1.ReasonInvalidPlan, fmt.Sprintf("The run can't be planned: %v. Create it again with what the pool offers.", err)}
}

// proceed counts what has been played, and keeps the Job as it should be.
func proceed(d *decision, s snapshot) progress {
	sums, done, err := counted(s)
	if err != nil {
		return progress{failed, v1alpha1.ReasonSummaryRefused, fmt.Sprintf("The status has been changed by hand: %v. Create the run again.", err)}
	}
	d.folding = folding{sums: sums, completed: done}
	plan, err := storedPlan(s)
	if err != nil {
		plan, err = recoverPlan(d, s, sums.Plan)
	}
	if err == nil {
		d.folding = fold(plan, sums, done, s.pods)
		writeFigures(&d.status, d.folding.sums, d.folding.completed)
		if note := replayNote(d.folding.counted, s.run); note != "" {
			d.events = append(d.events, event{corev1.EventTypeWarning, v1alpha1.ReasonEpisodesReplayed, note})
		}
	}
	if p, ended := outcome(d, s, plan, err); ended {
		return p
	}
	if err != nil {
		d.wake(waitDelay)
		return progress{running, v1alpha1.ReasonRunning, fmt.Sprintf("The plan in ConfigMap %s is gone, and making it again has to wait: %v.", planName(s.run), err)}
	}
	keepJob(d, s)
	return progress{running, v1alpha1.ReasonRunning, runningMessage(d, s)}
}

// counted is what the status holds of the shards so far.
func counted(s snapshot) (score.Accumulator, score.IndexSet, error) {
	var sums score.Accumulator
	shards := ptr.Deref(s.run.Status.Shards, v1alpha1.Shards{})
	if err := sums.UnmarshalText([]byte(shards.Accumulator)); err != nil {
		return sums, score.IndexSet{}, fmt.Errorf("reading status.shards.accumulator: %w", err)
	}
	done, err := score.ParseIndexSet(shards.CompletedIndexes)
	if err != nil {
		return sums, done, fmt.Errorf("reading status.shards.completedIndexes: %w", err)
	}
	return sums, done, nil
}

// outcome says whether the run has ended, and how. The order is the specification: figures that are complete stand, whatever became of the pool or the Job since.
func outcome(d *decision, s snapshot, plan score.Plan, planErr error) (progress, bool) {
	total := int64(s.run.Status.Shards.Total)
	if refused := d.folding.refused; len(refused) > 0 {
		for _, r := range refused {
			d.events = append(d.events, event{corev1.EventTypeWarning, v1alpha1.ReasonSummaryRefused, fmt.Sprintf("The summary of runner pod %s is not counted: %v.", r.pod, r.err)})
		}
		return progress{failed, v1alpha1.ReasonSummaryRefused, refusedMessage(refused[0])}, true
	}
	if errored, limit := d.folding.sums.Errored, int64(ptr.Deref(s.run.Spec.Retries.MaxErroredPercent, 5)); errored*100 > limit*d.status.Episodes.Total {
		return progress{failed, v1alpha1.ReasonTooManyErrored, fmt.Sprintf(
			"%d of %d episodes errored, more than the %d %% of retries.maxErroredPercent. See the runners' logs for the causes, then create the run again.", errored, d.status.Episodes.Total, limit)}, true
	}
	if d.folding.completed.Len() >= total {
		return progress{completed, v1alpha1.ReasonCompleted, "Every shard is in the figures."}, true
	}
	if change := environmentChange(s, plan, planErr); change != "" {
		return progress{failed, v1alpha1.ReasonEnvironmentChanged, change}, true
	}
	if reason, message := jobFailure(d, s); reason != "" {
		return progress{failed, reason, message}, true
	}
	return progress{}, false
}

func refusedMessage(r refusal) string {
	advice := "Check that the runners' image is the operator's own, then create the run again."
	if r.reason == refusedMalformed {
		advice = "See the pod's log, then create the run again."
	}
	return fmt.Sprintf("The summary of runner pod %s is not counted: %v. Shards counted before stay in the figures. %s", r.pod, r.err, advice)
}

// environmentChange says what of the pool is no longer what the run began with, "" if nothing is, or if the pool doesn't tell.
func environmentChange(s snapshot, plan score.Plan, planErr error) string {
	if s.env == nil {
		return ""
	}
	began := s.run.Status.Provenance
	key := plan.LedgerKey
	switch {
	case errors.Is(planErr, errPlanDiffers):
		return fmt.Sprintf("Pool %s offers other scenarios, or has another ledger key, than when the run began. Create the run again.", s.env.Name)
	case planErr != nil:
		key = s.env.Status.LedgerPublicKey
	}
	for _, field := range []struct{ what, began, now string }{
		{"scenarios", began.ScenarioDigest, s.env.Status.ScenarioDigest},
		{"grader", began.GraderVersion, s.env.Status.GraderVersion},
		{"judge", began.Judge, s.env.Status.Judge},
		{"ledger key", key, s.env.Status.LedgerPublicKey},
	} {
		if field.now != "" && field.now != field.began {
			return fmt.Sprintf("The %s of pool %s changed from %s to %s while the run was going on: scores of two graders are never mixed. Create the run again.",
				field.what, s.env.Name, field.began, field.now)
		}
	}
	return ""
}

// keepJob has the Job be there, with the parallelism that the spec asks for.
func keepJob(d *decision, s snapshot) {
	wanted := parallelism(s.run, s.run.Status.Shards.Total)
	switch {
	case s.job == nil:
		d.createJob = len(s.taken) == 0
		d.wake(waitDelay)
	case ptr.Deref(s.job.Spec.Parallelism, 0) != wanted && !jobEnded(s.job):
		d.parallelism = &wanted
	}
}

func parallelism(run *v1alpha1.EvaluationRun, shards int32) int32 {
	return min(ptr.Deref(run.Spec.Parallelism, 1), shards)
}

// storedPlan is the plan in the run's ConfigMap, if it has the fingerprint that the status holds: the ConfigMap is anybody's in the namespace.
func storedPlan(s snapshot) (score.Plan, error) {
	if s.planMap == nil {
		return score.Plan{}, errors.New("there is no such ConfigMap")
	}
	plan, err := score.ParsePlan([]byte(s.planMap.Data[planKey]))
	if err != nil {
		return plan, err
	}
	sums, _, err := counted(s)
	if err != nil {
		return plan, err
	}
	return plan, matches(plan, sums.Plan)
}

func matches(plan score.Plan, fingerprint string) error {
	got, err := plan.Fingerprint()
	if err == nil && got != fingerprint {
		err = fmt.Errorf("the plan's fingerprint is %s, not %s", got, fingerprint)
	}
	return err
}

// recoverPlan makes the plan again from what the pool offers: it is a function of the spec, of the pool's scenarios and of the number of shards.
func recoverPlan(d *decision, s snapshot, fingerprint string) (score.Plan, error) {
	if s.planMap != nil {
		d.removePlan = true
		return score.Plan{}, errors.New("its content was changed")
	}
	if s.report == nil {
		return score.Plan{}, errors.Join(s.reportErr, errors.New(environmentCondition(s).Message))
	}
	plan, err := makePlan(s, int(s.run.Status.Shards.Total))
	if err == nil {
		err = matches(plan, fingerprint)
	}
	if err != nil {
		return plan, fmt.Errorf("%w: %w", errPlanDiffers, err)
	}
	if len(s.taken) == 0 {
		d.createPlan = &plan
	}
	return plan, nil
}

// errPlanDiffers means that the pool's scenarios no longer make the plan that the run began with.
var errPlanDiffers = errors.New("the pool's scenarios make another plan")

// makePlan selects what the spec asks for of what the pool offers.
func makePlan(s snapshot, shards int) (score.Plan, error) {
	spec := s.run.Spec
	passScore, err := score.ParseDecimal(spec.PassScore)
	if err != nil {
		return score.Plan{}, fmt.Errorf("reading spec.passScore: %w", err)
	}
	draft := score.Plan{
		Run: string(s.run.UID), Seed: ptr.Deref(spec.Seed, 0), PassScore: passScore, Pressure: spec.Pressure == v1alpha1.ResponseTimePressure,
		ScenarioDigest: s.report.ScenarioDigest, GraderVersion: s.report.GraderVersion, Judge: s.report.Judge, LedgerKey: s.env.Status.LedgerPublicKey,
	}
	var wrong []error
	categories := map[string]bool{}
	for _, selection := range spec.Tasks {
		scenarios, err := selectScenarios(selection, s.report.Tasks, categories)
		wrong = append(wrong, err)
		draft.Tasks = append(draft.Tasks, score.PlanTask{Name: selection.Name, Trials: int(max(selection.Trials, 1)), Scenarios: scenarios})
	}
	if err := errors.Join(wrong...); err != nil {
		return score.Plan{}, fmt.Errorf("pool %s doesn't offer what spec.tasks asks for: %s", s.env.Name, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if len(categories) > maxCategories {
		return score.Plan{}, fmt.Errorf("spec.tasks selects scenarios of %d categories, and a run has figures for %d at most: name those that you want in spec.tasks[].scenarios.categories", len(categories), maxCategories)
	}
	return score.NewPlan(draft, shards)
}

// selectScenarios lists the ids of a task's scenarios that a selection asks for, and notes their categories. Its errors name what there is.
func selectScenarios(selection v1alpha1.TaskSelection, offered []score.Task, selectedCategories map[string]bool) ([]string, error) {
	at := slices.IndexFunc(offered, func(t score.Task) bool { return t.Name == selection.Name })
	if at < 0 {
		names := make([]string, len(offered))
		for i, t := range offered {
			names[i] = t.Name
		}
		return nil, fmt.Errorf("there is no task %q, use %s", selection.Name, strings.Join(names, ", "))
	}
	wanted := ptr.Deref(selection.Scenarios, v1alpha1.ScenarioSelection{})
	ids, categories := map[string]bool{}, map[string]bool{}
	var selected []string
	for _, sc := range offered[at].Scenarios {
		ids[sc.ID], categories[sc.Category] = true, true
		if asks(wanted.IDs, sc.ID) && asks(wanted.Categories, sc.Category) {
			selected = append(selected, sc.ID)
			selectedCategories[sc.Category] = true
		}
	}
	if err := errors.Join(unknown(selection.Name, "scenario", wanted.IDs, ids), unknown(selection.Name, "category", wanted.Categories, categories)); err != nil {
		return nil, err
	}
	if len(selected) == 0 {
		return nil, fmt.Errorf("task %s has no scenario that meets both ids and categories, its categories are %s", selection.Name, strings.Join(slices.Sorted(maps.Keys(categories)), ", "))
	}
	return selected, nil
}

// asks says whether a list asks for a name. An empty one asks for all.
func asks(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }

func unknown(task, kind string, wanted []string, known map[string]bool) error {
	var missing []string
	for _, name := range wanted {
		if !known[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("task %s has no %s %s, use %s", task, kind, strings.Join(missing, ", "), strings.Join(slices.Sorted(maps.Keys(known)), ", "))
}

// liftable are the pods that hold nothing any more that this pass doesn't write, or never will. A pod that is being deleted keeps its finalizer while its
// runner may still leave a summary, but not beyond its deadline.
func liftable(d *decision, s snapshot) []corev1.Pod {
	var lift []corev1.Pod
	for i := range s.pods {
		pod := &s.pods[i]
		shard, err := shardOf(pod)
		switch {
		case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded && err == nil && d.folding.completed.Contains(int64(shard)):
			lift = append(lift, *pod)
		case pod.Status.Phase == corev1.PodSucceeded || pod.DeletionTimestamp.IsZero():
		case pod.Spec.NodeName == "" || !s.now.Before(pod.DeletionTimestamp.Add(deleteGrace)):
			lift = append(lift, *pod)
		default:
			d.wake(pod.DeletionTimestamp.Add(deleteGrace).Sub(s.now))
		}
	}
	return lift
}

// jobFailure says why the Job can't complete any more, "" while it can.
func jobFailure(d *decision, s snapshot) (reason, message string) {
	if s.job == nil {
		return "", ""
	}
	if c := jobCondition(s.job, batchv1.JobFailed); c != nil {
		message := fmt.Sprintf("Job %s failed: %s", s.job.Name, strings.TrimSuffix(c.Message, "."))
		if s.job.Status.FailedIndexes != nil && *s.job.Status.FailedIndexes != "" {
			message = fmt.Sprintf("Shards %s failed more often than retries.shardBackoffLimit allows", *s.job.Status.FailedIndexes)
		}
		return v1alpha1.ReasonShardsFailed, message + lastWords(s.failed) + ". Put that right, then create the run again."
	}
	if why, since := startTrouble(s.pods); why != "" {
		if !s.now.Before(since.Add(startDeadline)) {
			return v1alpha1.ReasonRunnersNotStarted, fmt.Sprintf("A runner could not start for %s: %s. Put that right, then create the run again.", startDeadline, why)
		}
		d.wake(since.Add(startDeadline).Sub(s.now))
	}
	return lostSummaries(d, s)
}

// lostSummaries says which shards the Job takes for played although no pod is left to tell of them: somebody removed pods and finalizers by force.
func lostSummaries(d *decision, s snapshot) (reason, message string) {
	c := jobCondition(s.job, batchv1.JobComplete)
	if c == nil || slices.ContainsFunc(s.pods, func(pod corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded }) {
		return "", ""
	}
	if left := c.LastTransitionTime.Add(lostDeadline).Sub(s.now); left > 0 {
		d.wake(left)
		return "", ""
	}
	return v1alpha1.ReasonSummariesLost, fmt.Sprintf("Job %s is complete, but only shards %q are counted: pods of others were removed before they were read. Create the run again.",
		s.job.Name, d.folding.completed)
}

func jobCondition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

func jobEnded(job *batchv1.Job) bool {
	return jobCondition(job, batchv1.JobComplete) != nil || jobCondition(job, batchv1.JobFailed) != nil
}

// stillActive says whether a Job would go on. One that has ended is kept, with its pods' logs.
func stillActive(job *batchv1.Job) bool {
	return job != nil && job.DeletionTimestamp.IsZero() && !jobEnded(job)
}

// lastWords quotes the pod that failed last.
func lastWords(pods []corev1.Pod) string {
	var last *corev1.Pod
	for i := range pods {
		if last == nil || terminated(&pods[i]).FinishedAt.After(terminated(last).FinishedAt.Time) {
			last = &pods[i]
		}
	}
	if last == nil {
		return ""
	}
	end := terminated(last)
	words := strings.TrimSpace(end.Message)
	switch {
	case words != "":
	case last.Status.Message != "":
		words = last.Status.Message
	default:
		words = strings.TrimSpace(fmt.Sprintf("exit code %d %s", end.ExitCode, end.Reason))
	}
	return fmt.Sprintf(". Pod %s said: %s", last.Name, strings.TrimSuffix(quote(words), "."))
}

// startTrouble is why a runner can't start, and since when: the oldest trouble of a kind that rarely goes away by itself.
func startTrouble(pods []corev1.Pod) (why string, since time.Time) {
	for i := range pods {
		pod := &pods[i]
		for _, c := range pod.Status.ContainerStatuses {
			w := c.State.Waiting
			if c.Name != runnerContainer || w == nil || !slices.Contains(stuckReasons, w.Reason) {
				continue
			}
			if began := scheduledAt(pod); why == "" || began.Before(since) {
				why, since = strings.TrimSuffix(fmt.Sprintf("pod %s: %s: %s", pod.Name, w.Reason, quote(w.Message)), ": "), began
			}
		}
	}
	return why, since
}

// scheduledAt is when a pod got its node: what it waited for one says nothing of its image. A pod that doesn't tell counts from its creation.
func scheduledAt(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// stuckReasons are the kubelet's reasons for which a container waits for somebody to act.
var stuckReasons = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
	"CreateContainerConfigError", "CreateContainerError"}
