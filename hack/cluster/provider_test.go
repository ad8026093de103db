package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestChoose(t *testing.T) {
	tests := map[string]struct {
		order, recorded string
		kind            string
		want            string
		reason          string
		fails           bool
	}{
		"kind where it works":     {want: providerKind, reason: "Docker runs"},
		"local elsewhere":         {kind: "kind is not on PATH", want: providerLocal, reason: "kind is not on PATH"},
		"an existing cluster":     {recorded: "local", want: providerLocal, reason: "created by it"},
		"an order wins":           {order: "kind", kind: "no Docker", want: providerKind, reason: "CSENV_CLUSTER"},
		"an order that agrees":    {order: "local", recorded: "local", want: providerLocal, reason: "CSENV_CLUSTER"},
		"an order that differs":   {order: "kind", recorded: "local", fails: true},
		"and the other way round": {order: "local", recorded: "kind", fails: true},
		"an order over damage":    {order: "local", recorded: "kin", want: providerLocal, reason: "CSENV_CLUSTER"},
		"a damaged record":        {recorded: "loc", want: providerKind, reason: "Docker runs"},
		"an unknown order":        {order: "minikube", fails: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := resolveProvider(test.order, test.recorded, func() string { return test.kind })
			if (err != nil) != test.fails || got.name != test.want || !strings.Contains(got.reason, test.reason) {
				t.Errorf("choose = %+v, %v", got, err)
			}
		})
	}
}

func TestChooseReportsHowToRemoveTheOtherCluster(t *testing.T) {
	_, err := resolveProvider(providerKind, providerLocal, nil)
	for _, words := range []string{"CSENV_CLUSTER=kind", "created by local",
		"CSENV_CLUSTER=local go run ./hack/cluster down"} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("choose = %v, want it to contain %q", err, words)
		}
	}
}

func TestKindProblem(t *testing.T) {
	tests := map[string]struct {
		programs map[string]string
		problem  string
	}{
		"both work": {programs: map[string]string{"kind": "", "docker": "echo 29.0.1"}},
		"no kind":   {programs: map[string]string{"docker": "echo 29.0.1"}, problem: "kind is not on PATH"},
		"no engine": {programs: map[string]string{"kind": "", "docker": "echo 'Cannot connect' >&2; exit 1"},
			problem: "no Docker engine answers"},
		"engine says blank": {programs: map[string]string{"kind": "", "docker": "echo"},
			problem: "no Docker engine answers"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			fakes := fakePrograms(t, test.programs)
			t.Setenv("PATH", fakes.dir) // the machine may have kind
			if got := kindProblem(t.Context())(); got != test.problem {
				t.Errorf("kindProblem = %q, want %q", got, test.problem)
			}
		})
	}
}

const fakeKind = `echo "kind KUBECONFIG=$KUBECONFIG $*" >> "$LOG"
[ "$1 $2" = "get clusters" ] && echo "$CLUSTERS"; exit 0`

func TestKindCommands(t *testing.T) {
	tests := map[string]struct {
		clusters string
		run      func(*testing.T, kind) error
		want     []string
		fails    bool
	}{
		"up creates": {
			run:  func(t *testing.T, k kind) error { return k.up(t.Context(), 1, "") },
			want: []string{"get clusters", "create cluster --name csenv --kubeconfig STATE/kubeconfig --wait 3m"},
		},
		"up again": {
			clusters: "other\ncsenv",
			run:      func(t *testing.T, k kind) error { return k.up(t.Context(), 1, "") },
			want:     []string{"get clusters", "export kubeconfig --name csenv --kubeconfig STATE/kubeconfig"},
		},
		"load": {
			clusters: "csenv",
			run: func(t *testing.T, k kind) error {
				digest, err := k.load(t.Context(), "csenv:dev")
				if digest != "sha256:abc" {
					t.Errorf("digest %q", digest)
				}
				return err
			},
			want: []string{"get clusters", "load docker-image csenv:dev --name csenv"},
		},
		"load without a cluster": {
			clusters: "other",
			run:      func(t *testing.T, k kind) error { _, err := k.load(t.Context(), "csenv:dev"); return err },
			want:     []string{"get clusters"}, fails: true,
		},
		"down": {
			run:  func(t *testing.T, k kind) error { return k.down(t.Context()) },
			want: []string{"delete cluster --name csenv --kubeconfig STATE/kubeconfig"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			calls := fakePrograms(t, map[string]string{"kind": fakeKind,
				"docker": `[ "$1" = image ] && echo sha256:abc; exit 0`})
			t.Setenv("CLUSTERS", test.clusters)
			k := kind{builder: sampleBuilder(t, io.Discard)}
			if err := test.run(t, k); (err != nil) != test.fails {
				t.Errorf("error %v", err)
			}
			log := strings.ReplaceAll(calls.log(t), k.state, "STATE")
			want := ""
			for _, line := range test.want {
				want += "kind KUBECONFIG= " + line + "\n"
			}
			if diff := cmp.Diff(want, log); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKindIgnoresTheShellsKubeconfig(t *testing.T) {
	calls := fakePrograms(t, map[string]string{"kind": fakeKind})
	t.Setenv("KUBECONFIG", "/home/someone/.kube/config")
	k := kind{builder: sampleBuilder(t, io.Discard)}
	if err := k.down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(calls.log(t), "someone") {
		t.Errorf("calls: %s", calls.log(t))
	}
}

func TestKindStampsTheImageItBuilds(t *testing.T) {
	calls := fakePrograms(t, map[string]string{"kind": fakeKind, "docker": `echo "docker $*" >> "$LOG"`,
		"git": "echo v1.2.3-4-gabc"})
	t.Setenv("CLUSTERS", "csenv")
	k := kind{builder: sampleBuilder(t, io.Discard)}
	if _, err := k.load(t.Context(), "csenv:dev"); err != nil {
		t.Fatal(err)
	}
	want := "docker build --build-arg VERSION=v1.2.3-4-gabc --tag csenv:dev " + k.repo + "\n"
	if !strings.Contains(calls.log(t), want) {
		t.Errorf("calls:\n%s\nwant %s", calls.log(t), want)
	}
}

func TestKindStatus(t *testing.T) {
	fakePrograms(t, map[string]string{"kind": fakeKind})
	t.Setenv("CLUSTERS", "csenv")
	k := kind{builder: sampleBuilder(t, io.Discard), reason: "Docker runs"}
	var out bytes.Buffer
	if err := k.status(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "running") || !strings.Contains(out.String(), k.kubeconfig()) {
		t.Errorf("status:\n%s", out.String())
	}
}

func TestMissingPackages(t *testing.T) {
	if got := missingPackages(func(string) bool { return true }); got != nil {
		t.Errorf("with every file present: %v", got)
	}
	lacks := []string{"containerd", "ctr", "iptables-restore"}
	here := func(file string) bool { return !slices.Contains(lacks, file) }
	if diff := cmp.Diff([]string{"containerd", "iptables"}, missingPackages(here)); diff != "" {
		t.Errorf("packages (-want +got):\n%s", diff)
	}
}

func TestReadyCondition(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	node := func(status, heartbeat string) string {
		return `{"status":{"conditions":[{"type":"MemoryPressure","status":"False"},{"type":"Ready","status":"` +
			status +
			`","message":"cni not ready","lastHeartbeatTime":"` + heartbeat + `"}]}}`
	}
	tests := map[string]struct{ node, problem string }{
		"ready":             {node: node("True", "2026-01-02T03:04:05Z")},
		"not ready":         {node: node("False", "2026-01-02T03:04:06Z"), problem: "cni not ready"},
		"unknown":           {node: node("Unknown", "2026-01-02T03:04:06Z"), problem: "not ready"},
		"of a dead kubelet": {node: node("True", "2026-01-02T03:04:04Z"), problem: "not reported since"},
		"no condition":      {node: `{"status":{}}`, problem: "no Ready condition"},
		"no JSON":           {node: "error", problem: "reading the node"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := readyCondition([]byte(test.node), start)
			if (err == nil) != (test.problem == "") || err != nil && !strings.Contains(err.Error(), test.problem) {
				t.Errorf("readyCondition = %v", err)
			}
		})
	}
}
