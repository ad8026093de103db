package offline

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

// isInstruction reports whether a span begins with a word and its object: "Press the button".
func isInstruction(d *text.Document, s text.Span) bool {
	i := s.Lo
	for i < s.Hi && d.Tokens[i].Kind != text.WordToken {
		i++
	}
	return i+1 < s.Hi && !d.Tokens[i].Is(text.Stopwords) && d.Tokens[i+1].Is(text.Determiners)
}
