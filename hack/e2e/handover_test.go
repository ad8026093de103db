//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// briefSessions is the number of episodes that wait while their servers are replaced.
const briefSessions = 100

var _ = Describe("A pool whose drain timeout is shorter than its sessions", Ordered, func() {
	inNamespace("csenv-e2e-handover")

	// replace begins episodes, replaces every server, and then plays the episodes to their ends. It
	// returns how many were lost.
	replace := func(ctx SpecContext, policy string) int {
		GinkgoHelper()
		name := "brief-" + strings.ToLower(policy)
		apply(ctx, pooled(name, "replicas: 3", "sessions: {perPod: 200}", "drainTimeoutSeconds: 5",
			"service: {type: NodePort}", "drainPolicy: "+policy))
		awaitServers(ctx, name, 3)
		url := nodeURL(ctx, name)
		var held []*episode
		for seed := range briefSessions {
			e, err := begin(ctx, url, "", seed)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(e.session.Close)
			Expect(e.act(ctx)).To(Succeed())
			held = append(held, e)
		}
		before, began := podNames(serversOf(ctx, name)), time.Now()
		patch(ctx, "cse", name, `{"spec":{"template":{"annotations":{"example.com/rolled-out":"true"}}}}`)
		awaitServers(ctx, name, 3, HaveField("Name", Not(BeElementOf(before))))
		Eventually(ctx, func() []corev1.Pod { return serversOf(ctx, name) }).Should(HaveLen(3))
		took := time.Since(began)

		var mu sync.Mutex
		var ends sync.WaitGroup
		lost := 0
		var last error
		for _, e := range held {
			ends.Go(func() {
				if _, err := e.finish(context.WithoutCancel(ctx), 0); err != nil {
					mu.Lock()
					lost, last = lost+1, err
					mu.Unlock()
				}
			})
		}
		ends.Wait()
		AddReportEntry(policy, fmt.Sprintf("%d of %d sessions were lost in a rolling update of %s, last: %v", lost,
			briefSessions, took.Round(time.Second), last))
		return lost
	}

	It("cuts sessions by default", func(ctx SpecContext) {
		Expect(replace(ctx, "Cut")).To(Equal(briefSessions))
	}, SpecTimeout(specBound))

	It("loses none with drainPolicy HandOver", func(ctx SpecContext) {
		Expect(replace(ctx, "HandOver")).To(BeZero())
	}, SpecTimeout(specBound))
})
