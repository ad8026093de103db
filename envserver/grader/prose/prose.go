package prose

import "github.com/csenv/csenv/envserver/grader/text"

// A reply is a letter: it says something, and says it to the customer. Lists of key words have no
// verbs, and articles speak to nobody.

const (
	// minSaid is the minimum share, in percent, of the words that are in clauses with a common
	// verb, a person or an instruction, minAddressed of those in sentences that speak to the
	// customer or for the company.
	minSaid, minAddressed = 15, 17
	// minProse is the number of words from which the shares are meaningful.
	minProse = 10
)

// checkProse trips the gates on replies that are no letters. It passes over courtesies, so that
// those around a list change nothing. Spanish verbs need no subject, and in German and Spanish one
// word stands for "you" and "they", so those aren't read.
func (r *analysis) checkProse() {
	if r.lex.Language != "en" && r.lex.Language != "fr" {
		return
	}
	said, addressed, all := 0, 0, 0
	clauses := r.doc.Clauses()
	for _, s := range r.doc.Sentences {
		if isCourtesyOnly(r.doc, s, r.prepared) {
			continue
		}
		speaks := r.doc.AnyWord(text.Persons, s) >= 0 || isRequest(r.doc, s)
		for len(clauses) > 0 && clauses[0].Lo < s.Hi {
			c := clauses[0].Span
			clauses = clauses[1:]
			instructs := isInstruction(r.doc, c)
			if c.Lo >= s.Lo && (instructs ||
				r.doc.AnyWord(text.Aux|text.Verbs|text.FirstPerson|text.SecondPerson, c) >= 0) {
				said += r.doc.CountWords(c)
			}
			speaks = speaks || instructs && c.Lo >= s.Lo
		}
		n := r.doc.CountWords(s)
		if all += n; speaks {
			addressed += n
		}
	}
	if all < minProse {
		return
	}
	if 100*said < minSaid*all {
		r.trip("list", unsupportedCap, "lists words")
	}
	if 100*addressed < minAddressed*all {
		r.trip("impersonal", unsupportedCap, "is a text about customers, not to one")
	}
}

// statesNothing reports whether the reply only lists words and values: no sentence states anything
// but courtesies, questions, and values with a label.
func statesNothing(d *text.Document, p *prepared) bool {
	listed := false
	for _, s := range d.Sentences {
		switch {
		case isCourtesyOnly(d, s, p), isLabelled(d, s):
		case hasSmall(d, s), d.IsQuestion(s), isRequest(d, s):
			return false
		default:
			listed = listed || len(d.ValuesWithin(s)) > 0 || isList(d, s, p)
		}
	}
	return listed
}

// hasSmall reports whether a span has one of the small words that statements have and lists lack.
func hasSmall(d *text.Document, s text.Span) bool {
	const small = text.Stopwords | text.Aux | text.Verbs | text.Persons | text.FirstPerson | text.SecondPerson
	for i := s.Lo; i < s.Hi; i++ {
		if d.Tokens[i].Is(small) && !d.InValue(i) {
			return true
		}
	}
	return false
}

// isList reports whether a sentence lists words and values instead of stating something: the parts
// between its commas are one word or values alone. One such part, or one beside each with a label,
// is allowed: "Carrier: Orbis Freight, express". It can't tell a list from the path of a menu,
// which replies to written scenarios contain.
func isList(d *text.Document, s text.Span, p *prepared) bool {
	bare, labels := 0, 0
	for lo, i := s.Lo, s.Lo; i <= s.Hi; i++ {
		if i < s.Hi && (d.InValue(i) || !d.Tokens[i].Separates()) {
			continue
		}
		part := text.NewSpan(lo, i)
		lo = i + 1
		switch {
		case isCourtesyOnly(d, part, p):
		case isLabelled(d, part):
			labels++
		case hasSmall(d, part):
			return false
		case d.CountWords(part) == 1, d.CountUnvalued(part) == 0:
			bare++
		}
	}
	return bare > max(labels, 1)
}

// maxLabelled is the maximum number of words before the colon of a label.
const maxLabelled = 4

// isLabelled reports whether a span begins with a label: "Estimated delivery: March 26, 2026".
func isLabelled(d *text.Document, s text.Span) bool {
	for i := s.Lo; i < s.Hi; i++ {
		if d.Tokens[i].Text == ":" {
			label := text.NewSpan(s.Lo, i)
			return d.CountWords(label) <= maxLabelled && d.AnyWord(text.Aux|text.Verbs|text.Persons, label) < 0
		}
	}
	return false
}

// isInstruction reports whether a span begins with a word and its object: "Press the button".
func isInstruction(d *text.Document, s text.Span) bool {
	i := s.Lo
	for i < s.Hi && d.Tokens[i].Kind != text.WordToken {
		i++
	}
	return i+1 < s.Hi && !d.Tokens[i].Is(text.Stopwords) && d.Tokens[i+1].Is(text.Determiners)
}

// isRequest reports whether a sentence requests something: it begins with an imperative or contains
// "please".
func isRequest(d *text.Document, s text.Span) bool {
	return d.Tokens[s.Lo].Is(text.Imperatives) || d.AnyPhrase(text.Please, s)
}
