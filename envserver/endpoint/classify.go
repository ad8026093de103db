package endpoint

import (
	"cmp"
	"errors"
	"net/http"
	"regexp"
	"strings"
)

// What an answer means is decided here alone, for agents and judges: classifyAnswer decides for
// errors, and decide for answers that a model may have written. If neither recognises what it sees,
// the answer is a failure of the endpoint that names it. What follows from a class is in traits.

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

// ofRequests are errors about a request, and ofServices errors of a service behind a gateway that
// answers with a status of another meaning.
var (
	ofRequests = []meaning{
		{Rejected, regexp.MustCompile(`(?i)insufficient_(quota|balance)`), func(int) bool { return true }},
		{Throttled, regexp.MustCompile(`(?i)throttl|too many requests|please wait`), func(status int) bool {
			return status != http.StatusUnauthorized && status != http.StatusRequestEntityTooLarge
		}},
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
		{Throttled, regexp.MustCompile(`(?i)rate[_ ]?limit|resource_exhausted`), isUndecided},
		{ServerError, regexp.MustCompile(`(?i)overloaded|temporarily|unavailable|(again|retry) (later|in \d)|` +
			`timed? ?out|server[_ ]error|upstream|no (healthy|available)|internal error|` +
			`(is|still) loading`), isUndecided},
	}
)

// slips find the errors that quote what the model wrote: it isn't a call, or JSON, of the request's
// schema. Likely ones may also be about the request.
var (
	slips = regexp.MustCompile(`(?i)tool_use_failed|json_validate_failed|output_parse_failed|failed_generation|` +
		`failed to call a function|failed to generate json|tool call validation failed|attempted to call tool|` +
		`\braw=|(model|generated).{0,40}(invalid|malformed|unparsable) (tool|function|json)|invalid json: eof`)
	likely = regexp.MustCompile(`(?i)(parsing|parse|invalid|malformed) (the )?(model.s )?(tool[ _]call|function call|` +
		`output)\b|failed to parse input`)
	// ofHistory find what servers write of the arguments of a conversation's calls, which csenv
	// sends as JSON.
	ofHistory = regexp.MustCompile(`(?i)arguments`)
)

// isSlip reports whether an error is about what the model wrote. Words that may be about the
// request are, if the endpoint has answered one of the same form before.
func (c *Completions) isSlip(said string, written bool, r ChatRequest) bool {
	used := r.usedFeatures() & (Tools | Calls)
	return written || slips.MatchString(said) || likely.MatchString(said) && c.refusals.wasAnswered(used) &&
		(used&Calls == 0 || !ofHistory.MatchString(said))
}

func notThrottled(status int) bool { return status != http.StatusTooManyRequests }

// isUndecided are the statuses that gateways use for failures of any kind.
func isUndecided(status int) bool {
	return status < 500 && status != http.StatusUnauthorized && notThrottled(status)
}

// mayRefuseFeature reports whether servers use the status for a parameter that they don't support.
// Relays use an overload's as well, so then the words decide.
func mayRefuseFeature(status int, said string) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusRequestTimeout,
		http.StatusConflict, http.StatusRequestEntityTooLarge:
		return false
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return unsupported.MatchString(said) && classBy(ofServices, said, 0) == Completed
	}
	return status <= http.StatusNotImplemented
}

// classifyAnswer decides what an error means: it changes the class of e, whose status comes from
// the answer or from the error in it. An error that the model itself caused, such as a malformed
// tool call, counts as an answer.
func (c *Completions) classifyAnswer(e *Error, said *complaint, r ChatRequest, used Feature) *Answer {
	text := strings.Join(said.codes, " ") + " " + said.text()
	e.After = max(e.After, said.after)
	if e.Status != http.StatusUnauthorized && notThrottled(e.Status) && c.isSlip(text, said.written != "", r) {
		return &Answer{Text: said.written, Slip: said.text()}
	}
	switch class := classBy(ofRequests, text, e.Status); {
	case class != Completed:
		e.Class = class
		return nil
	case likely.MatchString(text):
		e.Class = Unclear
		return nil
	case mayRefuseFeature(e.Status, said.text()):
		if needed := said.needs(); needed != 0 && c.refusals.needFeature(needed) {
			e.Class, e.Anew = Unclear, true
			return nil
		}
		if e.Lacks = findRefusedFeature(said, used, e.Status, r.Model); e.Lacks != 0 {
			e.Class = Rejected
			return nil
		}
	case e.Status == http.StatusRequestEntityTooLarge:
		e.Class = TooLong
	}
	e.Class = cmp.Or(classBy(ofServices, text, e.Status), e.Class)
	return nil
}

// needs are the features without which the endpoint can't go on: the thoughts of the model.
func (c *complaint) needs() Feature {
	if lacks.MatchString(c.text()) && thought.MatchString(c.text()) {
		return Members
	}
	return 0
}

// findRefusedFeature is the feature of a request that a complaint refuses, 0 if it names none. The
// names of members count before the text.
func findRefusedFeature(c *complaint, used Feature, status int, model string) Feature {
	text := withoutQuotes(c.text(), model)
	if status >= 500 && !refuses.MatchString(text) {
		return 0 // a failure's text may name anything
	}
	if lacks.MatchString(text) {
		used &^= Members // the endpoint wants more of them, not fewer
	}
	named := strings.Join(c.named, " ")
	if refuses.MatchString(text) {
		named += " isn't supported"
	}
	for _, said := range []string{named, text} {
		for _, f := range features {
			if used&f.feature != 0 && f.words.MatchString(said) {
				return f.feature
			}
		}
	}
	return 0
}

var (
	// quotedObject finds an object that an error quotes, innermost first.
	quotedObject = regexp.MustCompile(`\{[^{}]*\}`)
	// quotedInput finds what validators quote of a request or of an answer.
	quotedInput = regexp.MustCompile(`(?s)\b(?:\w+\[)?function-wrap\[.*?\]\]?|\[type=[^\]]*\]?|\binput(_value)?=.*`)
	// token finds what may be the name of a model.
	token = regexp.MustCompile(`[\w.:@/-]+`)
)

// isModelName reports whether a word can only be the name of a model or a URL: it has a provider or
// several parts, and a number.
func isModelName(word string) bool {
	at := strings.IndexByte(word, '/')
	return at > 0 && strings.ContainsAny(word, "0123456789.-:") ||
		at < 0 && strings.Count(word, "-") >= 2 && strings.ContainsAny(word, "0123456789")
}

// withoutQuotes is what an error says, without the names of models and without what it quotes of a
// request: those may contain any word.
func withoutQuotes(text, model string) string {
	for quotedObject.MatchString(text) {
		text = quotedObject.ReplaceAllString(text, " ")
	}
	if from := strings.IndexByte(text, '{'); from >= 0 {
		text = text[:from] // an object that was cut off
	}
	text = quotedInput.ReplaceAllString(text, " ")
	return token.ReplaceAllStringFunc(text, func(word string) string {
		if word == model || isModelName(word) {
			return " "
		}
		return word
	})
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

var (
	errEmpty     = errors.New("the answer is empty, and no tokens were counted")
	errUncounted = errors.New("the answer is no action, and no tokens were counted for it as for others")
)
