package modelflags

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestFlagsWithoutAModel(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"none":    {nil, ""},
		"offline": {[]string{"--judge", "offline"}, ""},
		"a model": {[]string{"--judge", "llm", "--judge-model", "m", "--judge-base-url", "https://h/v1"}, ""},
		"no model": {[]string{"--judge-model", "m", "--judge-base-url", "https://h/v1"},
			"--judge-base-url, --judge-model given, but --judge is offline: add --judge llm"},
		"the default":    {[]string{"--judge-votes", "3"}, "--judge-votes given"},
		"another":        {[]string{"--judge", "me"}, "choose offline or llm"},
		"a key in vain":  {[]string{"--judge-api-key-file", "key"}, "--judge-api-key-file given"},
		"no votes at it": {[]string{"--judge", "llm", "--judge-votes", "0"}, "must be positive"},
	} {
		t.Run(name, func(t *testing.T) {
			o, flags := DefaultJudge(), pflag.NewFlagSet("test", pflag.ContinueOnError)
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
