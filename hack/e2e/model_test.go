//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
	scripted "github.com/csenv/csenv/envserver/testkit/model"
)

const (
	// modelKey is the key of the model's endpoint.
	modelKey = "sk-of-the-scripted-model"
	// modelTimeout is the runner's timeout for a request to the model, in seconds.
	modelTimeout = 6
)

var _ = Describe("A language model that calls tools", Ordered, func() {
	inNamespace("csenv-e2e-model")
	BeforeAll(func(ctx SpecContext) {
		apply(ctx, pooled("asked", "drainTimeoutSeconds: 5"))
		apply(ctx, poolManifest("asked-workflows", "Workflow"))
		createModelKey(ctx)
		awaitPool(ctx, "asked")
		awaitPool(ctx, "asked-workflows")
	}, NodeTimeout(specBound))

	It("is scored as if its endpoint had neither throttled, refused nor hung", func(ctx SpecContext) {
		runs := []struct {
			name, pool string
			tasks      []string
			model      *model
		}{
			{"model-tickets", "asked", []string{task("ticket-resolve", 1),
				"{name: queue-management, scenarios: {ids: [Q001, Q002, Q003, Q004, Q005, Q006]}}"}, serveModel(ctx)},
			{"model-payments", "asked-workflows", []string{task("payment-exception", 4)}, serveModel(ctx)},
		}
		for _, r := range runs {
			r.model.Trouble = r.model.moody
			apply(ctx, r.model.runManifest(r.name, r.pool, r.tasks, "seed: 3", "parallelism: 4",
				"retries: {maxErroredPercent: 0}"))
			apply(ctx, runManifest(r.name+"-direct", r.pool, "Heuristic", r.tasks, "seed: 3"))
		}
		for _, r := range runs {
			asked, direct := awaitComplete(ctx, r.name), awaitComplete(ctx, r.name+"-direct")
			AddReportEntry(r.name, fmt.Sprintf("%d episodes in %s; %s; errors %+v, tokens %+v",
				asked.Status.Episodes.Total,
				asked.Status.CompletionTime.Sub(
					asked.Status.StartTime.Time), r.model, asked.Status.Errors, asked.Status.Tokens))

			By("comparing the model's score with the score of the policy that it imitates")
			Expect(asked.Status.Episodes.Errored).To(BeZero())
			Expect(asked.Status.Score).To(Equal(direct.Status.Score))
			Expect(asked.Status.Tasks).To(Equal(direct.Status.Tasks))

			By("comparing the errors in the status with the errors that the endpoint caused")
			limited, refused := r.model.episodesOf(throttledLong), r.model.episodesOf(refusedOnce)
			Expect(asked.Status.Errors).To(ConsistOf(
				v1alpha1.ErrorCount{Class: score.ClassAgentRateLimited, Retried: limited}, v1alpha1.ErrorCount{
					Class: score.ClassAgentError, Retried: refused}))
			Expect(asked.Status.Episodes.Retried).To(Equal(limited + refused))
			Expect(r.model.answeredTwice()).To(BeEmpty())
			answers := r.model.answers()
			Expect(asked.Status.Tokens).To(HaveValue(Equal(v1alpha1.Tokens{Prompt: answers * scripted.PromptTokens,
				Completion: answers * scripted.CompletionTokens})))
			Expect(r.model.wrong()).To(BeEmpty())
		}
	}, SpecTimeout(specBound))

	It("gets no request while its run is suspended, and none for finished shards after that", func(ctx SpecContext) {
		const slow = 2 // the first shard whose requests are held
		tasks, spec := []string{task("ticket-resolve", 1)}, []string{"seed: 9", "parallelism: 4", "concurrency: 2"}
		apply(ctx, runManifest("calm", "asked", "Heuristic", tasks, spec...))
		calm := awaitComplete(ctx, "calm")

		model := serveModel(ctx)
		held := model.hold(func(p place) bool { return p.shard >= slow })
		apply(ctx, model.runManifest("paused", "asked", tasks, spec...))
		held.await(ctx, "paused")
		Eventually(ctx, counted).WithArguments("paused").Should(Equal("0-1"))

		By("suspending the run")
		suspended := time.Now()
		patch(ctx, "evalrun", "paused", `{"spec":{"suspend":true}}`)
		Eventually(ctx, sessionsByPod).WithArguments("asked").WithPolling(100 * time.Millisecond).Should(HaveEach(BeZero()))
		AddReportEntry("the last session of the suspended run was over after",
			time.Since(suspended).Round(100*time.Millisecond).String())
		Eventually(ctx, podsOf).WithArguments("paused").ShouldNot(
			ContainElement(HaveField("Status.Phase", corev1.PodRunning)))
		Eventually(ctx, held.kept.Load).Should(BeZero(), "requests whose runner has left")
		Expect(conditionsOf(ctx, "paused")).To(ContainElements(
			haveReason(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended),
			haveReason(v1alpha1.ConditionComplete, metav1.ConditionFalse, v1alpha1.ReasonSuspended, "2 of 4 shards")))
		asked := model.Calls()

		By("resuming it")
		held.release()
		Expect(model.Calls()).To(Equal(asked), "requests of the suspended run")
		resumed := time.Now()
		patch(ctx, "evalrun", "paused", `{"spec":{"suspend":false}}`)
		paused := awaitComplete(ctx, "paused")
		again := model.since(resumed)
		Expect(again).NotTo(BeEmpty())
		Expect(again).NotTo(ContainElement(WithTransform(func(c call) int { return held.places[c.seed].shard },
			BeNumerically("<", slow))), "calls for shards that were finished")
		// No request of the others had been answered.
		Expect(model.answeredTwice()).To(BeEmpty())
		Expect(paused.Status.Score).To(Equal(calm.Status.Score))
		Expect(paused.Status.Tasks).To(Equal(calm.Status.Tasks))
		Expect(paused.Status.Episodes).To(Equal(calm.Status.Episodes))
		Expect(model.wrong()).To(BeEmpty())
	}, SpecTimeout(specBound))
})

var _ = Describe("A budget", Ordered, func() {
	const answers = 60 // of 200
	inNamespace("csenv-e2e-budget")
	BeforeAll(func(ctx SpecContext) {
		createModelKey(ctx)
		apply(ctx, pooled("limited", "drainTimeoutSeconds: 5"))
		awaitPool(ctx, "limited")
	}, NodeTimeout(specBound))

	limits := map[string]string{
		"tokens": fmt.Sprintf("budget: {maxTokens: %d}", answers*(scripted.PromptTokens+scripted.CompletionTokens)),
		"money":  `budget: {maxCost: "0.0102"}`, // 170 millionths an answer
	}
	for _, what := range slices.Sorted(maps.Keys(limits)) {
		for _, parallelism := range []int64{1, 4, 16} {
			for _, concurrency := range []int64{1, 16} {
				It(fmt.Sprintf("of %s stops %d runners of %d sessions", what, parallelism, concurrency), func(ctx SpecContext) {
					name, model := fmt.Sprintf("%s-%d-%d", what, parallelism, concurrency), serveModel(ctx)
					apply(ctx, model.runManifest(name, "limited", []string{task("ticket-classify", 5)},
						fmt.Sprintf("parallelism: %d", parallelism), fmt.Sprintf("concurrency: %d", concurrency),
						`prices: {input: "1", output: "10"}`, limits[what]))
					Eventually(ctx, conditionsOf).WithArguments(name).Should(ContainElement(haveReason(
						v1alpha1.ConditionFailed, metav1.ConditionTrue, v1alpha1.ReasonBudgetExceeded)))
					obj := &v1alpha1.EvaluationRun{}
					Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)).To(Succeed())
					played := obj.Status.Episodes.Scored + obj.Status.Episodes.Failed
					AddReportEntry("overshoot", fmt.Sprintf("%d requests, cost %s", played-answers, obj.Status.Cost))
					Expect(played).To(And(BeNumerically(">=", answers), BeNumerically("<=", answers+parallelism)))
					Expect(obj.Status.Tokens).To(HaveValue(Equal(v1alpha1.Tokens{Prompt: played * scripted.PromptTokens,
						Completion: played * scripted.CompletionTokens})))
					Expect(obj.Status.Conditions).To(ContainElement(haveReason(v1alpha1.ConditionWithinBudget,
						map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[played == answers],
						map[bool]string{true: v1alpha1.ReasonWithinBudget, false: v1alpha1.ReasonBudgetExceeded}[played == answers])))
				}, SpecTimeout(specBound))
			}
		}
	}
})

// mood is the behaviour of the endpoint in an episode: errors that a retry within the attempt
// overcomes, or one at which the attempt fails. The zero value is no error.
type mood int

const (
	_ mood = iota
	// throttledLong asks for a longer pause than a runner makes within an attempt.
	throttledLong
	refusedOnce
	throttledOnce
	hungOnce
)

// moodOf is the mood in the episode that is the nth to be asked for, from 0: how many have which
// depends on the number of episodes alone. Each of the long pauses takes a runner 90 s.
func moodOf(n int) mood {
	moods := map[int]mood{0: throttledLong, 1: refusedOnce, 2: throttledOnce, 3: hungOnce, 17: refusedOnce,
		18: throttledOnce, 19: hungOnce}
	return moods[n%32]
}

// model is a scripted model on this machine's side of the node, with a record of its requests.
type model struct {
	*scripted.Endpoint
	url     string
	timeout int // of the runner's requests, in seconds

	mu     sync.Mutex
	calls  []call
	before map[int64]int // requests by the seed of their episode, those of rehearsals apart
	moods  map[int64]mood
	faults []string
}

// call is a request that the model answered.
type call struct {
	at    time.Time
	seed  int64
	turns int
}

// serveModel serves a model that plays like the heuristic policy, until the spec ends.
func serveModel(ctx SpecContext) *model {
	GinkgoHelper()
	plays, err := scripted.New(policy.Heuristic, nil)
	Expect(err).NotTo(HaveOccurred())
	m := &model{Endpoint: plays, timeout: modelTimeout, before: map[int64]int{}, moods: map[int64]mood{}}
	plays.Fault = func(err error) { m.complain(err.Error()) }
	plays.Shape = m.note
	server := httptest.NewUnstartedServer(plays)
	Expect(server.Listener.Close()).To(Succeed())
	server.Listener, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(hereAddress(ctx), "0"))
	Expect(err).NotTo(HaveOccurred())
	server.Start()
	DeferCleanup(server.Close)
	m.url = server.URL + "/v1"
	return m
}

// createModelKey creates the Secret of the runs that a model plays.
func createModelKey(ctx SpecContext) {
	GinkgoHelper()
	Expect(k8s.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "scripted"},
		StringData: map[string]string{"key": modelKey}})).To(Succeed())
}

// hereAddress returns this machine's address on the node's network, where pods can reach it.
func hereAddress(ctx SpecContext) string {
	GinkgoHelper()
	// Connecting a UDP socket sends no packet.
	conn, err := new(net.Dialer).DialContext(ctx, "udp", net.JoinHostPort(nodeAddress(ctx), "9"))
	Expect(err).NotTo(HaveOccurred())
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	Expect(err).NotTo(HaveOccurred())
	return host
}

// runManifest returns the manifest of a run that the model plays.
func (m *model) runManifest(name, pool string, tasks []string, extra ...string) string {
	agent := fmt.Sprintf("{type: OpenAI, openAI: {baseURL: %q, model: scripted, timeoutSeconds: %d, apiKeySecretRef: "+
		"{name: scripted, key: key}}}", m.url, m.timeout)
	return agentManifest(name, pool, agent, tasks, extra...)
}

// moody throttles, refuses or hangs, depending on the episode's mood. It does nothing to a
// rehearsal, which is no episode.
func (m *model) moody(w http.ResponseWriter, r *http.Request, asked scripted.Request) bool {
	if asked.Rehearsal() {
		return false
	}
	m.mu.Lock()
	n, known := m.before[asked.Seed]
	if !known {
		m.moods[asked.Seed] = moodOf(len(m.before))
	}
	m.before[asked.Seed]++
	is := m.moods[asked.Seed]
	m.mu.Unlock()
	switch {
	case is == throttledLong && n == 0:
		w.Header().Set("Retry-After", fmt.Sprint(1+int(endpoint.LongestAsked.Seconds())))
		w.WriteHeader(http.StatusTooManyRequests)
	case is == throttledOnce && n == 1:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	case is == refusedOnce && n == 0:
		w.WriteHeader(http.StatusForbidden)
	case is == hungOnce && n == 1:
		pause(r.Context(), 10*modelTimeout*time.Second)
	default:
		return false
	}
	return true
}

// note records a request of an episode that is about to be answered.
func (m *model) note(asked scripted.Request, _ map[string]any) {
	if asked.Key != modelKey {
		m.complain("asked without the key")
	}
	if asked.Rehearsal() { // whose tokens aren't counted
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, call{at: time.Now(), seed: asked.Seed, turns: len(asked.Messages)})
}

func (m *model) complain(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, what)
}

// wrong lists the requests that no agent should have sent.
func (m *model) wrong() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.faults)
}

// since returns the requests that were answered after that time.
func (m *model) since(then time.Time) []call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.calls), func(c call) bool { return c.at.Before(then) })
}

func (m *model) answers() int64 { return int64(len(m.since(time.Time{}))) }

// answeredTwice returns the seeds of the episodes in which a turn was answered more than once.
func (m *model) answeredTwice() []int64 {
	seen, twice := map[[2]int64]bool{}, map[int64]bool{}
	for _, c := range m.since(time.Time{}) {
		turn := [2]int64{c.seed, int64(c.turns)}
		if seen[turn] {
			twice[c.seed] = true
		}
		seen[turn] = true
	}
	return slices.Sorted(maps.Keys(twice))
}

// episodesOf returns the number of episodes of that mood that the model was requested to play.
func (m *model) episodesOf(is mood) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := int64(0)
	for _, of := range m.moods {
		if of == is {
			n++
		}
	}
	return n
}

func (m *model) String() string {
	return fmt.Sprintf("%d requests, %d answered; attempts given up: %d throttled, %d refused; mended within one: %d "+
		"throttled, %d hung",
		m.Calls(), m.answers(), m.episodesOf(throttledLong), m.episodesOf(refusedOnce), m.episodesOf(
			throttledOnce), m.episodesOf(hungOnce))
}
