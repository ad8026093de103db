//go:build e2e

package e2e

import (
	"context"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// smokeSessions is the number of sessions that are held during a rolling update.
const smokeSessions = 50

// The shortest life of an installation. What each spec disturbs is held until the disturbance is
// over, so no clock decides.
var _ = Describe("An installation from its beginning to its end", Ordered, Serial, Label("smoke"), func() {
	var before []string

	BeforeAll(func(ctx SpecContext) {
		namespace = "csenv-smoke"
		if exists(ctx, client.ObjectKey{Name: systemNamespace}, &corev1.Namespace{}) {
			undeploy(ctx)
		}
		deleteNamespace(ctx)
		before = allObjects(ctx)
		DeferCleanup(deleteNamespace, NodeTimeout(specBound))
	}, NodeTimeout(specBound))

	It("installs with config/default", func(ctx SpecContext) {
		installOperator(ctx)
		Eventually(ctx, leader).Should(BeElementOf(operatorPods(ctx)), "the pod that holds the Lease")
		createNamespace(ctx)
		createModelKey(ctx)
	}, SpecTimeout(specBound))

	It("gives the samples the scores that the guide shows", func(ctx SpecContext) {
		playSamples(ctx)
	}, SpecTimeout(specBound))

	It("cuts none of 50 live sessions when every server is replaced", func(ctx SpecContext) {
		apply(ctx, pooled("live", "replicas: 2", "service: {type: NodePort}"))
		awaitServers(ctx, "live", 2)
		url := nodeURL(ctx, "live")
		episodes := make([]*episode, smokeSessions)
		for i := range episodes {
			var err error
			episodes[i], err = begin(ctx, url, "", i)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(episodes[i].session.Close)
			Expect(episodes[i].act(ctx)).To(Succeed())
		}
		old := podNames(serversOf(ctx, "live"))

		By("replacing the servers while the sessions are held")
		patch(ctx, "cse", "live", `{"spec":{"template":{"annotations":{"example.com/rolled-out":"true"}}}}`)
		isNew := HaveField("Name", Not(BeElementOf(old)))
		Eventually(ctx, func(g Gomega) {
			servers := serversOf(ctx, "live")
			g.Expect(servers).To(HaveEach(Or(HaveField("DeletionTimestamp", Not(BeNil())), And(beReady(), isNew))))
			g.Expect(servers).To(ContainElements(isNew, isNew))
		}).Should(Succeed(), "two new servers that are ready, and old ones that end")
		Eventually(ctx, func() int64 {
			sessions := sessionsByPod(ctx, "live")
			return sessions[old[0]] + sessions[old[1]]
		}).Should(BeEquivalentTo(smokeSessions), "sessions of the old servers")

		By("playing every session to its end")
		for _, e := range episodes {
			_, err := e.finish(ctx, 0)
			Expect(err).NotTo(HaveOccurred())
			Expect(e.session.Close()).To(Succeed())
		}
		awaitServers(ctx, "live", 2, HaveField("Name", Not(BeElementOf(old))))
	}, SpecTimeout(specBound))

	It("gives a run whose manager is killed the figures of an undisturbed run", func(ctx SpecContext) {
		tasks, spec := []string{task("ticket-resolve", 2)}, []string{"seed: 9", "parallelism: 4", "concurrency: 4"}
		apply(ctx, serveModel(ctx).runManifest("peace", "support", tasks, spec...))
		peace := awaitComplete(ctx, "peace")

		model := serveModel(ctx)
		held := model.hold(func(p place) bool { return p.shard >= 2 })
		apply(ctx, model.runManifest("war", "support", tasks, spec...))
		held.await(ctx, "war")
		Eventually(ctx, counted).WithArguments("war").Should(Equal("0-1"))
		k := &killer{dead: map[string]bool{}}
		k.strike(ctx, func() bool { return true })
		if local {
			Expect(k.hits).To(BeNumerically(">", 0), "the SIGKILLs that hit a manager")
		}
		Expect(over(ctx, "war")).To(BeFalse())
		held.release()
		war := awaitComplete(ctx, "war")

		expectFigures(war, peace)
		Expect(war.Status.Episodes).To(Equal(peace.Status.Episodes))
		Expect(model.wrong()).To(BeEmpty())
	}, SpecTimeout(specBound))

	It("deletes a run under way and a pool, and leaves nothing of all others behind", func(ctx SpecContext) {
		playHeld(ctx, "midflight", "support")
		kubectl(ctx, "-n", namespace, "delete", "evalrun/midflight", "cse/live", timeout)
		Eventually(ctx, belongings).ShouldNot(ContainElement(Or(ContainSubstring("midflight"), ContainSubstring("live"))))
		Expect(awaitComplete(ctx, "war").Status.Shards.CompletedIndexes).To(Equal("0-3"), "another run")
		awaitPool(ctx, "support")

		kubectl(ctx, "-n", namespace, "delete", "evalrun,cse", "--all", timeout)
		Eventually(ctx, belongings).Should(ConsistOf("ConfigMap kube-root-ca.crt", "ServiceAccount default",
			"Secret scripted"))
	}, SpecTimeout(specBound))

	It("leaves nothing behind when it is removed while a run is under way", func(ctx SpecContext) {
		apply(ctx, poolManifest("last", "Ticket"))
		awaitPool(ctx, "last")
		playHeld(ctx, "last", "last")
		undeploy(ctx)
		Eventually(ctx, belongings).ShouldNot(ContainElement(ContainSubstring("last")))
		deleteNamespace(ctx)
		Eventually(ctx, func() []string {
			return slices.DeleteFunc(objectsBeside(ctx, before), func(object string) bool {
				return !strings.Contains(object, "csenv") || ofNode.MatchString(object)
			})
		}).Should(BeEmpty(), "objects of csenv")
	}, SpecTimeout(specBound))
})

// ofNode matches the objects of a node, which may be called csenv.
var ofNode = regexp.MustCompile(`^(Node|CSINode|Lease kube-node-lease) `)

// undeploy removes csenv as users do.
func undeploy(ctx context.Context) {
	GinkgoHelper()
	removeRunsAndPools(ctx)
	kubectl(ctx, "delete", "--ignore-not-found", "-k", "../../config/default", timeout)
	installed = false
}

// belongings lists the objects of the namespace.
func belongings(ctx context.Context) (objects []string) {
	GinkgoHelper()
	for _, object := range allObjects(ctx) {
		if fields := strings.Fields(object); len(fields) == 3 && fields[1] == namespace {
			objects = append(objects, fields[0]+" "+fields[2])
		}
	}
	return objects
}
