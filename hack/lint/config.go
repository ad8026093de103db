package main

import (
	"fmt"
	"regexp"

	"github.com/OpenPeeDeeP/depguard/v2"
	"go.yaml.in/yaml/v3"
)

// config is what .golangci.yaml says about the linters of this tool.
type config struct {
	Linters struct {
		Settings   settings
		Exclusions struct{ Rules []exclusion }
	}
}

type settings struct {
	Depguard struct {
		Rules map[string]struct {
			ListMode string `yaml:"list-mode"`
			Files    []string
			Allow    []string
			Deny     []struct{ Pkg, Desc string }
		}
	}
	Forbidigo struct {
		Forbid []struct {
			Pattern pattern
			Msg     string
		}
	}
	Importas struct {
		Alias []struct{ Pkg, Alias string }
	}
}

// exclusion is a set of diagnostics that aren't faults. A pattern that is not set matches
// everything.
type exclusion struct {
	Linters            []string
	Path, Text, Source pattern
}

type pattern struct{ *regexp.Regexp }

func (p *pattern) UnmarshalText(text []byte) (err error) {
	p.Regexp, err = regexp.Compile(string(text))
	return err
}

func (p pattern) matches(s string) bool { return p.Regexp == nil || p.MatchString(s) }

// String and Set make the config a flag, whose value is the text.
func (c *config) String() string { return "" }

func (c *config) Set(text string) error {
	if err := yaml.Unmarshal([]byte(text), c); err != nil {
		return fmt.Errorf("reading .golangci.yaml: %w", err)
	}
	if len(c.Linters.Settings.Depguard.Rules) == 0 {
		return fmt.Errorf("the config has no rules of depguard: pass the text of .golangci.yaml, not its name")
	}
	return nil
}

// walls returns the rules of depguard in the form of its library.
func (c *config) walls() *depguard.LinterSettings {
	walls := depguard.LinterSettings{}
	for name, rule := range c.Linters.Settings.Depguard.Rules {
		deny := map[string]string{}
		for _, d := range rule.Deny {
			deny[d.Pkg] = d.Desc
		}
		walls[name] = &depguard.List{ListMode: rule.ListMode, Files: rule.Files, Allow: rule.Allow, Deny: deny}
	}
	return &walls
}
