package endpoint

import (
	"encoding/json"
	"io"
	"net/url"
	"strings"
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

// Words are what the body of an error says: its message if it has one of the usual forms, or all of
// its text. They are on one line, printable, at most MaxWords bytes, and without the secret.
func Words(body []byte, secret string) string {
	text := message(body)
	if text == "" {
		text = string(body)
	}
	if secret != "" {
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

// message is the text of an error as OpenAI, FastAPI and others write it, in one of the forms
// {"error": {"message": …}}, {"error": …}, {"message": …} and {"detail": …}.
func message(body []byte) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil {
		return ""
	}
	for _, name := range []string{"error", "message", "detail"} {
		var text string
		raw := object[name]
		switch {
		case len(raw) == 0 || string(raw) == "null":
		case json.Unmarshal(raw, &text) == nil:
			return text
		case name == "error" && message(raw) != "":
			return message(raw)
		default:
			return string(raw)
		}
	}
	return ""
}

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
