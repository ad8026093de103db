package run

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
)

// A run's runners get the credential that the pool's servers ask for, before there is a Job, and
// the agent's container does not.
func TestRunnersGetTheRunsCredential(t *testing.T) {
	w := readyWorld(t)
	run := w.run()
	run.Spec.Agent = runtest.ListAgents()["registry.example/agent:1"]
	if err := w.client.Update(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	var created []string
	w.fault = func(what string, do func() error) error {
		created = append(created, what)
		return do()
	}
	w.mustPass()
	secretAt, jobAt := slices.Index(created, "create *v1.Secret"), slices.Index(created, "create *v1.Job")
	if secretAt < 0 || jobAt < secretAt {
		t.Fatalf("writes: %v", created)
	}
	var secret corev1.Secret
	if err := w.client.Get(t.Context(), key(runner.NameCredential(w.run())), &secret); err != nil {
		t.Fatal(err)
	}
	servers, err := poolkey.DeriveSecrets(runtest.PoolKey())
	if err != nil {
		t.Fatal(err)
	}
	inputs := runner.ReadInputs(&w.job().Spec.Template)
	grant, admitted := servers.AdmitsRun(string(w.run().UID), string(secret.Data[runner.CredentialKey]))
	if !admitted || grant.Plan != score.FingerprintOf([]byte(inputs[runner.PlanKey])) || grant.Namespace != runtest.Namespace ||
		!metav1.IsControlledBy(&secret, w.run()) {
		t.Errorf("the run's Secret is %+v", secret)
	}
	pod := w.job().Spec.Template.Spec
	reads := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "secrets" })
	}
	if runtest.SecretFiles(w.job())[envvars.RunCredential] != secret.Name+"/"+runner.CredentialKey ||
		!reads(pod.Containers[0]) || reads(pod.InitContainers[0]) {
		t.Errorf("the runner has %+v, the agent %+v", pod.Containers[0].VolumeMounts, pod.InitContainers[0].VolumeMounts)
	}
	for _, volume := range pod.Volumes {
		if volume.Secret != nil {
			t.Errorf("the pod mounts %+v", volume)
		}
	}
}

// A Job that is created again finds the Secret of the one before.
func TestCredentialIsCreatedOnce(t *testing.T) {
	w := readyWorld(t)
	w.fault = func(what string, do func() error) error {
		if what == "create *v1.Job" {
			return apierrors.NewForbidden(corev1.Resource("jobs"), runtest.RunName, errors.New("quota"))
		}
		return do()
	}
	_, _ = w.pass()
	w.fault = nil
	w.mustPass()
	if w.job() == nil {
		t.Error("there is no Job")
	}
}

type missingKeys struct{}

func (missingKeys) Secrets(context.Context, types.NamespacedName, string) (*poolkey.Secrets, error) {
	return nil, errors.New("the key is missing")
}

func TestNoRunWithoutTheKey(t *testing.T) {
	w := readyWorld(t)
	w.r.keys, w.r.reader.Keys = missingKeys{}, missingKeys{}
	w.mustPass()
	got := runtest.FormatConditions(w.run().Status.Conditions)
	if !strings.Contains(got, "Complete=False") || w.run().Status.StartTime != nil {
		t.Errorf("conditions: %s", got)
	}
}
