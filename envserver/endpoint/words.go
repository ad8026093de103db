package endpoint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxWords bounds what is quoted of an endpoint's answer, in bytes.
const MaxWords = 300

// maxErrorBody bounds what is read of an answer that is an error, in bytes.
const maxErrorBody = 16 << 10

// startOf reads what an error may be quoted from. An answer that breaks off is quoted up to there.
func startOf(body io.Reader) []byte {
	data, _ := io.ReadAll(io.LimitReader(body, maxErrorBody))
	return data
}

// isSecret reports whether a key is removed from texts. A short one of letters alone is what
// servers without keys ask for, and a word or a part of words in any text.
func isSecret(key string) bool {
	return len(key) >= 8 || strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsLetter(r) })
}

// ErrorWords are what the body of an error says: its message if it has one of the usual forms, or
// all of its text. They are on one line, printable, at most MaxWords bytes, and without the secret.
func ErrorWords(body []byte, secret string) string {
	return sanitizeText(cmp.Or(complaintOf(body).text(), string(body)), secret)
}

func sanitizeText(text, secret string) string {
	if isSecret(secret) {
		text = strings.ReplaceAll(text, secret, "[key]")
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return -1
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= MaxWords {
		return text
	}
	const cut = " […]"
	return strings.ToValidUTF8(text[:MaxWords-len(cut)], "") + cut
}

// complaint is what an error says, in any of the forms in which servers write it.
type complaint struct {
	texts []string
	// named are the members of the request that the error names, and codes its codes and types.
	named, codes []string
	// status is a code of the error that is a status of HTTP, 0 if there is none.
	status int
	// written is what the model wrote, if the endpoint quotes it.
	written string
	// after is the pause that the error asks for.
	after time.Duration
}

func (c *complaint) text() string { return strings.Join(c.texts, ": ") }

// complaintOf reads the body of an error.
func complaintOf(body []byte) *complaint {
	c := &complaint{}
	var value any
	if decodeJSON(body, &value) == nil {
		c.addValue(value, 0)
	} else if !bytes.HasPrefix(body, []byte("<")) { // but no page
		c.addValue(string(body), 0)
	}
	if said := waits.FindStringSubmatch(string(body)); said != nil {
		c.after = parseRetryAfter(durationIn(said[1]), time.Time{})
	}
	return c
}

// waits finds a pause: "try again in 7.66s", "retryDelay": "41s", "retry_after": 5, "in 1h13m38s".
// unitLetters shorten its units to a duration's units.
var (
	waits = regexp.MustCompile(`(?i)(?:try again in|retry[ _-]?(?:after|delay)(?:_seconds)?)\\?"?\s*:?\s*\\?"?` +
		`([0-9]+(?:\.[0-9]+)?(?:\s?(?:h(?:ours?)?|ms|milliseconds?|m(?:in(?:utes?)?)?|s(?:ec(?:onds?)?)?)[0-9.]*)*)`)
	unitLetters = regexp.MustCompile(`(m)illi(s)econds?|(?:(h)our|(m)in(?:ute)?|(s)ec(?:ond)?)s?`)
)

// durationIn is a duration in words in the form of time.ParseDuration.
func durationIn(words string) string {
	text := strings.ToLower(strings.TrimRight(strings.ReplaceAll(words, " ", ""), "."))
	return unitLetters.ReplaceAllString(text, "$1$2$3$4$5")
}

// maxDepth bounds the depth of what is read of an error.
const maxDepth = 8

// addValue adds a value: the text of an error, a list of errors, or an object that describes one.
func (c *complaint) addValue(value any, depth int) {
	switch v := value.(type) {
	case string:
		if v != "" && !c.addNested(v, depth) && !slices.Contains(c.texts, v) {
			c.texts = append(c.texts, v)
		}
	case []any:
		for _, each := range v[:min(len(v), 10)] {
			if depth < maxDepth {
				c.addValue(each, depth+1)
			}
		}
	case map[string]any:
		if depth < maxDepth {
			c.addObject(v, depth+1)
		}
	}
}

// addNested reads an error that a text quotes, as JSON or as Python writes it.
func (c *complaint) addNested(text string, depth int) bool {
	from, before := strings.IndexByte(text, '{'), len(c.texts)
	if from >= 0 && depth < maxDepth {
		inner, _, _ := objectAt(text[from:])
		c.addObject(inner, depth+1)
	}
	return len(c.texts) > before
}

// addObject reads an object that describes an error.
func (c *complaint) addObject(v map[string]any, depth int) {
	for _, name := range []string{"param", "loc", "field", "parameter", "property"} {
		if named := pathOf(v[name]); named != "" {
			c.named = append(c.named, named)
		}
	}
	for _, name := range []string{"code", "type", "status", "status_code", "statusCode"} {
		code := fmt.Sprint(v[name])
		if number, err := strconv.Atoi(code); err == nil && number >= 400 && number < 600 && c.status == 0 {
			c.status = number
		} else if v[name] != nil {
			c.codes = append(c.codes, code)
		}
	}
	if written, ok := v["failed_generation"].(string); ok {
		c.written = written
	}
	if loc := pathOf(v["loc"]); loc != "" {
		c.texts = append(c.texts, loc)
	}
	for _, name := range []string{"error", "message", "msg", "detail", "details", "errors", "error_message", "title",
		"metadata", "raw", "innererror", "base_resp", "status_msg"} {
		c.addValue(v[name], depth)
	}
}

// pathOf is the name of a member, or the path to it.
func pathOf(value any) string {
	switch v := value.(type) {
	case string:
		if v != "null" && v != "None" {
			return v
		}
	case []any:
		parts := make([]string, len(v))
		for i, part := range v {
			parts[i] = fmt.Sprint(part)
		}
		return strings.Join(parts, ".")
	}
	return ""
}

// decodeJSON reads one JSON value, with numbers as they are written.
func decodeJSON(data []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(to); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("text follows the JSON")
	}
	return nil
}

// apiVersion is the query of Azure's older form of URLs, the only one that a base URL may have:
// others hold secrets.
var apiVersion = regexp.MustCompile(`\?api-version=[0-9A-Za-z.-]+$`)

// CheckBase returns why a text can't be a service's BaseURL, and what to do; nil if it can. The
// error quotes nothing of it, because it may hold a secret.
func CheckBase(text string) error {
	text = apiVersion.ReplaceAllString(text, "")
	u, err := url.Parse(text)
	switch {
	case text == "":
		return errors.New("it is empty: give the URL of the endpoint up to its version, such as " + exampleBase)
	case strings.ContainsAny(text, " \t\r\n"):
		return errors.New("it has a blank: remove that")
	case !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://"):
		return errors.New("it has no scheme: begin it with http:// or https://")
	case err != nil, u.Host == "":
		return errors.New("it has no host: write it like " + exampleBase)
	case u.User != nil:
		return errors.New("it has a user or a password: leave them out, the key is set apart from it")
	case strings.Contains(text, "?"):
		return errors.New("it has a query: leave that out; only Azure's ?api-version= may stay")
	case strings.Contains(text, "#"):
		return errors.New("it has a fragment: leave # and what follows out")
	}
	return nil
}

const exampleBase = "https://api.openai.com/v1"

// WithoutSecrets returns a URL without its user, password, query and fragment, or "" for an invalid
// one.
func WithoutSecrets(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment, u.RawFragment, u.ForceQuery = nil, "", "", "", false
	return u.String()
}
