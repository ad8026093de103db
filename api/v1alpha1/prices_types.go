package v1alpha1

// Prices are prices of tokens, in any currency.
type Prices struct {
	// input is the price of a million tokens of prompts, for example "0.15".
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9]{1,9}(\.[0-9]{1,6})?$`
	// +required
	Input string `json:"input,omitempty"`

	// output is the price of a million tokens of answers, for example "0.60".
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9]{1,9}(\.[0-9]{1,6})?$`
	// +required
	Output string `json:"output,omitempty"`
}
