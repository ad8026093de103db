package modelflags

import (
	"errors"
	"fmt"
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
)

// Judge are the flags' values.
type Judge struct {
	Type    string
	Model   llm.Config
	KeyFile string

	flags *pflag.FlagSet // set by AddFlags
}

// DefaultJudge is the offline judge.
func DefaultJudge() Judge {
	return Judge{Type: offlineJudge, Model: llm.Config{
		Timeout: llm.DefaultTimeout, MaxConcurrency: llm.DefaultMaxConcurrency, Votes: llm.DefaultVotes,
		OnFailure: llm.FailureIsError, CacheMode: llm.CacheReadWrite,
	}}
}

// AddFlags adds the flags, with the current options as defaults.
func (o *Judge) AddFlags(f *pflag.FlagSet) {
	m := &o.Model
	o.flags = f
	f.StringVar(&o.Type, "judge", o.Type, "judge of replies: offline (facts compared exactly; the letter not "+
		"judged) or llm (letter judged by a language model)")
	addEndpoint(f, "judge", envvars.JudgeKey, &m.BaseURL, &m.Model, &o.KeyFile)
	f.DurationVar(&m.Timeout, "judge-timeout", m.Timeout, "maximum time for the judging in a step, with all that is "+
		"repeated; stock clients wait 60s for a step, their message_timeout_s")
	addConcurrency(f, "judge", &m.MaxConcurrency)
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
func (o *Judge) FromEnvironment(lookup func(string) (string, bool)) {
	if key, ok := lookup(envvars.JudgeKey); ok && o.Type == model {
		o.Model.APIKey = strings.TrimSpace(key)
	}
}

// Validate returns an error for invalid options.
func (o *Judge) Validate() error {
	switch {
	case o.Type == offlineJudge:
		return o.Stray()
	case o.Type != model:
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
func (o *Judge) Stray() error {
	return findStray(o.flags, "judge", o.Type)
}

// New makes the judge of replies.
func (o *Judge) New() (grader.Judge, error) {
	if o.Type == offlineJudge {
		return offline.New(), nil
	}
	key, err := readKey("judge", o.KeyFile, o.Model.APIKey)
	if err != nil {
		return nil, err
	}
	config := o.Model
	config.APIKey = key
	judge, err := llm.New(config, offline.New())
	if err != nil {
		return nil, fmt.Errorf("making the judge: %w", err)
	}
	return judge, nil
}
