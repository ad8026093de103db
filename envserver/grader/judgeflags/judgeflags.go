// Package judgeflags contains the flags that select the judge of replies.
package judgeflags

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/llm"
	"github.com/csenv/csenv/envserver/grader/offline"
)

// The values of --judge.
const (
	offlineJudge = "offline"
	llmJudge     = "llm"
)

// Options are the flags' values.
type Options struct {
	Type    string
	Model   llm.Config
	KeyFile string

	flags *pflag.FlagSet // set by AddFlags
}

// DefaultOptions is the offline judge.
func DefaultOptions() Options {
	return Options{Type: offlineJudge, Model: llm.Config{
		Timeout: llm.DefaultTimeout, MaxConcurrency: llm.DefaultMaxConcurrency, Votes: llm.DefaultVotes,
		OnFailure: llm.FailureIsError, CacheMode: llm.CacheReadWrite,
	}}
}

// AddFlags adds the flags, with the current options as defaults.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	m := &o.Model
	o.flags = f
	f.StringVar(&o.Type, "judge", o.Type, "judge of replies: offline (facts compared exactly; the letter not "+
		"judged) or llm (letter judged by a language model)")
	f.StringVar(&m.BaseURL, "judge-base-url", m.BaseURL, "OpenAI-compatible `URL` of the judge's endpoint, such as "+
		"https://api.openai.com/v1")
	f.StringVar(&m.Model, "judge-model", m.Model, "name of the judge's model at its endpoint; use a dated version")
	f.StringVar(&o.KeyFile, "judge-api-key-file", o.KeyFile,
		"`file` with the key of the judge's endpoint; the variable "+envvars.JudgeKey+" can have the key instead")
	f.DurationVar(&m.Timeout, "judge-timeout", m.Timeout, "maximum time for the judging in a step, with all that is "+
		"repeated; stock clients wait 60s for a step, their message_timeout_s")
	f.IntVar(&m.MaxConcurrency, "judge-max-concurrency", m.MaxConcurrency,
		"maximum number of concurrent requests to the judge's endpoint, in all sessions together; lowered while the "+
			"endpoint answers that there are too many")
	f.IntVar(&m.Votes, "judge-votes", m.Votes, "number of votes on a reply that is hard to judge; 1 means a single "+
		"judgement for every reply")
	f.StringVar((*string)(&m.OnFailure), "judge-on-failure", string(m.OnFailure),
		"what happens to a reply that the model couldn't judge: error (no score) or offline (facts compared "+
			"exactly, on a mixed scale)")
	f.StringVar((*string)(&m.CacheMode), "judge-cache", string(m.CacheMode),
		"how stored verdicts are used: readwrite, read, write, off, or frozen (the model is never asked)")
	f.StringVar(&m.CacheDir, "judge-cache-dir", m.CacheDir, "`folder` that keeps verdicts after this process ends; "+
		"servers may share it")
}

// FromEnvironment reads the key from the environment.
func (o *Options) FromEnvironment(lookup func(string) (string, bool)) {
	if key, ok := lookup(envvars.JudgeKey); ok && o.Type == llmJudge {
		o.Model.APIKey = strings.TrimSpace(key)
	}
}

// Validate returns an error for invalid options.
func (o *Options) Validate() error {
	switch {
	case o.Type == offlineJudge:
		return o.Stray()
	case o.Type != llmJudge:
		return fmt.Errorf("--judge is %q: choose offline or llm", o.Type)
	case o.Model.Timeout <= 0 || o.Model.MaxConcurrency <= 0 || o.Model.Votes <= 0:
		return errors.New("--judge-timeout, --judge-max-concurrency and --judge-votes must be positive")
	}
	if err := o.Model.Validate(); err != nil {
		return fmt.Errorf("--judge-*: %w", err)
	}
	return nil
}

// Stray returns an error if flags of the model are set although the judge is offline.
func (o *Options) Stray() error {
	if o.flags == nil || o.Type == llmJudge {
		return nil
	}
	var given []string
	o.flags.Visit(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, "judge-") {
			given = append(given, "--"+f.Name)
		}
	})
	if len(given) == 0 {
		return nil
	}
	return fmt.Errorf("%s given, but --judge is %s: add --judge llm, or leave them out",
		strings.Join(given, ", "), o.Type)
}

// New makes the judge of replies.
func (o *Options) New() (grader.Judge, error) {
	if o.Type == offlineJudge {
		return offline.New(), nil
	}
	config := o.Model
	if o.KeyFile != "" {
		key, err := os.ReadFile(o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading the judge's key: %w", err)
		}
		if config.APIKey = string(bytes.TrimSpace(key)); config.APIKey == "" {
			return nil, fmt.Errorf("the judge's key file %s is empty: put the endpoint's key into it", o.KeyFile)
		}
	}
	judge, err := llm.New(config, offline.New())
	if err != nil {
		return nil, fmt.Errorf("making the judge: %w", err)
	}
	return judge, nil
}
