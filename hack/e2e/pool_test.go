//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/objects"
	envclient "github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// liveSessions is the number of sessions that play while servers come and go.
	liveSessions = 300
	// thinking is the time before each action of the crowd. An episode has three or four actions.
	thinking = 3 * time.Second
)

var _ = Describe("A pool with 300 live sessions", Ordered, func() {
	inNamespace("csenv-e2e-live")
	var players *crowd
	var began time.Time

	BeforeAll(func(ctx SpecContext) {
		Expect(k8s.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "live"},
			Data: packFiles()})).To(Succeed())
		apply(ctx, pooled("live", "replicas: 3", "sessions: {perPod: 400}", "drainTimeoutSeconds: 60",
			"service: {type: NodePort}",
			"scenarios: {packs: [{configMap: {name: live}}]}"))
		stream(ctx, clusterTool, "load", "--image", "csenv:rolled-out")
		awaitServers(ctx, "live", 3)
		players = gather(ctx, nodeURL(ctx, "live"), "", liveSessions, thinking)
		began = time.Now()
	}, NodeTimeout(specBound))

	// Before each spec the sessions are spread over all servers again: a new session may start on
	// any server.
	BeforeEach(func(ctx SpecContext) {
		Eventually(ctx, sessionsByPod).WithArguments("live").Should(
			And(HaveLen(3), HaveEach(BeNumerically(">=", liveSessions/6))))
	})

	// undisturbed checks that no client lost a session.
	undisturbed := func(ctx SpecContext, what string, episodes int64) {
		GinkgoHelper()
		AddReportEntry(what,
			fmt.Sprintf("after %s: %s; %d of these episodes since it began; %d play now, by server: %v",
				time.Since(began).Round(
					time.Second), players, players.episodes.Load()-episodes, players.playing.Load(), sessionsByPod(
					ctx, "live")))
		Expect(players.losses()).To(BeEmpty())
		Eventually(ctx, players.playing.Load).Should(BeNumerically(">=", liveSessions*9/10), "clients with a server")
	}

	It("loses none when its image changes", func(ctx SpecContext) {
		episodes := players.episodes.Load()
		patch(ctx, "cse", "live", `{"spec":{"image":"csenv:rolled-out"}}`)
		awaitServers(ctx, "live", 3, HaveField("Spec.Containers",
			ContainElement(HaveField("Image", "csenv:rolled-out"))))
		undisturbed(ctx, "rolled out another image", episodes)
	}, SpecTimeout(specBound))

	It("loses none when it is scaled from 3 servers to 1", func(ctx SpecContext) {
		episodes := players.episodes.Load()
		before := sessionsByPod(ctx, "live")
		kubectl(ctx, "-n", namespace, "scale", "cse", "live", "--replicas=1")
		awaitServers(ctx, "live", 1)
		undisturbed(ctx, fmt.Sprintf("scaled from 3 to 1, with sessions by server %v", before), episodes)
		kubectl(ctx, "-n", namespace, "scale", "cse", "live", "--replicas=3")
		awaitServers(ctx, "live", 3)
	}, SpecTimeout(specBound))

	It("loses none when every server is evicted, as kubectl drain does", func(ctx SpecContext) {
		episodes := players.episodes.Load()
		before := podNames(serversOf(ctx, "live"))
		refused := 0
		for _, pod := range serversOf(ctx, "live") {
			Eventually(ctx, func() error {
				err := k8s.SubResource("eviction").Create(ctx, &pod, &policyv1.Eviction{})
				if apierrors.IsTooManyRequests(err) {
					refused++
				}
				return err
			}).Should(Succeed())
		}
		awaitServers(ctx, "live", 3, HaveField("Name", Not(BeElementOf(before))))
		undisturbed(ctx, fmt.Sprintf("evicted all 3 servers, the budget having put it off %d times", refused), episodes)
	}, SpecTimeout(specBound))

	It("loses none when a pack changes, and keeps the old pack if the new one is faulty",
		func(ctx SpecContext) {
			episodes := players.episodes.Load()
			before, was := podNames(serversOf(ctx, "live")), poolNamed(ctx, "live").Status.ScenarioDigest
			changePack(ctx, func(files map[string]string) {
				files["ACME-1.yaml"] = strings.Replace(files["ACME-1.yaml"], "language: en", "langage: en", 1)
			})
			Eventually(ctx, func(g Gomega) {
				g.Expect(poolNamed(ctx, "live").Status.Conditions).To(ContainElement(
					And(haveCondition(v1alpha1.ConditionDegraded, metav1.ConditionTrue),
						HaveField("Message", MatchRegexp(`ACME-1\.yaml:\d+: .*langage`)))))
			}).Should(Succeed())
			Expect(podNames(serversOf(ctx, "live"))).To(ConsistOf(before))

			changePack(ctx, func(files map[string]string) { files["POL-SLA.md"] += "\nHolidays count as days.\n" })
			// Packs are rolled out no sooner than two minutes after the last rolling update.
			Eventually(ctx, poolNamed).WithArguments("live").WithTimeout(2 * bound).Should(
				HaveField("Status.ScenarioDigest", Not(Equal(was))))
			awaitServers(ctx, "live", 3, HaveField("Name", Not(BeElementOf(before))))
			undisturbed(ctx, "refused a faulty pack and rolled out a sound one", episodes)
		}, SpecTimeout(specBound))

	It("lets every client finish its episode", func(ctx SpecContext) {
		players.leave(ctx)
		AddReportEntry("in the end", fmt.Sprintf("after %s: %s", time.Since(began).Round(time.Second), players))
		Expect(players.losses()).To(BeEmpty())
		Expect(players.episodes.Load()).To(BeNumerically(">", liveSessions))
	}, SpecTimeout(specBound))
})

var _ = Describe("A pool that scales itself", Ordered, func() {
	inNamespace("csenv-e2e-elastic")
	It("grows when it crosses its buffer, and shrinks after the delay", func(ctx SpecContext) {
		apply(ctx, pooled("elastic", "sessions: {perPod: 20}", "drainTimeoutSeconds: 30", "service: {type: NodePort}",
			"autoscaling: {minReplicas: 1, maxReplicas: 3, freeSessions: 5, scaleDownDelaySeconds: 10}"))
		awaitServers(ctx, "elastic", 1)
		players := gather(ctx, nodeURL(ctx, "elastic"), "", 12, thinking)
		Expect(wanted(ctx, "elastic")).To(BeEquivalentTo(1), "8 free sessions are enough")

		// After this moment at most six more clients leave fewer than 5 sessions free.
		joined := time.Now()
		players.join(ctx, 6)
		Eventually(ctx, wanted).WithArguments("elastic").Should(BeNumerically(">=", 2))
		AddReportEntry("grew", time.Since(joined).Round(
			100*time.Millisecond).String()+" after 6 clients began to join 12, which leaves 2 sessions free")
		awaitServers(ctx, "elastic", 2)

		players.leave(ctx)
		left := time.Now()
		Eventually(ctx, wanted).WithArguments("elastic").Should(BeEquivalentTo(1))
		took := time.Since(left)
		AddReportEntry("shrank",
			took.Round(
				100*time.Millisecond).String()+" after the last session, with a delay of 10 s; "+players.String())
		Expect(players.losses()).To(BeEmpty())
	}, SpecTimeout(specBound))
})

var _ = Describe("A pool with access control", Ordered, func() {
	inNamespace("csenv-e2e-guarded")
	var url string

	BeforeAll(func(ctx SpecContext) {
		Expect(k8s.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tokens"},
			StringData: map[string]string{"token": "right\n"}})).To(Succeed())
		apply(ctx, pooled("guarded", "drainTimeoutSeconds: 5", "service: {type: NodePort}",
			"access: {tokenSecretRef: {name: tokens, key: token}}"))
		awaitServers(ctx, "guarded", 1)
		url = nodeURL(ctx, "guarded")
	}, NodeTimeout(specBound))

	It("refuses a wrong token, a plain HTTP client and a message of 100 MB, and keeps serving", func(ctx SpecContext) {
		bystander, err := envclient.Dial(ctx, url, envclient.Options{Token: "right"})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(bystander.Close)
		_, err = bystander.Reset(ctx, map[string]any{"seed": 1})
		Expect(err).NotTo(HaveOccurred())

		for _, token := range []string{"wrong", ""} {
			_, err := envclient.Dial(ctx, url, envclient.Options{Token: token})
			Expect(statusOf(err)).To(Equal(http.StatusUnauthorized), "token %q: %v", token, err)
			Expect(err).To(MatchError(ContainSubstring("is the token right?")))
		}

		response, err := get(ctx, strings.Replace(url, "ws://", "http://", 1)+"/ws")
		Expect(err).NotTo(HaveOccurred())
		Expect(response.Body.Close()).To(Succeed())
		Expect(response.StatusCode).To(Equal(http.StatusUnauthorized))

		conn, _, err := websocket.DefaultDialer.DialContext(ctx, url+"/ws",
			http.Header{"Authorization": {"Bearer right"}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		Expect(conn.SetReadDeadline(time.Now().Add(30 * time.Second))).To(Succeed())
		// The server closes the connection before it has read the whole message, so the write may
		// fail too.
		_ = conn.WriteMessage(websocket.TextMessage,
			[]byte(`{"type":"step","data":{"text":"`+strings.Repeat("x", 100<<20)+`"}}`))
		_, answer, err := conn.ReadMessage()
		AddReportEntry("a message of 100 MB", fmt.Sprintf("answer %q, error %v", answer, err))
		Expect(err).To(HaveOccurred())

		_, err = bystander.State(ctx)
		Expect(err).NotTo(HaveOccurred(), "the session of another client")
		Expect(serverPod(ctx, "guarded").Status.ContainerStatuses).To(HaveEach(HaveField("RestartCount", BeZero())))
	}, SpecTimeout(specBound))

	It("holds a run from a namespace that is not admitted, and reports the reason", func(ctx SpecContext) {
		stranger := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: namespace + "-stranger-"}}
		Expect(k8s.Create(ctx, stranger)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(k8s.Delete(ctx, stranger)).To(Succeed()) })
		run := &v1alpha1.EvaluationRun{
			ObjectMeta: metav1.ObjectMeta{Namespace: stranger.Name, Name: "stranger"},
			Spec: v1alpha1.EvaluationRunSpec{
				EnvironmentRef: v1alpha1.EnvironmentReference{Name: "guarded", Namespace: namespace},
				Agent: v1alpha1.Agent{Type: v1alpha1.BuiltinAgent,
					Builtin: &v1alpha1.BuiltinAgentSpec{Policy: v1alpha1.NoopPolicy}},
				Tasks: []v1alpha1.TaskSelection{{Name: "ticket-classify"}},
			},
		}
		Expect(k8s.Create(ctx, run)).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(run), run)).To(Succeed())
			g.Expect(run.Status.Conditions).To(ContainElement(
				haveReason(v1alpha1.ConditionEnvironmentReady, metav1.ConditionFalse,
					v1alpha1.ReasonNamespaceNotAllowed, "allowedNamespaces")))
		}).Should(Succeed())
	}, SpecTimeout(specBound))
})

// pooled returns the manifest of a pool of tickets with that spec.
func pooled(name string, spec ...string) string {
	return fmt.Sprintf("apiVersion: csenv.dev/v1alpha1\nkind: CustomerSupportEnv\nmetadata: {name: %s}\nspec:\n  %s\n",
		name, strings.Join(spec, "\n  "))
}

// changePack changes the ConfigMap of the pool live, and then a pod, because the kubelet reads
// ConfigMaps only once a minute and when a pod changes.
func changePack(ctx SpecContext, change func(files map[string]string)) {
	GinkgoHelper()
	pack := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "live"}, Data: packFiles()}
	change(pack.Data)
	Expect(k8s.Update(ctx, pack)).To(Succeed())
	kubectl(ctx, "-n", namespace, "annotate", "pods", "-l", v1alpha1.LabelEnvironment+"=live", "--overwrite",
		"csenv.dev/looked-at="+time.Now().Format("150405"))
}

func poolNamed(ctx SpecContext, name string) *v1alpha1.CustomerSupportEnv {
	GinkgoHelper()
	env := &v1alpha1.CustomerSupportEnv{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, env)).To(Succeed())
	return env
}

// serversOf lists the pool's pods, including terminating ones.
func serversOf(ctx SpecContext, pool string) []corev1.Pod {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(k8s.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels{
		v1alpha1.LabelEnvironment: pool, v1alpha1.LabelComponent: v1alpha1.ComponentEnvServer,
	})).To(Succeed())
	return pods.Items
}

func podNames(pods []corev1.Pod) []string {
	names := make([]string, len(pods))
	for i, pod := range pods {
		names[i] = pod.Name
	}
	return names
}

// awaitServers waits until the pool has exactly n servers, all of them ready and matching, no
// terminating one, and a status that reports n.
func awaitServers(ctx SpecContext, pool string, n int, like ...OmegaMatcher) {
	GinkgoHelper()
	each := And(append(like, beReady(), HaveField("DeletionTimestamp", BeNil()))...)
	Eventually(ctx, func(g Gomega) {
		g.Expect(serversOf(ctx, pool)).To(And(HaveLen(n), HaveEach(each)))
		env := poolNamed(ctx, pool)
		g.Expect(meta.IsStatusConditionTrue(env.Status.Conditions, v1alpha1.ConditionAvailable)).To(BeTrue())
		g.Expect(env.Status.ReadyReplicas).To(HaveValue(BeEquivalentTo(n)))
	}).Should(Succeed())
}

// beReady matches a pod that is ready.
func beReady() OmegaMatcher {
	return HaveField("Status.Conditions", ContainElement(And(HaveField("Type", corev1.PodReady),
		HaveField("Status", corev1.ConditionTrue))))
}

// wanted returns the replicas of the pool's Deployment.
func wanted(ctx SpecContext, pool string) int32 {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: pool}, deployment)).To(Succeed())
	return *deployment.Spec.Replicas
}

// nodeURL returns the URL of the pool's Service on the node, which this machine can reach in every
// kind of cluster.
func nodeURL(ctx SpecContext, pool string) string {
	GinkgoHelper()
	service := &corev1.Service{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: pool}, service)).To(Succeed())
	Expect(service.Spec.Ports).NotTo(BeEmpty())
	Expect(service.Spec.Ports[0].NodePort).NotTo(BeZero())
	address := net.JoinHostPort(nodeAddress(ctx), strconv.Itoa(int(service.Spec.Ports[0].NodePort)))
	// The node forwards connections only some time after the server is ready.
	Eventually(ctx, func() error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}).Should(Succeed())
	return "ws://" + address
}

// nodeAddress returns the node's internal address.
func nodeAddress(ctx SpecContext) string {
	GinkgoHelper()
	nodes := &corev1.NodeList{}
	Expect(k8s.List(ctx, nodes)).To(Succeed())
	Expect(nodes.Items).NotTo(BeEmpty())
	addresses := nodes.Items[0].Status.Addresses
	internal := slices.IndexFunc(addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
	Expect(internal).NotTo(Equal(-1), "the node has no address: %v", addresses)
	return addresses[internal].Address
}

// sessionsByPod reads the number of sessions of every server of the pool, through the API server.
// It leaves out servers that end meanwhile.
func sessionsByPod(ctx SpecContext, pool string) map[string]int64 {
	GinkgoHelper()
	sessions := map[string]int64{}
	env := &v1alpha1.CustomerSupportEnv{}
	name := client.ObjectKey{Namespace: namespace, Name: pool}
	Expect(k8s.Get(ctx, name, env)).To(Succeed())
	secrets, err := objects.NewKeyReader(k8s).Secrets(ctx, name, env.Status.LedgerPublicKey)
	Expect(err).NotTo(HaveOccurred())
	for _, pod := range serversOf(ctx, pool) {
		var report score.Report
		request, ok := kube.CoreV1().Pods(namespace).ProxyGet("http", pod.Name, strconv.Itoa(v1alpha1.OperationsPort),
			"/stats", nil).(*rest.Request)
		Expect(ok).To(BeTrue())
		_, without := request.DoRaw(ctx)
		said, err := request.SetHeader(protocol.TokenHeader, secrets.Operations).DoRaw(ctx)
		if err != nil {
			ended := !exists(ctx, client.ObjectKeyFromObject(&pod), &pod) || pod.DeletionTimestamp != nil
			Expect(ended).To(BeTrue(), "%s: %v", pod.Name, err)
			continue
		}
		Expect(apierrors.IsUnauthorized(without)).To(BeTrue(), "without the token: %v", without)
		Expect(json.Unmarshal(said, &report)).To(Succeed())
		sessions[pod.Name] = report.Sessions.Active
	}
	return sessions
}
