package modelflags

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/csenv/csenv/envserver/customer"
	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/envvars"
)

// templateCustomer is the value of --customer for the embedded one.
const templateCustomer = "template"

// Customer are the flags' values.
type Customer struct {
	Type    string
	Model   customer.Config
	KeyFile string

	flags *pflag.FlagSet // set by AddFlags
}

// DefaultCustomer is the embedded customer.
func DefaultCustomer() Customer {
	return Customer{Type: templateCustomer, Model: customer.Config{Whom: "customer",
		Timeout: customer.DefaultTimeout, MaxConcurrency: endpoint.DefaultAskConcurrency}}
}

// AddFlags adds the flags, with the current options as defaults.
func (o *Customer) AddFlags(f *pflag.FlagSet) {
	m := &o.Model
	o.flags = f
	f.StringVar(&o.Type, "customer", o.Type, "customer of conversations: template (hears what is stated beside a "+
		"message, speaks by templates) or llm (a language model reads messages without statements, and words answers)")
	addEndpoint(f, "customer", envvars.CustomerKey, &m.BaseURL, &m.Model, &o.KeyFile)
	f.DurationVar(&m.Timeout, "customer-timeout", m.Timeout, "maximum time for reading a message, and for wording the "+
		"answer to it, each with all that is repeated; what isn't read or worded by then is left to the template")
	addConcurrency(f, "customer", &m.MaxConcurrency)
}

// FromEnvironment reads the key from the environment.
func (o *Customer) FromEnvironment(lookup func(string) (string, bool)) {
	if key, ok := lookup(envvars.CustomerKey); ok && o.Type == model {
		o.Model.APIKey = strings.TrimSpace(key)
	}
}

// Validate returns an error for invalid options.
func (o *Customer) Validate() error {
	switch {
	case o.Type == templateCustomer:
		return o.Stray()
	case o.Type != model:
		return fmt.Errorf("--customer is %q: choose %s or %s", o.Type, templateCustomer, model)
	case o.Model.Timeout <= 0 || o.Model.MaxConcurrency <= 0:
		return errors.New("--customer-timeout and --customer-max-concurrency must be positive")
	}
	if err := o.Model.Validate(); err != nil {
		return fmt.Errorf("--customer-*: %w", err)
	}
	return nil
}

// Stray returns an error if flags of the model are set although there is none.
func (o *Customer) Stray() error {
	return findStray(o.flags, "customer", o.Type)
}

// StepTimeout is how long the customer may take in a step, 0 for the embedded one.
func (o *Customer) StepTimeout() time.Duration {
	if o.Type != model {
		return 0
	}
	return 2 * o.Model.Timeout
}

// New makes the customer, nil for the embedded one.
func (o *Customer) New() (*customer.Customer, error) {
	if o.Type != model {
		return nil, nil
	}
	key, err := readKey("customer", o.KeyFile, o.Model.APIKey)
	if err != nil {
		return nil, err
	}
	config := o.Model
	config.APIKey = key
	made, err := customer.New(config)
	if err != nil {
		return nil, fmt.Errorf("making the customer: %w", err)
	}
	return made, nil
}
