package v1alpha1

// JudgeType names the judge of replies.
// +kubebuilder:validation:Enum=Offline;LLM
type JudgeType string

const (
	// OfflineJudge compares facts exactly, inside the environment server.
	OfflineJudge JudgeType = "Offline"
	// LLMJudge is a model behind an OpenAI-compatible endpoint.
	LLMJudge JudgeType = "LLM"
)

// JudgeFailurePolicy is the handling of a reply that the model can't judge.
// +kubebuilder:validation:Enum=Error;Offline
type JudgeFailurePolicy string

const (
	// JudgeFailureError makes the episode errored: it has no score and is played again.
	JudgeFailureError JudgeFailurePolicy = "Error"
	// JudgeFailureOffline compares facts instead, which is another scale.
	JudgeFailureOffline JudgeFailurePolicy = "Offline"
)

// Judge configures the judge of replies.
// +kubebuilder:validation:XValidation:rule="self.type == 'LLM' ? has(self.llm) : !has(self.llm)",message="llm is required if type is LLM, and forbidden otherwise"
type Judge struct {
	// type is Offline: facts are compared exactly, and the letter isn't judged; or LLM: a model
	// judges the letter. In environment Workflow facts are compared with both, and the model
	// decides whether the letter may be sent and does harm, which caps the score. Scores of the two
	// can't be compared. Defaults to Offline.
	// +kubebuilder:default=Offline
	// +optional
	Type JudgeType `json:"type,omitempty"`

	// llm configures the model, if type is LLM.
	// +optional
	LLM *LLMJudgeSpec `json:"llm,omitempty"`
}

// LLMJudgeSpec configures a model behind an OpenAI-compatible endpoint.
type LLMJudgeSpec struct {
	// baseURL is the URL of the endpoint up to its version, for example https://api.openai.com/v1,
	// without user, password, query (but Azure's ?api-version=...) or fragment.
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^https?://[!"$-.0->A-~]+(/[!"$->@-~]*)?(\?api-version=[0-9A-Za-z.-]+)?$')`,message="write the endpoint's URL up to its version, such as https://api.openai.com/v1: with http:// or https:// and a host, without blanks, user, password, fragment, and query (but Azure's ?api-version=)"
	// +required
	BaseURL string `json:"baseURL"`

	// model is the endpoint's name of the model, in printable ASCII without spaces. Prefer a dated
	// version, because scores of different models can't be compared.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[!-~]+$')`,message="name the model in ASCII without blanks"
	// +required
	Model string `json:"model"`

	// apiKeySecretRef selects the entry of a Secret in the pool's namespace that contains the
	// endpoint's API key. Only the servers read it. If unset, requests carry no key.
	// +optional
	APIKeySecretRef *SecretKeyReference `json:"apiKeySecretRef,omitempty"`

	// maxConcurrency is the maximum number of concurrent requests of one server, from 1 to 1024. It
	// is lowered automatically while the endpoint reports overload. Defaults to 64.
	// +kubebuilder:default=64
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	// +optional
	MaxConcurrency int32 `json:"maxConcurrency,omitempty"`

	// timeoutSeconds limits the judging in one step of an episode, with waiting, retries and votes,
	// in seconds, from 1 to 600. If it passes, onFailure decides. OpenEnv's stock clients wait 60
	// seconds for a step (their message_timeout_s): if you allow more than 50, raise that too.
	// Defaults to 45.
	// +kubebuilder:default=45
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=600
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// onFailure is Error: an episode whose reply can't be judged is errored and played again; or
	// Offline: facts are compared instead, which mixes two scales. Defaults to Error.
	// +kubebuilder:default=Error
	// +optional
	OnFailure JudgeFailurePolicy `json:"onFailure,omitempty"`
}
