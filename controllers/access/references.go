package access

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
)

// reference is a Secret or ConfigMap that a spec names.
type reference struct {
	field, kind, name string
	// key is the only key that is read, "" for all keys.
	key string
	// endpoint is the only URL that the value is sent to, "" if the author of the spec can read it.
	endpoint string
}

// private is a Secret or ConfigMap that only a pool's servers may read.
type private struct {
	reference
	pool string
}

// operatorSecrets matches the names of the Secrets that the operator creates.
var operatorSecrets = regexp.MustCompile(`-(ledger-key|credential|metrics-token)(-[0-9a-f]{1,16})?$`)

// CheckReferences returns an error if a run refers to a Secret or ConfigMap that only the operator
// or a pool may read, because users who can create runs can read everything that the runs' pods
// can. It needs the pools of the run's namespace.
//
// A model may have the key of a pool's judge or customer, if both are sent to the same URL, by the
// network and the certificates of the runner's image.
func CheckReferences(run *v1alpha1.EvaluationRun, pools []v1alpha1.CustomerSupportEnv) error {
	secrets := make([]private, 0, 4*len(pools))
	for i := range pools {
		secrets = append(secrets, privateOf(&pools[i])...)
	}
	if err := checkVariables(run.Spec.Template); err != nil {
		return err
	}
	for _, ref := range listReferences(run) {
		if ref.kind == secretKind && operatorSecrets.MatchString(ref.name) {
			return fmt.Errorf("%s names Secret %s, which has the name of a Secret of the operator: "+
				"the author of a run could read it", ref.field, ref.name)
		}
		for _, p := range secrets {
			if !p.covers(ref) || isOwnToken(run, ref, p) {
				continue
			}
			if ref.endpoint == "" || ref.endpoint != p.endpoint {
				return fmt.Errorf("%s names %s %s, which is %s of pool %s: the author of a run could read it",
					ref.field, ref.kind, ref.name, p.field, p.pool)
			}
			if name := findTransport(run.Spec.Template); name != "" {
				return fmt.Errorf("%s names %s %s, which is %s of pool %s, and spec.template.env sets %s, which could "+
					"send it elsewhere: use a key of the run's own, or no such variable", ref.field, ref.kind, ref.name,
					p.field, p.pool, name)
			}
		}
	}
	return nil
}

func (p private) covers(ref reference) bool {
	return p.kind == ref.kind && p.name == ref.name && (p.key == "" || ref.key == "" || p.key == ref.key)
}

// checkVariables returns an error if a run sets a variable that its author may not set. The API
// server refuses it too, but may have stored the run before.
func checkVariables(template *v1alpha1.PodOverrides) error {
	for _, v := range listVariables(template) {
		if !v1alpha1.IsRunVariable(v.Name) {
			return fmt.Errorf("spec.template.env sets %s, which could change what the runner executes, reads or logs",
				v.Name)
		}
	}
	return nil
}

// findTransport returns the first variable that decides to whom the runner's requests are sent, ""
// if there is none.
func findTransport(template *v1alpha1.PodOverrides) string {
	for _, v := range listVariables(template) {
		if v1alpha1.IsTransportVariable(v.Name) {
			return v.Name
		}
	}
	return ""
}

func listVariables(template *v1alpha1.PodOverrides) []corev1.EnvVar {
	if template == nil {
		return nil
	}
	return template.Env
}

// isOwnToken reports whether a run's token belongs to the pool that it is sent to.
func isOwnToken(run *v1alpha1.EvaluationRun, ref reference, p private) bool {
	pool := evaluation.PoolOf(run)
	return ref.field == tokenField && p.field == "the token" && pool.Namespace == run.Namespace && pool.Name == p.pool
}

const (
	secretKind    = "Secret"
	configMapKind = "ConfigMap"
	tokenField    = "spec.environmentRef.tokenSecretRef"
)

// privateOf lists the objects that only the servers of a pool may read.
func privateOf(pool *v1alpha1.CustomerSupportEnv) []private {
	var all []private
	add := func(what, kind, name, key, endpoint string) {
		all = append(all, private{pool: pool.Name, reference: reference{field: what, kind: kind, name: name, key: key,
			endpoint: endpoint}})
	}
	for _, pack := range pool.Spec.Scenarios.Packs {
		if pack.Secret != nil {
			add("a scenario pack", secretKind, pack.Secret.Name, "", "")
		}
		if pack.ConfigMap != nil {
			add("a scenario pack", configMapKind, pack.ConfigMap.Name, "", "")
		}
	}
	if ref := pool.Spec.Access.TokenSecretRef; ref != nil {
		add("the token", secretKind, ref.Name, ref.Key, "")
	}
	if llm := pool.Spec.Judge.LLM; llm != nil && llm.APIKeySecretRef != nil {
		add("the judge's key", secretKind, llm.APIKeySecretRef.Name, llm.APIKeySecretRef.Key, llm.BaseURL)
	}
	if llm := pool.Spec.Customer.LLM; llm != nil && llm.APIKeySecretRef != nil {
		add("the customer's key", secretKind, llm.APIKeySecretRef.Name, llm.APIKeySecretRef.Key, llm.BaseURL)
	}
	return all
}

// listReferences lists the Secrets and ConfigMaps that a run's pods can read.
func listReferences(run *v1alpha1.EvaluationRun) []reference {
	var all []reference
	one := func(field string, ref *v1alpha1.SecretKeyReference, endpoint string) {
		if ref != nil {
			all = append(all, reference{field, secretKind, ref.Name, ref.Key, endpoint})
		}
	}
	spec := run.Spec
	one(tokenField, spec.EnvironmentRef.TokenSecretRef, "")
	if agent := spec.Agent.OpenAI; agent != nil {
		one("spec.agent.openAI.apiKeySecretRef", agent.APIKeySecretRef, agent.BaseURL)
	}
	if agent := spec.Agent.HTTP; agent != nil {
		one("spec.agent.http.tokenSecretRef", agent.TokenSecretRef, "")
	}
	if agent := spec.Agent.Container; agent != nil {
		all = append(all, ofEnv("spec.agent.container.env", agent.Env)...)
		all = append(all, ofEnvFrom("spec.agent.container.envFrom", agent.EnvFrom)...)
	}
	if results := spec.Results; results != nil && results.CredentialsSecretRef != nil {
		all = append(all, reference{"spec.results.credentialsSecretRef", secretKind, results.CredentialsSecretRef.Name,
			"", ""})
	}
	if template := spec.Template; template != nil {
		all = append(all, ofEnv("spec.template.env", template.Env)...)
		for _, v := range template.Volumes {
			if v.Secret != nil {
				all = append(all, reference{"spec.template.volumes", secretKind, v.Secret.Name, "", ""})
			}
			if v.ConfigMap != nil {
				all = append(all, reference{"spec.template.volumes", configMapKind, v.ConfigMap.Name, "", ""})
			}
		}
		for _, ref := range template.ImagePullSecrets {
			all = append(all, reference{"spec.template.imagePullSecrets", secretKind, ref.Name, "", ""})
		}
	}
	return all
}

func ofEnv(field string, env []corev1.EnvVar) []reference {
	var all []reference
	for _, v := range env {
		if v.ValueFrom == nil {
			continue
		}
		if ref := v.ValueFrom.SecretKeyRef; ref != nil {
			all = append(all, reference{field, secretKind, ref.Name, ref.Key, ""})
		}
		if ref := v.ValueFrom.ConfigMapKeyRef; ref != nil {
			all = append(all, reference{field, configMapKind, ref.Name, ref.Key, ""})
		}
	}
	return all
}

func ofEnvFrom(field string, sources []corev1.EnvFromSource) []reference {
	var all []reference
	for _, source := range sources {
		if source.SecretRef != nil {
			all = append(all, reference{field, secretKind, source.SecretRef.Name, "", ""})
		}
		if source.ConfigMapRef != nil {
			all = append(all, reference{field, configMapKind, source.ConfigMapRef.Name, "", ""})
		}
	}
	return all
}
