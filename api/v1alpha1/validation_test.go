package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
)

// The API server and the operator refuse the same variables of runs.
func TestVariablesOfRuns(t *testing.T) {
	t.Parallel()
	c, _ := newClient(t)
	allowed := 0
	for _, name := range []string{
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_ACCOUNT",
		"AZURE_STORAGE_DOMAIN", "TRACEPARENT", "OTEL_EXPORTER_OTLP_ENDPOINT",
		"PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "GODEBUG", "GOTRACEBACK", "GOMAXPROCS", "GOGC", "GOCOVERDIR", "HOME",
		"TMPDIR", "LOCALDOMAIN", "RES_OPTIONS", "RESOLV_HOST_CONF", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
		"AWS_PROFILE", "AWS_CA_BUNDLE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_ACCESS_KEY_ID", "GOOGLE_APPLICATION_CREDENTIALS",
		"GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "GOOGLE_CREDENTIALS", "GCE_METADATA_HOST", "STORAGE_EMULATOR_HOST",
		"AZURE_TOKEN_CREDENTIALS", "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_AUTHORITY_HOST", "IDENTITY_ENDPOINT",
		"CSENV_RUN_CREDENTIAL", "otel_x", "OTEL", "POD_NAME",
	} {
		if v1alpha1.IsRunVariable(name) {
			allowed++
		}
		manifest := run("variable", "template: {env: [{name: "+name+", value: x}]}")
		err := c.Create(t.Context(), parse(t, manifest), client.DryRunAll)
		if (err == nil) != v1alpha1.IsRunVariable(name) || err != nil && !strings.Contains(err.Error(),
			"others could change what the runner executes, reads or logs") && !strings.Contains(err.Error(), "reserved") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if allowed != 16 {
		t.Errorf("%d variables are allowed", allowed)
	}
}

func TestValidation(t *testing.T) {
	t.Parallel()
	c, _ := newClient(t)
	tests := map[string]struct{ manifest, wantErr string }{
		"a pool with everything": {pool("everything", "{environment: Workflow, image: 'registry.example/csenv:1', "+
			"replicas: 0, drainTimeoutSeconds: 0, rewardMode: Terminal, "+
			"judge: {type: Offline}, sessions: {perPod: 100000, idleTimeoutSeconds: 0, maxDurationSeconds: 0}}"), ""},
		"a pool of packs, judged by a model": {pool("packs", "{scenarios: {splits: [Test, Private], packs: "+
			"[{configMap: {name: acme}}, {secret: {name: held-out}}]}, judge: {type: LLM, llm: "+
			"{baseURL: 'https://models.example/v1', model: judge-2026-01-01, apiKeySecretRef: {name: models, key: "+
			"token}, maxConcurrency: 1024, timeoutSeconds: 600, onFailure: Offline}}}"), ""},
		"an agent with files": {strings.Replace(run("files", "template: {volumes: [{name: ca, configMap: {name: ca}}, "+
			"{name: tmp, emptyDir: {sizeLimit: 1Gi}}], volumeMounts: [{name: ca, mountPath: /mnt/ca}], schedulerName: "+
			"volcano, imagePullPolicy: Always, securityContext: {runAsUser: 1000}}"), "{type: Builtin, builtin: "+
			"{policy: Noop}}", "{type: Container, container: {image: a, envFrom: [{secretRef: {name: s}}], "+
			"startTimeoutSeconds: 3600, volumeMounts: [{name: tmp, mountPath: /tmp}]}}", 1), ""},
		"an agent with another's volume": {strings.Replace(run("bad"), "{type: Builtin, builtin: {policy: Noop}}",
			"{type: Container, container: {image: a, volumeMounts: [{name: plan, mountPath: /plan}]}}", 1),
			"names a volume that is not in template.volumes"},
		"a volume over the runner": {run("bad", "template: {volumes: [{name: a, configMap: {name: a}}], volumeMounts: "+
			"[{name: a, mountPath: /runner}]}"), "below /mnt/ only"},
		"a volume beside /mnt": {run("bad", "template: {volumes: [{name: a, configMap: {name: a}}], volumeMounts: "+
			"[{name: a, mountPath: /mnt/../runner}]}"), "write an absolute path"},
		"a volume of two kinds": {run("bad", "template: {volumes: [{name: a, configMap: {name: a}, emptyDir: {}}]}"),
			"exactly one of configMap, secret"},
		"a volume of the node": {run("bad", "template: {volumes: [{name: a, hostPath: {path: /}}]}"),
			"exactly one of configMap, secret"},
		"a mount of no volume": {pool("bad", "{template: {volumeMounts: [{name: a, mountPath: /mnt/a}]}}"),
			"names a volume that is not in volumes"},
		"too little memory": {pool("bad", "{template: {resources: {limits: {memory: 16Mi}}}}"),
			"limits.memory must be at least 64Mi"},
		"too little memory in bytes": {run("bad", "template: {resources: {limits: {memory: 4194304}}}"),
			"limits.memory must be at least 64Mi"},
		"memory enough": {pool("enough", "{template: {resources: {requests: {cpu: 500m, memory: 64Mi}, limits: {cpu: 1, "+
			"memory: 67108864}}}}"), ""},
		"requests above limits": {run("bad", "template: {resources: {requests: {cpu: 2}, limits: {cpu: 1500m}}}"),
			"requests of cpu and memory can't exceed their limits"},
		"another toleration": {run("bad", "template: {tolerations: [{operator: Exist}]}"),
			"the operator of a toleration is Exists, Equal, Lt or Gt"},
		"a pod of root": {pool("bad", "{template: {securityContext: {runAsUser: 0}}}"), "greater than or equal to 1"},
		"a pool of special pods": {pool("special", "{template: {labels: {team: a}, annotations: "+
			"{prometheus.io/scrape: 'true'}, env: [{name: HTTPS_PROXY, value: x}], "+
			"resources: {limits: {memory: 4Gi}}, "+
			"nodeSelector: {disk: fast}, tolerations: [{operator: Exists}], priorityClassName: high, "+
			"runtimeClassName: gvisor, serviceAccountName: puller, imagePullSecrets: [{name: registry}], "+
			"topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}, "+
			"service: {type: LoadBalancer, annotations: {example.com/internal: 'true'}}, "+
			"networkPolicy: Unmanaged, access: {tokenSecretRef: {name: t, key: k}, allowedNamespaces: {from: "+
			"Selector, selector: {matchLabels: {team: a}}}}}"), ""},
		"a model as the customer": {pool("talks", "{environment: Workflow, customer: {type: LLM, llm: {baseURL: "+
			"'https://models.example/v1', model: c-1, apiKeySecretRef: {name: models, key: api-key}}}}"), ""},
		"a judge at Azure": {pool("azure", "{judge: {type: LLM, llm: {baseURL: "+
			"'https://x.openai.azure.com/openai/deployments/d?api-version=2024-10-21', model: m}}}"), ""},
		"a model of a long name at a port": {pool("port", "{judge: {type: LLM, llm: {baseURL: 'http://[::1]:8080', "+
			"model: 'acme/judge@v1:fast~2026-01-01'}}}"), ""},
		"a run with everything": {run("everything", "seed: 9007199254740991", "parallelism: 1000", "concurrency: 1024",
			"pressure: ResponseTime", "passScore: 1.000000",
			"retries: {episodeAttempts: 10, shardBackoffLimit: 0, maxErroredPercent: 100}"), ""},
		"a run of some scenarios": {runWith("some", "{name: ticket-resolve}",
			"{name: ticket-resolve, trials: 1000, scenarios: {ids: [B01], categories: [billing]}}"), ""},
		"a run of some cases": {runWith("cases", "{name: ticket-resolve}", "{name: case-hard, scenarios: "+
			"{categories: [return], modifiers: [plus, gift-card], difficulties: [easy, medium, hard], "+
			"splits: [Train, Dev, Test, Private]}}"), ""},
		"a run of every family": {runWith("families", "{name: ticket-resolve}", "{name: case-hard, scenarios: "+
			"{categories: ["+numbered("family", 32)+"], modifiers: ["+numbered("modifier", 64)+"]}}"), ""},

		"a pool that scales itself": {pool("scales", "{autoscaling: {minReplicas: 0, maxReplicas: 50, freeSessions: "+
			"500, scaleDownDelaySeconds: 0}}"), ""},
		"a pool with a free share": {pool("share", "{autoscaling: {maxReplicas: 3, freeSessions: '25%'}, "+
			"operatingMode: Suspended}"), ""},
		"a shared pool": {pool("shared", "{access: {tokenSecretRef: {name: clients, key: tokens}, allowedNamespaces: "+
			"{from: Selector, selector: {matchLabels: {team: rl}}}}, "+
			"service: {type: LoadBalancer, annotations: {a/b: c}}, networkPolicy: Unmanaged, template: {labels: "+
			"{team: rl}, resources: {limits: {memory: 1Gi}}, env: [{name: A, value: b}], "+
			"nodeSelector: {disk: ssd}, tolerations: [{operator: Exists}], priorityClassName: low, imagePullSecrets: "+
			"[{name: pull}]}}"), ""},
		"a run of a model": {runWith("model", "{type: Builtin, builtin: {policy: Noop}}",
			"{type: OpenAI, openAI: {baseURL: 'https://models.example/v1', model: m, "+
				"apiKeySecretRef: {name: k, key: k}, "+
				"mode: JSON, temperature: 0.7, maxTokens: 512, requestsPerMinute: 60, timeoutSeconds: 30, "+
				"systemPrompt: Help., extraBody: {top_k: 5, nested: {a: [1]}}}}"), ""},
		"a run of a URL": {runWith("url", "{type: Builtin, builtin: {policy: Noop}}",
			"{type: HTTP, http: {url: 'http://agent:8080/act?a=b', tokenSecretRef: {name: a, key: t}}}"), ""},
		"a run of a container": {runWith("container", "{type: Builtin, builtin: {policy: Noop}}",
			"{type: Container, container: {image: 'agent:1', args: [serve], env: [{name: A, value: b}], port: 9, "+
				"path: /act}}"), ""},
		"a run of type External": {rollouts("rollouts", "{type: External}"), ""},
		"a run of many of them": {rollouts("many", "{type: External, external: {episodes: 2147483648}}",
			"baselineRef: {name: last}", "thresholds: [{metric: passRate, min: 1}]"), ""},
		"a run of any number, for now": {rollouts("any", "{type: External, external: {}}", "activeDeadlineSeconds: 60",
			"suspend: true"), ""},
		"a run with a life": {run("life", "suspend: true", "startDeadlineSeconds: 60", "activeDeadlineSeconds: 3600",
			"ttlSecondsAfterFinished: 0", "retain: Never", "baselineRef: {name: last}",
			"thresholds: [{metric: meanScore, min: 0.7}, {metric: passHat8, min: 0}]",
			"results: {url: 's3://bucket/prefix?region=eu-west-1', credentialsSecretRef: {name: s3}}"), ""},
		"a run into a bucket of odd letters": {run("odd",
			`results: {url: 'gs://b/!"$%&()*+,-.:;<=>?[]^_{|}~/l%C3%A4ufe'}`), ""},
		"a run into a volume": {run("volume", "results: {persistentVolumeClaim: {claimName: results}}"),
			""},

		"no most of servers": {pool("bad", "{autoscaling: {minReplicas: 1}}"),
			"spec.autoscaling.maxReplicas"},
		"more at least than at most": {pool("bad", "{autoscaling: {minReplicas: 5, maxReplicas: 4}}"),
			"minReplicas must not exceed maxReplicas"},
		"more at least, by default": {pool("bad", "{autoscaling: {maxReplicas: 0}}"),
			"greater than or equal to 1"},
		"a free share of all": {pool("bad", "{autoscaling: {maxReplicas: 5, freeSessions: '100%'}}"),
			"from \"0%\" to \"99%\""},
		"a free share without a sign": {pool("bad", "{autoscaling: {maxReplicas: 5, freeSessions: '5'}}"),
			"from \"0%\" to \"99%\""},
		"fewer than no free sessions": {pool("bad", "{autoscaling: {maxReplicas: 5, freeSessions: -5}}"),
			"a number of sessions or a share"},
		"selected by nothing": {pool("bad", "{access: {allowedNamespaces: {from: Selector}}}"),
			"selector is required if from is Selector"},
		"a selector for all": {pool("bad", "{access: {allowedNamespaces: {from: All, selector: "+
			"{matchLabels: {a: b}}}}}"), "selector is required if from is Selector"},
		"another mode": {pool("bad", "{operatingMode: Paused}"),
			"supported values: \"Running\", \"Suspended\""},
		"another type of Service": {pool("bad", "{service: {type: ExternalName}}"),
			"supported values: \"ClusterIP\""},
		"a model without its part": {runWith("bad", "{type: Builtin, builtin: {policy: Noop}}",
			"{type: OpenAI}"), "openAI is required when type is OpenAI"},
		"a model and a policy": {runWith("bad", "type: Builtin", "type: HTTP"),
			"builtin is required when type is Builtin"},
		"a model's URL with a key": {runWith("bad", "{type: Builtin, builtin: {policy: Noop}}",
			"{type: OpenAI, openAI: {baseURL: 'https://m.example/v1?key=x', model: m}}"), "write the endpoint's URL"},
		"too hot": {runWith("bad", "{type: Builtin, builtin: {policy: Noop}}",
			"{type: OpenAI, openAI: {baseURL: 'https://m.example/v1', model: m, temperature: 2.1}}"),
			"less than or equal to 2"},
		"another metric": {run("bad", "thresholds: [{metric: median, min: 0.7}]"),
			"supported values: \"meanScore\""},
		"a threshold twice": {run("bad", "thresholds: [{metric: meanScore, min: 0.7}, {metric: "+
			"meanScore, min: 0.8}]"), "two thresholds limit the same figure"},
		"thresholds of all kinds": {run("gate", "baselineRef: {name: last}", "thresholds: [{metric: meanScore, "+
			"min: 0.7}, {metric: meanScore, task: ticket-resolve, min: 0.7}, {metric: meanScore, category: billing, "+
			"min: 0.6}, {metric: coverage, min: 0.99}, {metric: delta, min: -0.02}, {metric: deltaLow, min: -0.1}]"), ""},
		"a threshold of a category twice": {run("bad", "thresholds: [{metric: passRate, category: a, min: 0.7}, "+
			"{metric: passRate, category: a, min: 0.8}]"), "two thresholds limit the same figure"},
		"a threshold of a task and a category": {run("bad", "thresholds: [{metric: passRate, task: a, category: b, "+
			"min: 0.7}]"), "task and category can't be combined"},
		"a task's coverage": {run("bad", "thresholds: [{metric: coverage, task: a, min: 0.7}]"),
			"has only the metrics meanScore, meanScoreLow and passRate"},
		"a mean below 0": {run("bad", "thresholds: [{metric: meanScore, min: -0.1}]"),
			"min must be at least 0, except for delta"},
		"a baseline that is the run itself": {run("itself", "baselineRef: {name: itself}"),
			"baselineRef names this run itself"},
		"a difference of seven digits": {run("bad", "baselineRef: {name: last}",
			"thresholds: [{metric: delta, min: -0.0000001}]"), "at most six digits after the point"},
		"a difference to nothing": {run("bad", "thresholds: [{metric: delta, min: 0}]"),
			"a threshold of delta or deltaLow requires baselineRef"},
		"a pool's limit of errored episodes": {pool("capped", "{runs: {maxErroredPercent: 0}}"), ""},
		"a pool's limit above all":           {pool("bad", "{runs: {maxErroredPercent: 101}}"), "less than or equal to 100"},
		"results in two places": {run("bad", "results: {url: 's3://bucket', persistentVolumeClaim: "+
			"{claimName: a}}"), "exactly one of url and persistentVolumeClaim is required"},
		"results nowhere": {run("bad", "results: {}"),
			"exactly one of url and persistentVolumeClaim is required"},
		"results with a password inside": {run("bad", "results: {url: 's3://me:secret@bucket'}"), "write a URL such as s3://"},
		"results with a fragment":        {run("bad", "results: {url: 's3://bucket/a#b'}"), "write a URL such as s3://"},
		"results in a space":             {run("bad", "results: {url: 's3://bucket/a b'}"), "write a URL such as s3://"},
		"results beyond ASCII":           {run("bad", "results: {url: 's3://bucket/läufe'}"), "write a URL such as s3://"},
		"a volume with credentials": {run("bad", "results: {persistentVolumeClaim: {claimName: a}, "+
			"credentialsSecretRef: {name: b}}"), "credentialsSecretRef requires results.url"},

		"an image with an escape": {pool("bad", `{image: "a\x1b[2J"}`), "name an image"},
		"a judge's URL with an escape": {pool("bad",
			`{judge: {type: LLM, llm: {baseURL: "https://m.example/\x1b", model: m}}}`), "write the endpoint's URL"},
		"an agent's URL with an escape": {runWith("bad", "{type: Builtin, builtin: {policy: Noop}}",
			`{type: HTTP, http: {url: "https://m.example\x1b/"}}`), "write a URL like http://"},

		"another environment": {pool("bad", "{environment: Chess}"),
			"supported values: \"Ticket\", \"Workflow\""},
		"no image":              {pool("bad", "{image: ''}"), "spec.image"},
		"too many servers":      {pool("bad", "{replicas: 1001}"), "less than or equal to 1000"},
		"fewer than no servers": {pool("bad", "{replicas: -1}"), "greater than or equal to 0"},
		"no sessions":           {pool("bad", "{sessions: {perPod: 0}}"), "greater than or equal to 1"},
		"too many sessions":     {pool("bad", "{sessions: {perPod: 100001}}"), "less than or equal to 100000"},
		"an endless drain":      {pool("bad", "{drainTimeoutSeconds: 86401}"), "less than or equal to 86400"},
		"another reward mode":   {pool("bad", "{rewardMode: dense}"), "supported values: \"Dense\", \"Terminal\""},
		"another customer": {pool("bad", "{environment: Workflow, customer: {type: Person}}"),
			`supported values: "Template", "LLM"`},
		"a customer without a model": {pool("bad", "{environment: Workflow, customer: {type: LLM}}"),
			"llm is required if type is LLM"},
		"a customer of tickets": {pool("bad", "{environment: Ticket, customer: {type: LLM, llm: {baseURL: "+
			"'https://models.example/v1', model: m}}}"), "a model can be the customer of conversations alone"},
		"another judge": {pool("bad", "{judge: {type: Oracle}}"),
			"supported values: \"Offline\", \"LLM\""},
		"no model": {pool("bad", "{judge: {type: LLM}}"), "llm is required if type is LLM"},
		"a model for nothing": {pool("bad", "{judge: {llm: {baseURL: 'https://models.example/v1', model: m}}}"),
			"llm is required if type is LLM"},
		"a judge's relative URL": {pool("bad", "{judge: {type: LLM, llm: {baseURL: models.example, model: m}}}"),
			"write the endpoint's URL"},
		"a judge with a password": {pool("bad",
			"{judge: {type: LLM, llm: {baseURL: 'https://me:secret@models.example/v1', model: m}}}"), "write the endpoint's URL"},
		"a judge with a user": {pool("bad",
			"{judge: {type: LLM, llm: {baseURL: 'https://me@models.example/v1', model: m}}}"), "write the endpoint's URL"},
		"a judge's URL with a query": {pool("bad",
			"{judge: {type: LLM, llm: {baseURL: 'https://models.example/v1?key=secret', model: m}}}"), "write the endpoint's URL"},
		"a judge's host with a query": {pool("bad",
			"{judge: {type: LLM, llm: {baseURL: 'https://models.example?key=secret', model: m}}}"), "write the endpoint's URL"},
		"a judge's URL with a part": {pool("bad",
			"{judge: {type: LLM, llm: {baseURL: 'https://models.example/v1#chat', model: m}}}"), "write the endpoint's URL"},
		"a judge without host": {pool("bad", "{judge: {type: LLM, llm: {baseURL: 'https:///v1', model: m}}}"),
			"write the endpoint's URL"},
		"a model with a space": {pool("bad", "{judge: {type: LLM, llm: {baseURL: 'https://models.example/v1', "+
			"model: 'a b'}}}"), "name the model"},
		"a model beyond ASCII": {pool("bad", "{judge: {type: LLM, llm: {baseURL: 'https://models.example/v1', "+
			"model: 'modèle'}}}"), "name the model"},
		"a pack of nothing": {pool("bad", "{scenarios: {packs: [{}]}}"), "exactly one of configMap and secret"},
		"a pack of two things": {pool("bad", "{scenarios: {packs: [{configMap: {name: a}, secret: {name: a}}]}}"),
			"exactly one of configMap and secret"},
		"a split that isn't": {pool("bad", "{scenarios: {splits: [Public]}}"),
			"supported values: \"Train\", \"Dev\", \"Test\", \"Private\""},
		"a label of csenv's own": {pool("bad", "{template: {labels: {csenv.dev/environment: other}}}"),
			"label prefixes csenv.dev/ and app.kubernetes.io/ are reserved"},
		"a name of Kubernetes' own": {pool("bad", "{template: {labels: {app.kubernetes.io/component: runner}}}"),
			"are reserved"},
		"an annotation of csenv's": {pool("bad", "{template: {annotations: {csenv.dev/template-hash: '1'}}}"),
			"are reserved"},
		"an unconfined container": {pool("bad", "{template: {annotations: "+
			"{container.apparmor.security.beta.kubernetes.io/envserver: unconfined}}}"),
			"AppArmor and seccomp profiles can't be set"},
		"a variable of csenv's own": {pool("bad", "{template: {env: [{name: CSENV_JUDGE_API_KEY, value: x}]}}"),
			"are reserved"},
		"another memory limit": {pool("bad", "{template: {env: [{name: GOMEMLIMIT, value: '1'}]}}"),
			"set resources.limits.memory"},
		"sessions by a variable": {pool("bad", "{template: {env: [{name: MAX_CONCURRENT_ENVS, value: '1'}]}}"),
			"set sessions.perPod"},
		"a Service's own annotation": {pool("bad", "{service: {annotations: {csenv.dev/applied-hash: '1'}}}"),
			"the annotation prefix csenv.dev/ is reserved"},
		"a pool's name too long":     {pool(strings.Repeat("a", 51), "{}"), "at most 50 lower-case letters"},
		"a pool's name with a dot":   {pool("a.b", "{}"), "at most 50 lower-case letters"},
		"a pool's name with a digit": {pool("'1st'", "{}"), "beginning with a letter"},

		"no environment": {runWith("bad", "environmentRef: {name: support}, ", ""),
			"spec.environmentRef: Required value"},
		"an environment without name": {runWith("bad", "{name: support}", "{}"),
			"spec.environmentRef.name: Required value"},
		"no agent": {runWith("bad", "agent: {type: Builtin, builtin: {policy: Noop}}, ", ""),
			"spec.agent: Required value"},
		"no policy": {runWith("bad", "{type: Builtin, builtin: {policy: Noop}}",
			"{type: Builtin}"), "builtin is required when type is Builtin"},
		"another policy": {runWith("bad", "Noop", "Genius"),
			"supported values: \"Heuristic\", \"Random\", \"Oracle\", \"Noop\", \"Null\""},
		"the other name of Noop": {strings.Replace(run("noop"), "Noop", "'Null'", 1), ""},
		"a pool's name too long for pools": {strings.Replace(run("bad"), "{name: support}", "{name: "+
			strings.Repeat("a", 51)+"}", 1), "may not be more than 50"},
		"replicas beside autoscaling": {pool("bad", "{replicas: 3, autoscaling: {maxReplicas: 5}}"),
			"replicas can't be combined with autoscaling"},
		"another agent": {runWith("bad", "type: Builtin", "type: Human"),
			"supported values: \"Builtin\", \"OpenAI\", \"HTTP\", \"Container\", \"External\""},
		"no tasks": {runWith("bad", "[{name: ticket-resolve}]", "[]"), "at least 1 items"},
		"no word of tasks": {runWith("bad", ", tasks: [{name: ticket-resolve}]", ""),
			"tasks is required unless agent.type is External"},
		"trainers' tasks": {rollouts("bad", "{type: External}", "tasks: [{name: a}]"),
			"tasks is forbidden when agent.type is External"},
		"trainers' results": {rollouts("bad", "{type: External}", "results: {url: 's3://b'}"),
			"results is forbidden when agent.type is External"},
		"trainers' pods": {rollouts("bad", "{type: External}", "template: {labels: {a: b}}"),
			"template is forbidden when agent.type is External"},
		"no rollouts": {rollouts("bad", "{type: External, external: {episodes: 0}}"),
			"greater than or equal to 1"},
		"too many rollouts": {rollouts("bad", "{type: External, external: {episodes: 2147483649}}"),
			"less than or equal to 2147483648"},
		"trainers and a policy": {rollouts("bad", "{type: External, builtin: {policy: Noop}}"),
			"builtin is required when type is Builtin, and forbidden otherwise"},
		"a policy and trainers": {runWith("bad", "policy: Noop}", "policy: Noop}, external: {}"),
			"external is forbidden unless type is External"},
		"17 tasks": {runWith("bad", "[{name: ticket-resolve}]", tasks(17)),
			"must have at most 16 items"},
		"a task twice": {runWith("bad", "[{name: ticket-resolve}]", "[{name: a}, {name: a}]"),
			"Duplicate value"},
		"a task's name in capitals": {runWith("bad", "ticket-resolve", "Resolve"), "name a task"},
		"no trials": {runWith("bad", "ticket-resolve", "a, trials: 0"),
			"greater than or equal to 1"},
		"too many trials": {runWith("bad", "ticket-resolve", "a, trials: 1001"),
			"less than or equal to 1000"},
		"a scenario twice": {runWith("bad", "ticket-resolve", "a, scenarios: {ids: [B01, B01]}"),
			"Duplicate value"},
		"too many categories": {runWith("bad", "ticket-resolve", "a, scenarios: {categories: ["+
			numbered("family", 33)+"]}"), "must have at most 32 items"},
		"too many modifiers": {runWith("bad", "ticket-resolve", "a, scenarios: {modifiers: ["+
			numbered("modifier", 65)+"]}"), "must have at most 64 items"},
		"a modifier twice": {runWith("bad", "ticket-resolve", "a, scenarios: {modifiers: [plus, plus]}"),
			"Duplicate value"},
		"a nameless modifier": {runWith("bad", "ticket-resolve", "a, scenarios: {modifiers: ['']}"),
			"should be at least 1 chars long"},
		"another difficulty": {runWith("bad", "ticket-resolve", "a, scenarios: {difficulties: [Hard]}"),
			"supported values: \"easy\", \"medium\", \"hard\", \"simple\", \"complex\""},
		"a split of the servers' names": {runWith("bad", "ticket-resolve", "a, scenarios: {splits: [public-test]}"),
			"supported values: \"Train\", \"Dev\", \"Test\", \"Private\""},
		"a scenario of a long name": {runWith("bad", "ticket-resolve", "a, scenarios: {ids: ["+strings.Repeat("x",
			33)+"]}"), "may not be more than 32"},
		"a negative seed": {run("bad", "seed: -1"), "greater than or equal to 0"},
		"a seed beyond 2^53": {run("bad", "seed: 9007199254740992"),
			"less than or equal to 9007199254740991"},
		"another pressure":      {run("bad", "pressure: true"), "spec.pressure"},
		"no runners":            {run("bad", "parallelism: 0"), "greater than or equal to 1"},
		"no episodes in flight": {run("bad", "concurrency: 0"), "greater than or equal to 1"},
		"a pass score above 1":  {run("bad", "passScore: 1.01"), "less than or equal to 1"},
		"a pass score of seven digits": {run("bad", "passScore: 0.1234567"),
			"at most six digits after the point"},
		"a pass score in quotes": {run("bad", "passScore: '0.8'"), `must be of type number: "string"`},
		"a temperature of five digits": {runWith("bad", "{type: Builtin, builtin: {policy: Noop}}",
			"{type: OpenAI, openAI: {baseURL: 'https://m.example/v1', model: m, temperature: 0.00002}}"),
			"at most four digits after the point"},
		"a minimum of seven digits": {run("bad", "thresholds: [{metric: passRate, min: 0.0000015}]"),
			"at most six digits after the point"},
		"no attempts":           {run("bad", "retries: {episodeAttempts: 0}"), "greater than or equal to 1"},
		"more than all errored": {run("bad", "retries: {maxErroredPercent: 101}"), "less than or equal to 100"},
		"a run's name too long": {run(strings.Repeat("a", 51)), "at most 50 lower-case letters"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.Create(t.Context(), parse(t, tt.manifest), client.DryRunAll)
			expect(t, err, tt.wantErr)
		})
	}
}

func expect(t *testing.T, err error, words string) {
	t.Helper()
	switch {
	case words == "" && err != nil:
		t.Errorf("refused: %v", err)
	case words != "" && err == nil:
		t.Errorf("accepted, want %q", words)
	case words != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), words)):
		t.Errorf("refused with %v, want %q", err, words)
	}
}

func tasks(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("{name: task-%d}", i)
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// numbered lists n names in YAML.
func numbered(name string, n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", name, i)
	}
	return strings.Join(names, ", ")
}
