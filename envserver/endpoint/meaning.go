package endpoint

import (
	"cmp"
	"errors"
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
			`moderation|flagged|guardrail|data_inspection_failed`), isUndecided},
	}
	ofServices = []meaning{
		{Throttled, regexp.MustCompile(`(?i)rate[_ ]?limit|too many requests|throttl|resource_exhausted`), isUndecided},
		{ServerError, regexp.MustCompile(`(?i)overloaded|temporarily|unavailable|(again|retry) (later|in \d)|` +
			`timed? ?out|server[_ ]error|upstream|no (healthy|available)|internal error|` +
			`(is|still) loading`), isUndecided},
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

// isUndecided are the statuses that gateways use for failures of any kind.
func isUndecided(status int) bool {
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

// classifyError decides what an error means: it changes the class of e, whose status is that of the
// answer or of the error in it. A slip of the model is an answer.
func classifyError(e *Error, c *complaint, used Feature) *Answer {
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
		if e.Lacks = findRefusedFeature(c, used, e.Status); e.Lacks != 0 {
			e.Class, e.Anew = Rejected, true
			return nil
		}
	case e.Status == http.StatusRequestEntityTooLarge:
		e.Class = TooLong
	}
	e.Class = cmp.Or(classBy(ofServices, said, e.Status), e.Class)
	return nil
}

// findRefusedFeature is the feature of a request that a complaint refuses, 0 if it names none. The
// names of members count before the text.
func findRefusedFeature(c *complaint, used Feature, status int) Feature {
	if status >= 500 && !refuses.MatchString(c.text()) {
		return 0 // a failure's text may name anything
	}
	if lacks.MatchString(c.text()) {
		used &^= Members // the endpoint wants more of them, not fewer
	}
	named := strings.Join(c.named, " ")
	if refuses.MatchString(c.text()) {
		named += " isn't supported"
	}
	for _, said := range []string{named, c.text()} {
		for _, f := range features {
			if used&f.feature != 0 && f.names.MatchString(said) {
				return f.feature
			}
		}
	}
	return 0
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

var errEmpty = errors.New("the answer is empty, and no tokens were counted")
