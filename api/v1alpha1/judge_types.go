package v1alpha1

import (
)

// JudgeType names the judge of replies.
// +kubebuilder:validation:Enum=Offline;LLM
type JudgeType string

const (
	// OfflineJudge is the deterministic judge that is part of the environment server.
	OfflineJudge JudgeType = "Offline"
	// LLMJudge is a model behind an OpenAI-compatible endpoint.
	LLMJudge JudgeType = "LLM"
)

// JudgeFailurePolicy says what becomes of a reply that the model can't judge.
// +kubebuilder:validation:Enum=Error;Offline
type JudgeFailurePolicy string

const (
	// JudgeFailureError makes the episode errored: it has no score and is played again.
	JudgeFailureError JudgeFailurePolicy = "Error"
	// JudgeFailureOffline has the offline judge grade the reply instead, on a scale of its own.
	JudgeFailureOffline JudgeFailurePolicy = "Offline"
)

// Judge chooses who grades replies.
// +kubebuilder:validation:XValidation:rule="self.type == 'LLM' ? has(self.llm) : !has(self.llm)",message="llm says which model judges: give it with type LLM, and only then"
type Judge struct {
	// type is Offline: the deterministic judge inside the environment server, which calls nobody;
	// or LLM: a model judges what words alone can show, while facts with values, promises and gates
	// stay with rules.
	// +kubebuilder:default=Offline
	// +optional
	Type JudgeType `json:"type,omitempty"`

	// llm is the model that judges, with type LLM.
	// +optional
	LLM *LLMJudgeSpec `json:"llm,omitempty"`
}

// LLMJudgeSpec is a model behind an OpenAI-compatible endpoint.
type LLMJudgeSpec struct {
	// baseURL is the endpoint up to its version, for example https://api.openai.com/v1: without a
	// user, a password, a query or a fragment.
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern="^https?://[^\\s@/?#]+(/[^\\s?#]*)?$"
	// +required
	BaseURL string `json:"baseURL"`

	// model is what the endpoint calls the model, in printable ASCII without spaces. Prefer a dated
	// version: scores of different models can't be compared.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern="^[!-~]+$"
	// +required
	Model string `json:"model"`

	// apiKeySecretRef is where the key of the endpoint is. The servers read it; the operator never
	// does.
	// +optional
	APIKeySecretRef *SecretKeyReference `json:"apiKeySecretRef,omitempty"`

	// maxConcurrency is the number of requests that one server has in flight at the same time, from
	// 1 to 1024. It shrinks by itself where the endpoint answers that it is too much. Defaults to
	// 64.
	// +kubebuilder:default=64
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	// +optional
	MaxConcurrency int32 `json:"maxConcurrency,omitempty"`

	// timeoutSeconds bounds the judging of one reply, all repetitions included, in seconds, from 1
	// to 600. Defaults to 60.
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=600
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// onFailure is Error: an episode whose reply can't be judged is errored and played again; or
	// Offline: the offline judge grades it, which mixes two scales. Defaults to Error.
	// +kubebuilder:default=Error
	// +optional
	OnFailure JudgeFailurePolicy `json:"onFailure,omitempty"`
}
