package offline

import (
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/grader/text"
)

// greeting is within how many tokens the customer has to be addressed. A name further down may be
// the customer's own signature, quoted.
const greeting = 12

// addressed reports whether the reply begins by calling the customer by a name.
func addressed(d *text.Document, names wordSet) bool {
	return slices.ContainsFunc(d.Tokens[:min(greeting, len(d.Tokens))],
		func(t text.Token) bool { return t.Kind == text.WordToken && names.has(t.Text) })
}

// placeholder reports whether a template's gap was left in the text: {name}, [NAME], <order id>,
// XXXX.
func placeholder(reply string) bool {
	if strings.Contains(reply, "{{") || strings.Contains(reply, "xxxx") || strings.Contains(reply, "____") {
		return true
	}
	for _, pair := range []string{"{}", "[]", "<>"} {
		if bracketed(reply, pair[0], pair[1]) {
			return true
		}
	}
	return false
}

// maxGap is how long the text of a placeholder may be.
const maxGap = 40

// bracketed reports whether a short text that starts with a letter stands between the marks.
func bracketed(reply string, left, right byte) bool {
	for {
		i := strings.IndexByte(reply, left)
		if i < 0 {
			return false
		}
		reply = reply[i+1:]
		j := strings.IndexByte(reply, right)
		if j > 0 && j <= maxGap && text.Letters(reply) > 0 && !strings.Contains(reply[:j], "@") &&
			!strings.HasPrefix(reply, "http") {
			return true
		}
	}
}

// acknowledges reports whether a sentence of the reply takes up the customer's situation: an apology
// or a word of empathy for an angry or worried customer, thanks will do for others, and it has to
// be about the ticket's matter. A courtesy that fits every ticket acknowledges nothing.
func acknowledges(d *text.Document, p *prepared) bool {
	for _, s := range d.Sentences {
		empathy := d.AnyStem(text.Empathy, s) >= 0
		sorry := d.AnyStem(text.Apology, s) >= 0
		thanks := d.AnyStem(text.Thanks, s) >= 0
		recognised := d.AnyPhrase(text.Recognise, s)
		if !empathy && !recognised && !sorry && (!thanks || p.upset) {
			continue
		}
		if empathy || recognised || !stock(d, s, p) {
			return true
		}
	}
	return false
}

// stock reports whether a sentence is made of nothing but courtesies.
func stock(d *text.Document, s text.Span, p *prepared) bool {
	for _, t := range d.Tokens[s.Lo:s.Hi] {
		switch {
		case t.Kind == text.PunctToken, t.Is(text.Stopwords), p.names.has(t.Text):
		case t.StemIs(text.Courtesy), t.StemIs(text.Apology), t.StemIs(text.Thanks), t.StemIs(text.Empathy):
		default:
			return false
		}
	}
	return true
}
