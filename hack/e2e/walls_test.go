//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A team that has the role csenv-team in its namespace, and no other right, plays on the RunsOnly
// pool of a host's namespace, and tries what would raise its place or show it a secret.
var _ = Describe("The walls between a host and a team", Ordered, Label("walls"), func() {
	const host, team = "csenv-e2e-walls-host", "csenv-e2e-walls-team"
	inNamespace(team)

	BeforeAll(func(ctx SpecContext) {
		createHost(ctx, host)
		DeferCleanup(func(ctx SpecContext) {
			doomed := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: host}}
			Expect(client.IgnoreNotFound(k8s.Delete(ctx, doomed))).To(Succeed())
		})
		bindTeam(ctx)
		// The judge's key is the host's. It is here because both are sent to one model in this
		// spec.
		createModelKey(ctx)
	}, NodeTimeout(specBound))

	onHost := func(name, agent string, extra ...string) string {
		return strings.Replace(agentManifest(name, "acme", agent, []string{task("ticket-classify", 1)}, extra...),
			"environmentRef: {name: acme}", "environmentRef: {name: acme, namespace: "+host+"}", 1)
	}
	builtin := func(name string, extra ...string) string {
		return onHost(name, "{type: Builtin, builtin: {policy: Heuristic}}", extra...)
	}

	It("let it create a run and read its scores, and count its runs", func(ctx SpecContext) {
		for _, name := range []string{"first", "second"} {
			Expect(asTeam(ctx, builtin(name), "apply", "-f", "-")).To(ContainSubstring("created"))
			awaitComplete(ctx, name)
		}
		Expect(asTeam(ctx, "", "get", "configmap", "first-scores", "-o", "name")).To(ContainSubstring("first-scores"))
		Expect(asTeam(ctx, "", "delete", "evalrun", "second")).To(ContainSubstring("deleted"))
		boards := leaderboard(ctx)
		Expect(boards[0].Basis).To(HavePrefix("pool " + host + "/acme, key "))
		Expect(boards[0].Entries[0].Runs).To(BeEquivalentTo(1))
		Expect(boards[0].Entries[0].Begun).To(BeEquivalentTo(2))
	}, SpecTimeout(specBound))

	DescribeTable("refuse what a run's author may not set",
		func(ctx SpecContext, manifest string, words ...string) {
			said := refusedToTeam(ctx, manifest, "apply", "-f", "-")
			for _, word := range words {
				Expect(said).To(ContainSubstring(word))
			}
		},
		Entry("a program in the runner's container", builtin("program",
			`results: {url: "s3://evals/x?region=eu-central-1"}`,
			"template: {env: [{name: PATH, value: /mnt/x}, {name: AWS_CONFIG_FILE, value: /mnt/x/config}], "+
				"volumes: [{name: x, emptyDir: {}}], volumeMounts: [{name: x, mountPath: /mnt/x}]}"), "template.env"),
		Entry("the log of the judge's key", builtin("logged",
			"template: {env: [{name: GODEBUG, value: http2debug=1}]}"), "template.env"),
	)

	It("refuse the judge's key through a proxy of the run's author", func(ctx SpecContext) {
		model := serveModel(ctx)
		judged := fmt.Sprintf(`
apiVersion: csenv.dev/v1alpha1
kind: CustomerSupportEnv
metadata: {name: judged}
spec:
  environment: Ticket
  judge: {type: LLM, llm: {baseURL: %q, model: judge, apiKeySecretRef: {name: scripted, key: key}}}
`, model.url)
		apply(ctx, judged)
		agent := fmt.Sprintf("{type: OpenAI, openAI: {baseURL: %q, model: player, apiKeySecretRef: {name: scripted, "+
			"key: key}}}", model.url)
		asTeam(ctx, agentManifest("proxied", "judged", agent, []string{task("ticket-classify", 1)},
			"template: {env: [{name: HTTPS_PROXY, value: 'http://proxy.example:3128'}]}"), "apply", "-f", "-")
		Eventually(ctx, conditionsOf).WithArguments("proxied").Should(ContainElement(
			HaveField("Message", ContainSubstring("HTTPS_PROXY"))))
		Expect(podsOf(ctx, "proxied")).To(BeEmpty())
		// The key is the judge's no longer, so the specs below may play with it.
		kubectl(ctx, "-n", namespace, "delete", "cse", "judged")
	}, SpecTimeout(specBound))

	DescribeTable("forbid it the objects on which scores rest",
		func(ctx SpecContext, manifest string, args ...string) {
			Expect(refusedToTeam(ctx, manifest, args...)).To(ContainSubstring("forbidden"))
		},
		Entry("a pool of its own", poolManifest("acme", "Ticket"), "create", "-f", "-"),
		Entry("the table of its scores", "", "patch", "configmap", "first-scores", "--type=merge", "-p",
			`{"data":{"scores.csv":""}}`),
		Entry("the status of its run", "", "patch", "evalrun", "first", "--subresource=status", "--type=merge", "-p",
			`{"status":{"score":{"mean":"1.0000"}}}`),
		Entry("the credential of its run", "", "get", "secrets"),
		Entry("a pod", "", "run", "shell", "--image=busybox"),
		Entry("a command in a runner", "", "create", "--raw",
			"/api/v1/namespaces/"+team+"/pods/any/exec?command=sh", "-f", "/dev/null"),
		Entry("the host's pool", "", "-n", host, "get", "cse", "acme"),
	)

	It("rank nothing whose table of scores was edited", func(ctx SpecContext) {
		patch(ctx, "configmap", "first-scores", `{"data":{"scores.csv":""}}`) // by somebody with more rights
		Expect(unranked(leaderboard(ctx), "first")).To(ContainSubstring("first-scores"))
	}, SpecTimeout(specBound))

	It("send no credentials of a reader to an address that a run names", func(ctx SpecContext) {
		signed := listenForKeys(ctx)
		apply(ctx, "apiVersion: v1\nkind: Secret\nmetadata: {name: none}\nstringData: {AWS_ACCESS_KEY_ID: team, "+
			"AWS_SECRET_ACCESS_KEY: team}\n")
		asTeam(ctx, builtin("elsewhere", fmt.Sprintf("results: {url: %q, credentialsSecretRef: {name: none}}",
			"s3://b/p?endpoint=http://"+signed.address+"&use_path_style=true&region=us-east-1")), "apply", "-f", "-")
		awaitEnd(ctx, "elsewhere")
		for _, args := range [][]string{{"leaderboard"}, {"episodes", "elsewhere"}, {"compare", "first", "elsewhere"}} {
			cmd := csenvHere(ctx, args...)
			cmd.Env = append(cmd.Env, "AWS_ACCESS_KEY_ID=of-the-host", "AWS_SECRET_ACCESS_KEY=of-the-host",
				"AWS_SESSION_TOKEN=of-the-host", "NO_PROXY=*", "no_proxy=*")
			_ = cmd.Run() // a store that can't be read is an error
		}
		Expect(signed.withHostsKey.Load()).To(BeZero(), "requests signed with the host's credentials")
	}, SpecTimeout(specBound))

	// The team suspends a run whose scores it has seen, deletes what is stored, and resumes it when
	// the servers on which it was played are gone.
	It("grade no episode again after its score was seen", func(ctx SpecContext) {
		s3 := startS3(ctx)
		apply(ctx, s3.secret("bucket", s3.password))
		model := serveModel(ctx)
		first := map[place]bool{} // the ten episodes that may end
		held := model.hold(func(p place) bool {
			if len(first) < 10 {
				first[p] = true
			}
			return !first[p]
		})
		again := strings.Replace(model.runManifest("again", "acme", []string{task("ticket-classify", 1)},
			fmt.Sprintf("results: {url: %q, credentialsSecretRef: {name: bucket}}", s3.url("runs"))),
			"environmentRef: {name: acme}", "environmentRef: {name: acme, namespace: "+host+"}", 1)
		asTeam(ctx, again, "apply", "-f", "-")
		held.await(ctx, "again")
		Eventually(ctx, func() int { return s3.lines("again") }).Should(BeNumerically(">", 0))

		asTeam(ctx, "", "patch", "evalrun", "again", "--type=merge", "-p", `{"spec":{"suspend":true}}`)
		Eventually(ctx, podsOf).WithArguments("again").Should(BeEmpty())
		stored, err := filepath.Glob(filepath.Join(s3.folder, "evals", "runs", team, "again-*", "shard-*"))
		Expect(err).NotTo(HaveOccurred())
		Expect(stored).NotTo(BeEmpty())
		seen := s3.lines("again")
		for _, shard := range stored {
			Expect(os.RemoveAll(shard)).To(Succeed())
		}
		kubectl(ctx, "-n", host, "rollout", "restart", "deployment", "acme")
		kubectl(ctx, "-n", host, "rollout", "status", "deployment", "acme", timeout)
		held.release()
		asTeam(ctx, "", "patch", "evalrun", "again", "--type=merge", "-p", `{"spec":{"suspend":false}}`)
		awaitEnd(ctx, "again")
		Expect(s3.lines("again")).To(Equal(40-seen), "episodes that were played afterwards")
		Expect(unranked(leaderboard(ctx), "again")).To(BeEmpty())
	}, SpecTimeout(specBound))
})

// createHost creates the host's namespace with a RunsOnly pool of two servers for the team's one.
func createHost(ctx context.Context, host string) {
	GinkgoHelper()
	Expect(client.IgnoreAlreadyExists(k8s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: host,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}))).To(Succeed())
	own := namespace
	namespace = host // of the helpers
	defer func() { namespace = own }()
	apply(ctx, poolWith("acme", "replicas: 2\n  access: {play: RunsOnly, allowedNamespaces: {from: Selector, "+
		"selector: {matchLabels: {kubernetes.io/metadata.name: "+own+"}}}}"))
	awaitPool(ctx, "acme")
}

// account is the service account of the team.
const account = "team"

// bindTeam creates the team's service account, which has the role for teams alone.
func bindTeam(ctx context.Context) {
	GinkgoHelper()
	Expect(k8s.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: account}})).To(Succeed())
	Expect(k8s.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "csenv-team"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}}})).To(
		Succeed())
}

// teamCommand is a command of kubectl with the rights of the team. A namespace among the arguments
// replaces the team's.
func teamCommand(ctx context.Context, stdin string, args ...string) *exec.Cmd {
	all := append([]string{"kubectl", "--", "-n", namespace, "--as",
		"system:serviceaccount:" + namespace + ":" + account}, args...)
	cmd := exec.CommandContext(ctx, clusterTool, all...)
	cmd.Stdin = strings.NewReader(stdin)
	return cmd
}

func asTeam(ctx context.Context, stdin string, args ...string) string {
	GinkgoHelper()
	out, err := teamCommand(ctx, stdin, args...).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "kubectl %s:\n%s\n%s", strings.Join(args, " "), stdin, out)
	return string(out)
}

func refusedToTeam(ctx context.Context, stdin string, args ...string) string {
	GinkgoHelper()
	out, err := teamCommand(ctx, stdin, args...).CombinedOutput()
	Expect(err).To(HaveOccurred(), "kubectl %s should have been refused, output: %s", args, out)
	return string(out)
}

// csenvHere is a command of csenv on the namespace, with all rights of the host.
func csenvHere(ctx context.Context, args ...string) *exec.Cmd {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, csenvTool(ctx), append(args, "-n", namespace, "--kubeconfig",
		strings.TrimSpace(run(ctx, clusterTool, "kubeconfig")))...)
	cmd.Env = os.Environ()
	return cmd
}

// rankedBoard is a board of csenv leaderboard.
type rankedBoard struct {
	Basis   string
	Entries []struct {
		Run         string
		Runs, Begun int64
	}
	Unranked []struct{ Run, Reason string }
}

// leaderboard ranks the runs of the namespace.
func leaderboard(ctx context.Context) []rankedBoard {
	GinkgoHelper()
	out, err := csenvHere(ctx, "leaderboard", "--builtin", "-o", "json").Output()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
	var boards []rankedBoard
	Expect(json.Unmarshal(out, &boards)).To(Succeed())
	return boards
}

// unranked is why a run has no place, "" if it has one.
func unranked(boards []rankedBoard, evalrun string) string {
	for _, b := range boards {
		for _, u := range b.Unranked {
			if u.Run == evalrun {
				return u.Reason
			}
		}
	}
	return ""
}

// keyListener counts the requests that it gets with the host's credentials.
type keyListener struct {
	address      string
	withHostsKey atomic.Int64
}

// listenForKeys answers every request with an error, where pods and this machine can reach it.
func listenForKeys(ctx SpecContext) *keyListener {
	GinkgoHelper()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(hereAddress(ctx), "0"))
	Expect(err).NotTo(HaveOccurred())
	l := &keyListener{address: listener.Addr().String()}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(fmt.Sprint(r.Header, r.URL), "of-the-host") {
			l.withHostsKey.Add(1)
		}
		http.Error(w, "there is no bucket here", http.StatusNotFound)
	}))
	Expect(server.Listener.Close()).To(Succeed())
	server.Listener = listener
	server.Start()
	DeferCleanup(server.Close)
	return l
}
