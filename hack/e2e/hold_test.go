//go:build e2e

package e2e

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
	scripted "github.com/csenv/csenv/envserver/testkit/model"
)

// place is where an episode is in a run's plan.
type place struct {
	shard   int
	episode int // of the shard
}

// hold keeps a model's requests until the spec releases them. So a run ends when the spec says so,
// and its disturbance is never late.
type hold struct {
	places  map[int64]place // of the run's episodes, by the seed that the model receives
	planned chan struct{}   // closed when places is set
	kept    atomic.Int64    // requests that wait now

	mu      sync.Mutex
	keeps   func(place) bool
	changed chan struct{} // closed when keeps changes
}

// hold makes the model keep the requests of some of a run's episodes. It must be called before the
// run exists.
func (m *model) hold(keeps func(place) bool) *hold {
	h := &hold{keeps: keeps, planned: make(chan struct{}), changed: make(chan struct{})}
	m.timeout = 3600 // no request is sent again
	m.Trouble = func(_ http.ResponseWriter, r *http.Request, asked scripted.Request) bool {
		return !h.pass(r.Context(), asked.Seed)
	}
	DeferCleanup(h.release) // else the server of the model doesn't close
	return h
}

// everything holds all episodes of a run.
func everything(place) bool { return true }

// pass waits until the request may be answered, and returns false if its client has left.
func (h *hold) pass(ctx context.Context, seed int64) bool {
	select {
	case <-h.planned:
	case <-ctx.Done():
		return false
	}
	for ctx.Err() == nil {
		h.mu.Lock()
		keeps, changed := h.keeps(h.places[seed]), h.changed
		h.mu.Unlock()
		if !keeps {
			return true
		}
		h.kept.Add(1)
		select {
		case <-changed:
		case <-ctx.Done():
		}
		h.kept.Add(-1)
	}
	return false
}

// keepOnly releases the other requests.
func (h *hold) keepOnly(keeps func(place) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keeps = keeps
	close(h.changed)
	h.changed = make(chan struct{})
}

// release answers the requests that are kept, and all that follow.
func (h *hold) release() { h.keepOnly(func(place) bool { return false }) }

// await waits until requests are kept: the run is under way, and stays so until the release.
func (h *hold) await(ctx SpecContext, evalrun string) {
	GinkgoHelper()
	h.places = placesBySeed(ctx, evalrun)
	close(h.planned)
	Eventually(ctx, h.kept.Load).Should(BeNumerically(">", 0), "requests of %s that the model keeps", evalrun)
}

// playHeld starts a run and waits until it is under way. The model answers none of its requests
// before the release.
func playHeld(ctx SpecContext, evalrun, pool string) *hold {
	GinkgoHelper()
	model := serveModel(ctx)
	held := model.hold(everything)
	apply(ctx, model.runManifest(evalrun, pool, []string{task("ticket-resolve", 1)}))
	held.await(ctx, evalrun)
	return held
}

// placesBySeed waits for the plan of a run, whichever release made it, and returns the place of
// each episode, keyed by the seed that the model receives.
func placesBySeed(ctx SpecContext, evalrun string) map[int64]place {
	GinkgoHelper()
	job := &batchv1.Job{}
	Eventually(ctx, func() error {
		return k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: evalrun}, job)
	}).Should(Succeed(), "the Job of %s", evalrun)
	inputs := runner.ReadInputs(&job.Spec.Template)
	if inputs == nil {
		object := &corev1.ConfigMap{}
		Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: evalrun + "-plan"}, object)).To(Succeed())
		inputs = object.Data
	}
	plan, err := score.ParsePlan([]byte(inputs[runner.PlanKey]))
	Expect(err).NotTo(HaveOccurred())
	secrets := &corev1.SecretList{}
	Expect(k8s.List(ctx, secrets, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelRun: evalrun})).
		To(Succeed())
	ids := ""
	for _, secret := range secrets.Items {
		if strings.HasPrefix(secret.Name, evalrun+"-credential-") {
			ids = poolkey.IDKey(string(secret.Data[runner.CredentialKey]))
		}
	}
	Expect(ids).NotTo(BeEmpty(), "the credential of %s", evalrun)
	places := map[int64]place{}
	for shard := range plan.Shards {
		episode := 0
		for planned := range plan.Shard(shard) {
			places[scripted.SeedOf(ids, planned)] = place{shard, episode}
			episode++
		}
	}
	return places
}
