// Package modelflags contains the flags of models that a server asks: the judge of replies and the
// customer of conversations.
package modelflags

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// model is the value of --judge and of --customer that asks a model.
const model = "llm"

// addEndpoint adds the flags of a role's endpoint.
func addEndpoint(f *pflag.FlagSet, role, variable string, baseURL, model, keyFile *string) {
	f.StringVar(baseURL, role+"-base-url", *baseURL, "OpenAI-compatible `URL` of the "+role+"'s endpoint, such as "+
		"https://api.openai.com/v1")
	f.StringVar(model, role+"-model", *model, "name of the "+role+"'s model at its endpoint; use a dated version")
	f.StringVar(keyFile, role+"-api-key-file", *keyFile, "`file` with the key of the "+role+"'s endpoint; the "+
		"variable "+variable+" can have the key instead")
}

// addConcurrency adds the flag that bounds the requests to a role's endpoint.
func addConcurrency(f *pflag.FlagSet, role string, most *int) {
	f.IntVar(most, role+"-max-concurrency", *most, "maximum number of concurrent requests to the "+role+"'s endpoint, "+
		"in all sessions together; lowered while the endpoint answers that there are too many")
}

// findStray returns an error if flags of a role's model are set although its kind is another. The
// flags may be nil.
func findStray(flags *pflag.FlagSet, role, kind string) error {
	if flags == nil || kind == model {
		return nil
	}
	var given []string
	flags.Visit(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, role+"-") {
			given = append(given, "--"+f.Name)
		}
	})
	if len(given) == 0 {
		return nil
	}
	return fmt.Errorf("%s given, but --%s is %s: add --%s %s, or leave them out", strings.Join(given, ", "), role, kind,
		role, model)
}

// readKey reads the key of a role's endpoint. Without a file it returns the given one.
func readKey(role, file, given string) (string, error) {
	if file == "" {
		return given, nil
	}
	key, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading the %s's key: %w", role, err)
	}
	if key = bytes.TrimSpace(key); len(key) == 0 {
		return "", fmt.Errorf("the %s's key file %s is empty: put the endpoint's key into it", role, file)
	}
	return string(key), nil
}
