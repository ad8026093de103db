//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/hack/browser"
)

// uiService is the Service of config/ui.
const uiService = "csenv-ui"

// The pages are read through the API server's proxy.
var _ = Describe("The web pages in the cluster", Ordered, Label("ui"), func() {
	inNamespace("csenv-e2e-ui")
	BeforeAll(func(ctx SpecContext) {
		apply(ctx, poolManifest("shown", "Ticket"))
		awaitPool(ctx, "shown")
		createModelKey(ctx)
		kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-k", "../../config/ui")
		DeferCleanup(func(ctx SpecContext) {
			kubectl(ctx, "delete", "--ignore-not-found", "-k", "../../config/ui")
		}, NodeTimeout(specBound))
		kubectl(ctx, "-n", systemNamespace, "rollout", "restart", "deployment/csenv-ui")
		kubectl(ctx, "-n", systemNamespace, "rollout", "status", "deployment/csenv-ui", timeout)
	}, NodeTimeout(specBound))

	It("show pools and follow a run to its score", func(ctx SpecContext) {
		Eventually(ctx, uiPage).WithArguments("").Should(
			And(ContainSubstring(">shown</th>"), ContainSubstring(v1alpha1.ReasonServersReady)))
		updates := uiStream(ctx, "live")
		apply(ctx, runManifest("shown-run", "shown", "Heuristic", []string{task("ticket-resolve", 2)}))
		Eventually(ctx, updates).Should(gbytes.Say("shown-run"))
		mean := awaitComplete(ctx, "shown-run").Status.Score.Mean
		Eventually(ctx, updates).Should(gbytes.Say(mean))
		Expect(uiPage(ctx, "")).To(And(ContainSubstring("shown-run"), ContainSubstring("<div>80</div>"),
			ContainSubstring(mean)))
		Expect(uiPage(ctx, "leaderboard")).To(ContainSubstring("shown-run"))
	}, SpecTimeout(specBound))

	It("change in a browser while a run plays", func(ctx SpecContext) {
		if _, err := browser.FindChromium(); err != nil {
			Skip(err.Error())
		}
		site, err := browser.ServeWith(context.WithoutCancel(ctx), csenvTool(ctx), os.Environ(), "-n", namespace, "--kubeconfig",
			strings.TrimSpace(run(ctx, clusterTool, "kubeconfig")))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(site.Stop(10 * time.Second)).To(Succeed()) })
		b, err := browser.Start(context.WithoutCancel(ctx))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(b.Stop)
		tab, err := b.Open(browser.Looks[0], site.URL)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(tab.Close)
		held := playHeld(ctx, "watched-run", "shown")
		Expect(tab.Load("/")).To(BeEquivalentTo(200))
		link := `document.querySelector("main a[href*='watched-run']")`
		Expect(tab.Await(link+" !== null", time.Minute)).To(Succeed())
		path, err := browser.Eval[string](tab, link+".pathname")
		Expect(err).NotTo(HaveOccurred())
		Expect(tab.Load(path)).To(BeEquivalentTo(200))
		_, err = browser.Eval[bool](tab, "window.__opened = true")
		Expect(err).NotTo(HaveOccurred())
		held.release()
		mean := awaitComplete(ctx, "watched-run").Status.Score.Mean
		// The page was never loaded again.
		Expect(tab.Await(fmt.Sprintf("window.__opened && document.body.innerText.includes(%q)", mean),
			time.Minute)).To(Succeed())
		Expect(tab.Faults()).To(BeEmpty())
	}, SpecTimeout(specBound))

	It("are read with rights on pools and runs only", func(ctx SpecContext) {
		for _, tt := range []struct {
			group, resource, verb string
			allowed               bool
		}{
			{v1alpha1.GroupVersion.Group, "customersupportenvs", "list", true},
			{v1alpha1.GroupVersion.Group, "evaluationruns", "watch", true},
			{v1alpha1.GroupVersion.Group, "evaluationruns", "patch", false},
			{"", "secrets", "get", false},
			{"", "configmaps", "get", false},
			{"", "pods", "list", false},
			{"", "pods/log", "get", false},
		} {
			resource, subresource, _ := strings.Cut(tt.resource, "/")
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:   "system:serviceaccount:" + systemNamespace + ":csenv-ui",
				Groups: []string{"system:serviceaccounts", "system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Group: tt.group,
					Resource: resource, Subresource: subresource, Verb: tt.verb},
			}}
			Expect(k8s.Create(ctx, review)).To(Succeed())
			Expect(review.Status.Allowed).To(Equal(tt.allowed), "%s %s", tt.verb, tt.resource)
		}
	}, SpecTimeout(specBound))

	It("hide episodes in public mode", func(ctx SpecContext) {
		kubectl(ctx, "-n", systemNamespace, "patch", "deployment", "csenv-ui", "--type=json", "-p",
			`[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--public"}]`)
		kubectl(ctx, "-n", systemNamespace, "rollout", "status", "deployment/csenv-ui", timeout)
		Eventually(ctx, uiPage).WithArguments("").Should(
			And(ContainSubstring("shown-run"), Not(ContainSubstring(`href="/compare"`))))
		_, err := uiRequest(ctx, "compare")
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(specBound))
})

// uiRequest requests a path of the pages.
func uiRequest(ctx context.Context, path string) (io.ReadCloser, error) {
	return kube.CoreV1().Services(systemNamespace).ProxyGet("http", uiService, "http", path, nil).Stream(ctx)
}

// uiPage reads a page, "" if it can't be read.
func uiPage(ctx context.Context, path string) string {
	body, err := uiRequest(ctx, path)
	if err != nil {
		return ""
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		return ""
	}
	return string(text)
}

// uiStream collects what the updates of a page send.
func uiStream(ctx context.Context, path string) *gbytes.Buffer {
	GinkgoHelper()
	streaming, stop := context.WithCancel(ctx)
	body, err := uiRequest(streaming, path)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		stop()
		_ = body.Close()
	})
	return gbytes.BufferReader(body)
}
