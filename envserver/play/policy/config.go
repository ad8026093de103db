package policy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/tracing"
	"github.com/csenv/csenv/scenarios"
)

// Config is the agent: the JSON of an EvaluationRun's spec.agent, without its secrets and the
// fields of its pod.
type Config struct {
	Type      Type             `json:"type"`
	Builtin   *BuiltinConfig   `json:"builtin,omitempty"`
	OpenAI    *OpenAIConfig    `json:"openAI,omitempty"`
	HTTP      *HTTPConfig      `json:"http,omitempty"`
	Container *ContainerConfig `json:"container,omitempty"`
}

// Type is a kind of agent.
type Type string

// The types of agents that a runner can play.
const (
	TypeBuiltin   Type = "Builtin"
	TypeOpenAI    Type = "OpenAI"
	TypeHTTP      Type = "HTTP"
	TypeContainer Type = "Container"
)

// BuiltinConfig names a policy that comes with csenv.
type BuiltinConfig struct {
	// Policy is one of Names.
	Policy string `json:"policy"`
}

// OpenAIConfig is a model behind an OpenAI-compatible endpoint. BaseURL and Model are required.
type OpenAIConfig struct {
	// BaseURL is the endpoint up to its version, to which /chat/completions is added.
	BaseURL string `json:"baseURL"`
	Model   string `json:"model"`
	// Mode is ModeTools unless set.
	Mode Mode `json:"mode,omitempty"`
	// Temperature is from 0 to 2, "" for the endpoint's own default.
	Temperature json.Number `json:"temperature,omitempty"`
	// MaxTokens bounds one answer, 0 for the endpoint's own default.
	MaxTokens int64 `json:"maxTokens,omitempty"`
	// MaxConversationBytes bounds the messages of a request other than instructions, 96 KiB unless
	// set.
	MaxConversationBytes int `json:"maxConversationBytes,omitempty"`
	// RequestsPerMinute bounds the requests of all processes that share the endpoint, 0 for none.
	RequestsPerMinute int `json:"requestsPerMinute,omitempty"`
	// TimeoutSeconds bounds one request, 120 unless set.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
	// SystemPrompt replaces csenv's instructions.
	SystemPrompt string `json:"systemPrompt,omitempty"`
	// ExtraBody is a JSON object whose members are added to every request.
	ExtraBody json.RawMessage `json:"extraBody,omitempty"`
}

// Identity names an agent in traces.
type Identity struct {
	Name, Provider string
}

// Identity returns the model of an agent, its policy, or the host of its URL.
func (c Config) Identity() Identity {
	switch {
	case c.OpenAI != nil:
		return Identity{c.OpenAI.Model, semconv.GenAIProviderNameOpenAI.Value.AsString()}
	case c.Builtin != nil:
		return Identity{c.Builtin.Policy, tracing.Provider}
	case c.Container != nil:
		return Identity{c.Container.address(), tracing.Provider}
	}
	return Identity{hostOf(c.HTTP.URL), tracing.Provider}
}

// hostOf is the host and the port of a valid URL.
func hostOf(base string) string {
	at, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return at.Host
}

// Mode is how a model returns its actions.
type Mode string

// The modes of a model.
const (
	ModeTools Mode = "Tools"
	ModeJSON  Mode = "JSON"
)

// HTTPConfig is a policy behind a URL.
type HTTPConfig struct {
	URL string `json:"url"`
	// TimeoutSeconds bounds one request, 120 unless set.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
}

// ContainerConfig is a policy on a port of this machine.
type ContainerConfig struct {
	// Port is 8080 unless set, and Path is "/".
	Port int    `json:"port,omitempty"`
	Path string `json:"path,omitempty"`
	// TimeoutSeconds bounds one request, 120 unless set.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
}

const (
	defaultTimeoutSeconds = 120
	defaultPort           = 8080
	maxTimeoutSeconds     = 3600
)

// Options are an agent's settings outside its Config.
type Options struct {
	// Environment is "ticket" or "workflow".
	Environment string
	// Catalog is read by Oracle alone.
	Catalog *scenarios.Catalog
	// Key is the bearer token of the agent's endpoint, "" for none.
	Key string
	// IDKey keys the ids of episodes that the agent receives, "" without a run's credential.
	IDKey string
	// HTTPClient sends the requests to an endpoint; nil for one without bounds of its own.
	HTTPClient *http.Client
	// Share is the number of processes that share requestsPerMinute evenly; 0 is 1.
	Share int
	// Concurrency bounds the requests in flight, one for each episode that is played; 0 is 1.
	Concurrency int
	// Wait waits between two requests to an endpoint; nil for the real time.
	Wait func(ctx context.Context, d time.Duration) error
}

// wait is Wait, or the real one.
func (o Options) wait() func(context.Context, time.Duration) error {
	if o.Wait == nil {
		return endpoint.SleepContext
	}
	return o.Wait
}

// ParseConfig reads the JSON of a Config and checks it.
func ParseConfig(data []byte) (Config, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var c Config
	if err := dec.Decode(&c); err != nil {
		return Config{}, fmt.Errorf("reading the agent: %w", err)
	}
	if dec.More() {
		return Config{}, errors.New("reading the agent: text follows its JSON object")
	}
	return c, c.Validate()
}

// Validate checks the config.
func (c Config) Validate() error {
	parts := map[Type]bool{TypeBuiltin: c.Builtin != nil, TypeOpenAI: c.OpenAI != nil, TypeHTTP: c.HTTP != nil,
		TypeContainer: c.Container != nil}
	has, known := parts[c.Type]
	if !known {
		return fmt.Errorf("the agent's type is %q: use one of %s, %s, %s, %s", c.Type, TypeBuiltin, TypeOpenAI,
			TypeHTTP, TypeContainer)
	}
	for part, given := range parts {
		if given && part != c.Type {
			return fmt.Errorf("the agent's type is %s, but it has settings of type %s: leave them out", c.Type, part)
		}
	}
	if !has {
		return fmt.Errorf("the settings of an agent of type %s are missing: add the object of that name", c.Type)
	}
	switch c.Type {
	case TypeBuiltin:
		return nil // Builtin knows its policies
	case TypeOpenAI:
		return c.OpenAI.validate()
	case TypeHTTP:
		return errors.Join(validURL(c.HTTP.URL), validTimeout(c.HTTP.TimeoutSeconds))
	default:
		return c.Container.validate()
	}
}

const (
	maxModel        = 128
	maxSystemPrompt = 32 << 10
	maxURL          = 1024
)

func (c *OpenAIConfig) validate() error {
	errs := []error{validTimeout(c.TimeoutSeconds)}
	if err := endpoint.CheckBase(c.BaseURL); err != nil {
		errs = append(errs, fmt.Errorf("the agent's baseURL is no URL of an endpoint: %w", err))
	}
	if len(c.BaseURL) > maxURL {
		errs = append(errs, fmt.Errorf("the agent's baseURL has %d characters: it can have %d", len(c.BaseURL), maxURL))
	}
	if c.Model == "" || len(c.Model) > maxModel ||
		strings.ContainsFunc(c.Model, func(r rune) bool { return r <= ' ' || r > '~' }) {
		errs = append(errs, fmt.Errorf("the agent's model is %.40q: name the endpoint's model in at most %d ASCII "+
			"characters without spaces", c.Model, maxModel))
	}
	if !slices.Contains([]Mode{"", ModeTools, ModeJSON}, c.Mode) {
		errs = append(errs, fmt.Errorf("the agent's mode is %.40q: choose %s or %s", c.Mode, ModeTools, ModeJSON))
	}
	if t, err := c.parseTemperature(); err != nil || !(t >= 0 && t <= 2) { // nor NaN
		errs = append(errs, fmt.Errorf("the agent's temperature is %.40s: use a number from 0 to 2", c.Temperature))
	}
	if c.MaxTokens < 0 || c.RequestsPerMinute < 0 {
		errs = append(errs, errors.New("the agent's maxTokens and requestsPerMinute must be positive"))
	}
	if n := c.MaxConversationBytes; n != 0 && n < minConversation {
		errs = append(errs, fmt.Errorf("the agent's maxConversationBytes is %d: it is at least %d", n,
			minConversation))
	}
	if n := utf8.RuneCountInString(c.SystemPrompt); n > maxSystemPrompt {
		errs = append(errs, fmt.Errorf("the agent's systemPrompt has %d characters: it can have %d", n,
			maxSystemPrompt))
	}
	if _, err := c.parseExtraBody(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c *OpenAIConfig) parseTemperature() (float64, error) {
	if c.Temperature == "" {
		return 0, nil
	}
	return c.Temperature.Float64()
}

// ownMembers are the members of a request that csenv sets itself.
var ownMembers = []string{"messages", "model", "n", "stream", "tools"}

// parseExtraBody returns the members to add to every request.
func (c *OpenAIConfig) parseExtraBody() (map[string]json.RawMessage, error) {
	if len(c.ExtraBody) == 0 {
		return nil, nil
	}
	var extra map[string]json.RawMessage
	if err := json.Unmarshal(c.ExtraBody, &extra); err != nil {
		return nil, errors.New("the agent's extraBody must be a JSON object")
	}
	for _, name := range ownMembers {
		if _, given := extra[name]; given {
			return nil, fmt.Errorf("the agent's extraBody holds %q, which csenv sets itself: leave it out", name)
		}
	}
	return extra, nil
}

func (c *ContainerConfig) validate() error {
	errs := []error{validTimeout(c.TimeoutSeconds)}
	if c.Port < 0 || c.Port > 65535 {
		errs = append(errs, fmt.Errorf("the agent's port is %d: it is from 1 to 65535", c.Port))
	}
	if c.Path != "" && (c.Path[0] != '/' || strings.ContainsAny(c.Path, "# \t\r\n")) {
		errs = append(errs, fmt.Errorf("the agent's path is %.40q: it begins with / and holds no space and no #",
			c.Path))
	}
	return errors.Join(errs...)
}

// address is the container's, in the runner's pod.
func (c *ContainerConfig) address() string {
	return fmt.Sprintf("localhost:%d", cmp.Or(c.Port, defaultPort))
}

func (c *ContainerConfig) url() string { return "http://" + c.address() + cmp.Or(c.Path, "/") }

// validURL checks a program's URL. The error doesn't quote it, because URLs may contain secrets.
func validURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || len(text) > maxURL ||
		strings.ContainsAny(text, "# \t\r\n") {
		return fmt.Errorf("the agent's url must be http(s)://host[:port]/path of at most %d characters, without a "+
			"user, a password or a fragment", maxURL)
	}
	return nil
}

func validTimeout(seconds int) error {
	if seconds < 0 || seconds > maxTimeoutSeconds {
		return fmt.Errorf("the agent's timeoutSeconds is %d: it is from 1 to %d", seconds, maxTimeoutSeconds)
	}
	return nil
}

// requestTimeout is how long one request to the agent may take, 0 for an agent without an endpoint.
func (c Config) requestTimeout() time.Duration {
	var seconds int
	switch {
	case c.OpenAI != nil:
		seconds = c.OpenAI.TimeoutSeconds
	case c.HTTP != nil:
		seconds = c.HTTP.TimeoutSeconds
	case c.Container != nil:
		seconds = c.Container.TimeoutSeconds
	default:
		return 0
	}
	return time.Duration(cmp.Or(seconds, defaultTimeoutSeconds)) * time.Second
}
