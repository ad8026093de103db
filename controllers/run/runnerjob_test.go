package run

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/policy"
)

// Both names of the policy that does nothing are played.
func TestNoopIsPlayed(t *testing.T) {
	for _, name := range []v1alpha1.BuiltinPolicy{v1alpha1.NoopPolicy, v1alpha1.NullPolicy} {
		data, err := evaluation.AgentJSON(v1alpha1.Agent{Type: v1alpha1.BuiltinAgent,
			Builtin: &v1alpha1.BuiltinAgentSpec{Policy: name}})
		if err != nil {
			t.Fatal(err)
		}
		config, err := policy.ParseConfig(data)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := policy.New(config, policy.Options{Environment: "ticket"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The runner refuses an agent with an unknown field.
func TestRunnersParseTheAgent(t *testing.T) {
	for name, agent := range agents() {
		t.Run(name, func(t *testing.T) {
			data, err := evaluation.AgentJSON(agent)
			if err != nil {
				t.Fatal(err)
			}
			text := string(data)
			config, err := policy.ParseConfig(data)
			if err != nil {
				t.Fatalf("%v: %.300s", err, text)
			}
			if string(config.Type) != string(agent.Type) || strings.Contains(text, "SecretRef") ||
				strings.Contains(text, "registry.example") {
				t.Errorf("read as %+v from %.300s", config, text)
			}
			if agent.OpenAI != nil && config.OpenAI.SystemPrompt != agent.OpenAI.SystemPrompt {
				t.Error("the system prompt differs")
			}
			if got := evaluation.AgentName(agent); got != name {
				t.Errorf("status.agent is %q, want %q", got, name)
			}
		})
	}
}

func TestKeysReachRunnersAsReferences(t *testing.T) {
	for name, want := range map[string]string{"Heuristic": "", "gpt-x": "models", "agent.example:8443": "agent",
		"registry.example/agent:1": ""} {
		t.Run(name, func(t *testing.T) {
			run, env := newTestRun(), pool()
			run.Spec.Agent = agents()[name]
			env.Spec.Access.TokenSecretRef = secretKey("pool-tokens")
			got := map[string]string{}
			job := runnerJob(run, env, runnerOptions{}, jobSpec{attempt: 1, shards: allShards()})
			for _, v := range job.Spec.Template.Spec.Containers[0].Env {
				if v.ValueFrom == nil || v.ValueFrom.SecretKeyRef == nil {
					continue
				}
				got[v.Name] = v.ValueFrom.SecretKeyRef.Name + "/" + v.ValueFrom.SecretKeyRef.Key
			}
			wanted := map[string]string{envvars.PoolToken: "pool-tokens/key",
				envvars.RunCredential: credentialName(run) + "/" + credentialKey}
			if want != "" {
				wanted[envvars.AgentKey] = want + "/key"
			}
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAgentContainerIsARestrictedSidecar(t *testing.T) {
	run := newTestRun()
	run.Spec.Agent = agents()["registry.example/agent:1"]
	pod := runnerJob(run, pool(), runnerOptions{}, jobSpec{attempt: 1, shards: allShards()}).Spec.Template.Spec
	if len(pod.InitContainers) != 1 {
		t.Fatalf("%d init containers, want the agent", len(pod.InitContainers))
	}
	agent := pod.InitContainers[0]
	if *agent.RestartPolicy != corev1.ContainerRestartPolicyAlways ||
		agent.StartupProbe.TCPSocket.Port.IntValue() != 9000 || agent.Image != "registry.example/agent:1" {
		t.Errorf("the agent's container is %+v", agent)
	}
	if c := agent.SecurityContext; c == nil || *c.AllowPrivilegeEscalation || len(c.Capabilities.Drop) != 1 ||
		c.Capabilities.Drop[0] != "ALL" {
		t.Errorf("the agent's container isn't restricted: %+v", c)
	}
	// The name of a user's volume is never that of the run's own.
	if agent.StartupProbe.FailureThreshold != 3600 || agent.EnvFrom[0].SecretRef.Name != "agent" ||
		len(agent.VolumeMounts) != 1 || agent.VolumeMounts[0].Name != "custom-plan" {
		t.Errorf("the agent's container is %+v", agent)
	}
	if diff := cmp.Diff([]corev1.EnvVar{{Name: "MODEL", Value: "x"}}, agent.Env); diff != "" {
		t.Errorf("the agent's variables: %s", diff)
	}
}

func TestResultsReachTheStore(t *testing.T) {
	run := newTestRun()
	run.Spec.Results = &v1alpha1.Results{URL: "s3://bucket/prefix", CredentialsSecretRef: &v1alpha1.ObjectReference{
		Name: "aws"}}
	runner := runnerJob(run, pool(), runnerOptions{}, jobSpec{attempt: 1, shards: allShards()}).Spec.Template.Spec.Containers[0]
	if len(runner.EnvFrom) != 1 || runner.EnvFrom[0].SecretRef.Name != "aws" {
		t.Errorf("variables from %+v", runner.EnvFrom)
	}
	run.Spec.Results = &v1alpha1.Results{PersistentVolumeClaim: &v1alpha1.VolumeClaimReference{ClaimName: "episodes"}}
	pod := runnerJob(run, pool(), runnerOptions{}, jobSpec{attempt: 1, shards: allShards()}).Spec.Template.Spec
	if pod.Volumes[1].PersistentVolumeClaim.ClaimName != "episodes" ||
		pod.Containers[0].VolumeMounts[1].MountPath != "/results" || *pod.SecurityContext.FSGroup != 65532 {
		t.Errorf("volumes %+v, mounts %+v, security %+v", pod.Volumes, pod.Containers[0].VolumeMounts,
			pod.SecurityContext)
	}
	run.Spec.Results.PersistentVolumeClaim.FSGroup = v1alpha1.UnsetVolumeGroup
	pod = runnerJob(run, pool(), runnerOptions{}, jobSpec{attempt: 1, shards: allShards()}).Spec.Template.Spec
	if c := pod.SecurityContext; c != nil && c.FSGroup != nil {
		t.Errorf("the volume's group is %d", *c.FSGroup)
	}
}
