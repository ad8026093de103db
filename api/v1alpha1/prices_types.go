package v1alpha1

// Prices are prices of tokens, in any currency.
type Prices struct {
	// input is the price of a million tokens of prompts, for example "0.15".
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[0-9]{1,9}(\.[0-9]{1,6})?$')`,message="write a decimal such as 0.15 in quotes, with at most nine digits before the point and six after it"
	// +required
	Input string `json:"input,omitempty"`

	// output is the price of a million tokens of answers, for example "0.60".
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[0-9]{1,9}(\.[0-9]{1,6})?$')`,message="write a decimal such as 0.15 in quotes, with at most nine digits before the point and six after it"
	// +required
	Output string `json:"output,omitempty"`
}

// Budget limits what the agent's model costs in a run. A request begins only while something of it
// is left: each shard gets the share of its episodes, and what others leave of theirs. What a
// request costs isn't known before, so the last one of a shard may exceed it.
// +kubebuilder:validation:MinProperties=1
type Budget struct {
	// maxTokens is the maximum number of tokens of prompts and answers together, from 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000000000
	// +optional
	MaxTokens *int64 `json:"maxTokens,omitempty"`

	// maxCost is the maximum cost by prices, for example "5.00".
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[0-9]{1,9}(\.[0-9]{1,6})?$')`,message="write a decimal such as 0.15 in quotes, with at most nine digits before the point and six after it"
	// +optional
	MaxCost string `json:"maxCost,omitempty"`
}
