package modelflags

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/csenv/csenv/envserver/envvars"
)

func TestCustomerFlags(t *testing.T) {
	endpoint := []string{"--customer-model", "m", "--customer-base-url", "https://h/v1"}
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"none":           {nil, ""},
		"a model":        {append([]string{"--customer", "llm"}, endpoint...), ""},
		"a stray model":  {endpoint, "--customer-base-url, --customer-model given, but --customer is template"},
		"another":        {[]string{"--customer", "me"}, "choose template or llm"},
		"no time for it": {append([]string{"--customer", "llm", "--customer-timeout", "0s"}, endpoint...), "must be positive"},
		"no endpoint":    {[]string{"--customer", "llm", "--customer-model", "m"}, "customer's base URL"},
	} {
		t.Run(name, func(t *testing.T) {
			o, flags := DefaultCustomer(), pflag.NewFlagSet("test", pflag.ContinueOnError)
			o.AddFlags(flags)
			if err := flags.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			err := o.Validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestCustomerKey(t *testing.T) {
	o := DefaultCustomer()
	o.Type, o.Model.Model, o.Model.BaseURL = "llm", "m", "https://h/v1"
	o.FromEnvironment(func(name string) (string, bool) { return " key\n", name == envvars.CustomerKey })
	if o.Model.APIKey != "key" {
		t.Errorf("the key is %q", o.Model.APIKey)
	}
	o.KeyFile = filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(o.KeyFile, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := o.New(); err == nil || !strings.Contains(err.Error(), "the customer's key file") {
		t.Errorf("an empty file: %v", err)
	}
}
