package access

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
)

// guarded returns a pool with a Secret for each purpose.
func guarded() v1alpha1.CustomerSupportEnv {
	env := v1alpha1.CustomerSupportEnv{ObjectMeta: metav1.ObjectMeta{Name: "support", Namespace: "shop"}}
	env.Spec.Scenarios.Packs = []v1alpha1.ScenarioPack{
		{Secret: &v1alpha1.ObjectReference{Name: "held-out"}}, {ConfigMap: &v1alpha1.ObjectReference{Name: "acme"}}}
	env.Spec.Access.TokenSecretRef = &v1alpha1.SecretKeyReference{Name: "tokens", Key: "pool"}
	env.Spec.Judge = v1alpha1.Judge{Type: v1alpha1.LLMJudge, LLM: &v1alpha1.LLMJudgeSpec{
		BaseURL:         "https://models.example/v1",
		APIKeySecretRef: &v1alpha1.SecretKeyReference{Name: "models", Key: "judge"}}}
	env.Spec.Customer = v1alpha1.Customer{Type: v1alpha1.LLMCustomer, LLM: &v1alpha1.LLMCustomerSpec{
		BaseURL:         "https://models.example/v1",
		APIKeySecretRef: &v1alpha1.SecretKeyReference{Name: "models", Key: "customer"}}}
	return env
}

func secretVariable(name, key string) []corev1.EnvVar {
	return []corev1.EnvVar{{Name: "NO_PROXY", Value: "x"}, {Name: "OTEL_EXPORTER_OTLP_HEADERS", ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key}}}}
}

func configVariable(name string) []corev1.EnvVar {
	return []corev1.EnvVar{{Name: "STOLEN", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: "B01.yaml"}}}}
}

func TestCheckReferences(t *testing.T) {
	t.Parallel()
	container := func(env []corev1.EnvVar) func(*v1alpha1.EvaluationRun) {
		return func(run *v1alpha1.EvaluationRun) {
			run.Spec.Agent.Container = &v1alpha1.ContainerAgentSpec{Env: env}
		}
	}
	template := func(o v1alpha1.PodOverrides) func(*v1alpha1.EvaluationRun) {
		return func(run *v1alpha1.EvaluationRun) { run.Spec.Template = &o }
	}
	model := func(baseURL, name, key string) func(*v1alpha1.EvaluationRun) {
		return func(run *v1alpha1.EvaluationRun) {
			run.Spec.Agent.OpenAI = &v1alpha1.OpenAIAgentSpec{BaseURL: baseURL,
				APIKeySecretRef: &v1alpha1.SecretKeyReference{Name: name, Key: key}}
		}
	}
	token := func(pool, name, key string) func(*v1alpha1.EvaluationRun) {
		return func(run *v1alpha1.EvaluationRun) {
			run.Spec.EnvironmentRef = v1alpha1.EnvironmentReference{Name: pool,
				TokenSecretRef: &v1alpha1.SecretKeyReference{Name: name, Key: key}}
		}
	}
	judged := func(variable string) func(*v1alpha1.EvaluationRun) {
		return func(run *v1alpha1.EvaluationRun) {
			model("https://models.example/v1", "models", "judge")(run)
			run.Spec.Template = &v1alpha1.PodOverrides{Env: []corev1.EnvVar{{Name: variable, Value: "x"}}}
		}
	}
	tests := map[string]struct {
		change func(*v1alpha1.EvaluationRun)
		want   string
	}{
		"nothing":                      {func(*v1alpha1.EvaluationRun) {}, ""},
		"a Secret of the run":          {container(secretVariable("mine", "key")), ""},
		"a signing key":                {container(secretVariable("support-ledger-key-0123456789", "key.pem")), "a Secret of the operator"},
		"a Secret of a deleted pool":   {container(secretVariable("gone-ledger-key-0123456789", "key.pem")), "spec.agent.container.env"},
		"a run's credential":           {container(secretVariable("openai-credential", "credential")), "a Secret of the operator"},
		"a private pack":               {container(secretVariable("held-out", "B01.yaml")), "a scenario pack of pool support"},
		"a pack in a ConfigMap":        {container(configVariable("acme")), "ConfigMap acme, which is a scenario pack"},
		"a ConfigMap of a pack's name": {container(configVariable("held-out")), ""},
		"the pool's token":             {container(secretVariable("tokens", "pool")), "the token of pool support"},
		"another key of the token":     {container(secretVariable("tokens", "other")), ""},
		"the customer's key":           {container(secretVariable("models", "customer")), "the customer's key of pool support"},
		"the judge's key":              {container(secretVariable("models", "judge")), "the judge's key of pool support"},
		"the runner's variables": {template(v1alpha1.PodOverrides{Env: secretVariable("models", "judge")}),
			"spec.template.env"},
		"a volume": {template(v1alpha1.PodOverrides{Volumes: []v1alpha1.PodVolume{{Name: "v",
			Secret: &v1alpha1.ObjectReference{Name: "support-ledger-key-0123456789"}}}}), "spec.template.volumes"},
		"a volume of a pack": {template(v1alpha1.PodOverrides{Volumes: []v1alpha1.PodVolume{{Name: "v",
			ConfigMap: &v1alpha1.ObjectReference{Name: "acme"}}}}), "a scenario pack of pool support"},
		"all keys as variables": {func(run *v1alpha1.EvaluationRun) {
			run.Spec.Agent.Container = &v1alpha1.ContainerAgentSpec{EnvFrom: []corev1.EnvFromSource{
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "models"}}}}}
		}, "spec.agent.container.envFrom"},
		"a pull secret": {template(v1alpha1.PodOverrides{ImagePullSecrets: []corev1.LocalObjectReference{
			{Name: "tokens"}}}), "spec.template.imagePullSecrets"},
		"all keys of a store's credentials": {func(run *v1alpha1.EvaluationRun) {
			run.Spec.Results = &v1alpha1.Results{URL: "s3://b", CredentialsSecretRef: &v1alpha1.ObjectReference{
				Name: "models"}}
		}, "spec.results.credentialsSecretRef"},
		"the judge's key to another endpoint": {model("https://evil.example/v1", "models", "judge"),
			"spec.agent.openAI.apiKeySecretRef names Secret models"},
		"the judge's key to its own endpoint":       {model("https://models.example/v1", "models", "judge"), ""},
		"the judge's key by a proxy of the author":  {judged("HTTPS_PROXY"), "spec.template.env sets HTTPS_PROXY"},
		"the judge's key by another proxy":          {judged("https_proxy"), "spec.template.env sets https_proxy"},
		"the judge's key to whom the author trusts": {judged("SSL_CERT_DIR"), "spec.template.env sets SSL_CERT_DIR"},
		"the judge's key and traces":                {judged("OTEL_EXPORTER_OTLP_ENDPOINT"), ""},
		"a logged key":                              {judged("GODEBUG"), "spec.template.env sets GODEBUG, which could"},
		"a program of the author": {template(v1alpha1.PodOverrides{Env: []corev1.EnvVar{{Name: "AWS_CONFIG_FILE",
			Value: "/mnt/x/config"}}}), "spec.template.env sets AWS_CONFIG_FILE"},
		"the token to the judge's endpoint": {model("https://models.example/v1", "tokens", "pool"), "the token"},
		"a token of an HTTP agent": {func(run *v1alpha1.EvaluationRun) {
			run.Spec.Agent.HTTP = &v1alpha1.HTTPAgentSpec{URL: "http://evil.example",
				TokenSecretRef: &v1alpha1.SecretKeyReference{Name: "held-out", Key: "B01.yaml"}}
		}, "spec.agent.http.tokenSecretRef"},
		"the pool's token to the pool":    {token("support", "tokens", "pool"), ""},
		"the pool's token to another":     {token("other", "tokens", "pool"), "spec.environmentRef.tokenSecretRef"},
		"the judge's key as pool's token": {token("support", "models", "judge"), "the judge's key"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := &v1alpha1.EvaluationRun{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "shop"}}
			run.Spec.EnvironmentRef.Name = "support"
			tt.change(run)
			err := CheckReferences(run, []v1alpha1.CustomerSupportEnv{guarded()})
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
