package v1alpha1

// CustomerType names the customer of conversations.
// +kubebuilder:validation:Enum=Template;LLM
type CustomerType string

const (
	// TemplateCustomer is inside the environment server.
	TemplateCustomer CustomerType = "Template"
	// LLMCustomer is a model behind an OpenAI-compatible endpoint.
	LLMCustomer CustomerType = "LLM"
)

// Customer configures the customer of conversations.
// +kubebuilder:validation:XValidation:rule="self.type == 'LLM' ? has(self.llm) : !has(self.llm)",message="llm is required if type is LLM, and forbidden otherwise"
type Customer struct {
	// type is Template: the customer hears what is stated beside a message, and speaks by
	// templates; or LLM: a model also reads messages beside which nothing is stated, and words the
	// answers. What the customer does is the scenario's with both. Defaults to Template.
	// +kubebuilder:default=Template
	// +optional
	Type CustomerType `json:"type,omitempty"`

	// llm configures the model, if type is LLM.
	// +optional
	LLM *LLMCustomerSpec `json:"llm,omitempty"`
}

// LLMCustomerSpec configures a model behind an OpenAI-compatible endpoint.
type LLMCustomerSpec struct {
	// baseURL is the URL of the endpoint up to its version, for example https://api.openai.com/v1,
	// without user, password, query (but Azure's ?api-version=...) or fragment.
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^https?://[!"$-.0->A-~]+(/[!"$->@-~]*)?(\?api-version=[0-9A-Za-z.-]+)?$')`,message="write the endpoint's URL up to its version, such as https://api.openai.com/v1: with http:// or https:// and a host, without blanks, user, password, fragment, and query (but Azure's ?api-version=)"
	// +required
	BaseURL string `json:"baseURL"`

	// model is the endpoint's name of the model, in printable ASCII without spaces. Prefer a dated
	// version, because another model may say other words.
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

	// timeoutSeconds limits the reading of a message, and the wording of the answer to it, each
	// with waiting and retries, in seconds, from 1 to 300. After it only what is stated counts, or
	// the template's words are said. OpenEnv's stock clients wait 60 seconds for a step (their
	// message_timeout_s): if you allow more than 25, raise that too. Defaults to 20.
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=300
	// +optional
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}
