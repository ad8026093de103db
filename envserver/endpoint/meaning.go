package endpoint

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// What an answer means is decided here alone. Failed decides for answers that are errors, and
// decide for those that a model may have written. If neither recognises what it sees, the answer is
// a failure of the endpoint that names it.

// endings say what reasons for the end of an answer mean, the first that matches. Slipped and cut
// answers are the model's own.
var endings = []struct {
	words   *regexp.Regexp
	class   Class
	slip    bool
	cut     bool
	refusal bool
}{
	{words: regexp.MustCompile(`^$|^stop|^eos|^end|^tool|^function_calls?$|^complete|^done|^success|^normal`)},
	{words: regexp.MustCompile(`malformed|unexpected_tool|too_many_tool`), slip: true},
	{words: regexp.MustCompile(`length|max.*token|context|truncat|incomplete`), cut: true},
	{words: regexp.MustCompile(`refus`), refusal: true},
	{words: regexp.MustCompile(`filter|safety|sensitive|recitation|block|prohibited|spii|guardrail|moderat`),
		class: Filtered},
	{words: regexp.MustCompile(`error|fail|abort|cancel|insufficient|overload|time|unavailable|interrupt|load|network`),
		class: ServerError},
}

// meaning is what an error means by its words, where the status alone doesn't decide.
type meaning struct {
	class Class
	words *regexp.Regexp
	// applies are the statuses with which the words count.
	applies func(status int) bool
}

// ofRequests are errors about a request, and ofServices those of a service behind a gateway that
// answers with a status of another meaning.
var (
	ofRequests = []meaning{
		{Rejected, regexp.MustCompile(`(?i)insufficient_(quota|balance)`), func(int) bool { return true }},
		{TooLong, regexp.MustCompile(`(?i)context[_ ](length|window|size|limit)|context_size|request too large|` +
			`(prompt|input|request|conversation|messages?) (is|are|was) too (long|large)|reduce the length|` +
			`maximum (prompt|input|model) length|too many (input )?tokens|token count.{0,80}exceed|` +
			`exceeds?.{0,60}(max_num_tokens|tokens allowed)|max_new_tokens. must be|longer than the (maximum|model)|` +
			`must have less than \d+ tokens|string_above_max_length|tokens to keep from|` +
			`range of input length`), notThrottled},
		{Filtered, regexp.MustCompile(`(?i)content[_ ](filter|management|policy)|ResponsibleAIPolicyViolation|` +
			`moderation|flagged|guardrail|data_inspection_failed`), undecided},
	}
	ofServices = []meaning{
		{Throttled, regexp.MustCompile(`(?i)rate[_ ]?limit|too many requests|throttl|resource_exhausted`), undecided},
		{ServerError, regexp.MustCompile(`(?i)overloaded|temporarily|unavailable|(again|retry) (later|in \d)|` +
			`timed? ?out|server[_ ]error|upstream|no (healthy|available)|internal error|` +
			`(is|still) loading`), undecided},
	}
)

// slips find the errors that quote what the model wrote: it is no call or no JSON of the request's
// schema.
var slips = regexp.MustCompile(`(?i)tool_use_failed|json_validate_failed|output_parse_failed|failed_generation|` +
	`failed to call a function|failed to generate json|tool call validation failed|attempted to call tool|` +
	`(parsing|parse|invalid|malformed) (the )?(model.s )?(tool[ _]call|function call|output)|` +
	`failed to parse (input|tool)|` +
	`(model|generated).{0,40}(invalid|malformed|unparsable) (tool|function|json)|invalid json: eof`)

func notThrottled(status int) bool { return status != http.StatusTooManyRequests }

// undecided are the statuses that gateways use for failures of any kind.
func undecided(status int) bool {
	return status < 500 && status != http.StatusUnauthorized && notThrottled(status)
}

// mayRefuseFeature reports whether servers use the status for a parameter that they don't support.
func mayRefuseFeature(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusRequestTimeout,
		http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return false
	}
	return status <= http.StatusNotImplemented
}

// failed decides what an error means: it changes the class of e, whose status is that of the answer
// or of the error in it. A slip of the model is an answer.
func failed(e *Error, c *complaint, used Feature) *Answer {
	said := strings.Join(c.codes, " ") + " " + c.text()
	e.After = max(e.After, c.after)
	if e.Status != http.StatusUnauthorized && notThrottled(e.Status) && slips.MatchString(said) {
		return &Answer{Text: c.written, Slip: c.text()}
	}
	switch class := classBy(ofRequests, said, e.Status); {
	case class != Completed:
		e.Class = class
		return nil
	case mayRefuseFeature(e.Status):
		if e.Lacks = missing(c, used, e.Status); e.Lacks != 0 {
			e.Class, e.Anew = Rejected, true
			return nil
		}
	case e.Status == http.StatusRequestEntityTooLarge:
		e.Class = TooLong
	}
	e.Class = cmp.Or(classBy(ofServices, said, e.Status), e.Class)
	return nil
}

func classBy(meanings []meaning, said string, status int) Class {
	for _, m := range meanings {
		if m.applies(status) && m.words.MatchString(said) {
			return m.class
		}
	}
	return Completed
}

var (
	errNoChoices = errors.New("the answer has no choices")
	errNoMessage = errors.New("the answer has no message")
	errCalls     = errors.New("the answer's tool_calls aren't calls")
	errError     = errors.New("the answer holds an error")
)

// decide reports whether the model has answered: its error is that of the endpoint. Odd is a part
// of the answer that couldn't be read.
func (a *Answer) decide(odd error) *Error {
	reason := strings.ToLower(a.FinishReason)
	known := false
	for _, ending := range endings {
		if !ending.words.MatchString(reason) {
			continue
		}
		known = true
		switch {
		case ending.class != Completed:
			err := fmt.Errorf("the answer ended with finish_reason %.60q", a.FinishReason)
			return &Error{Class: ending.class, Err: err}
		case ending.slip:
			a.Slip = "the answer ended with finish_reason " + a.FinishReason
		case ending.refusal && a.Refusal == "":
			a.Refusal = "(refused)"
		}
		a.Cut = ending.cut
		break
	}
	text := strings.TrimSpace(a.Text)
	_, length := objectAt(text[max(strings.IndexByte(text, '{'), 0):])
	says := strings.HasPrefix(reason, "tool") || strings.HasPrefix(reason, "function")
	switch {
	case a.Slip != "", a.Refusal != "":
	case odd != nil:
		return &Error{Class: Unclear, Err: odd}
	case len(a.Calls) > 0, length > 0, known && a.Cut:
	case !known:
		return &Error{Class: Unclear, Err: fmt.Errorf("the answer ended with finish_reason %.60q and holds no action",
			a.FinishReason)}
	case says:
		return &Error{Class: Unclear, Err: fmt.Errorf("the answer ended with finish_reason %.60q and holds no call",
			a.FinishReason)}
	case text != "", a.thought, a.Usage.CompletionTokens > 0: // what the model wrote, if only thoughts
	default:
		return &Error{Class: Unclear, Err: errEmpty}
	}
	return nil
}

var errEmpty = errors.New("the answer is empty, and no tokens were counted")
