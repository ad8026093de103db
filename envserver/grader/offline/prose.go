package offline

import "github.com/csenv/csenv/envserver/grader/text"

// A reply is a letter: it says something, and says it to the customer. Lists of key words have no
// verbs, and articles speak to nobody. Both are measured in shares of words, so that courtesies
// around a list or an article change little.

const (
	// minSaid is the minimum share, in percent, of the words that are in clauses with an auxiliary
	// verb, a person or an instruction, minAddressed of those in sentences that speak to the
	// customer or for the company.
	minSaid, minAddressed = 15, 17
	// minProse is the number of words from which the shares are meaningful.
	minProse = 10
)

// listed reports whether the reply is a list of words: too few of its clauses say something. Spanish
// says much without an auxiliary verb or a pronoun.
func listed(d *text.Document) bool {
	if d.Lexicon.Language == "es" {
		return false
	}
	said, all := 0, 0
	for _, c := range d.Clauses() {
		n := d.CountWords(c.Span)
		all += n
		if d.AnyWord(text.Aux|text.FirstPerson|text.SecondPerson, c.Span) >= 0 || instructs(d, c.Span) {
			said += n
		}
	}
	return all >= minProse && 100*said < minSaid*all
}

// impersonal reports whether the reply is a text about customers rather than to one. In German and
// Spanish, one word stands for "you" and "they".
func impersonal(d *text.Document) bool {
	if l := d.Lexicon.Language; l == "de" || l == "es" {
		return false
	}
	addressed, all := 0, 0
	for _, s := range d.Sentences {
		n := d.CountWords(s)
		if all += n; d.AnyWord(text.Persons, s) >= 0 || requests(d, s) || instructs(d, s) {
			addressed += n
		}
	}
	return all >= minProse && 100*addressed < minAddressed*all
}

// instructs reports whether a span begins with a word and its object: "Press the button".
func instructs(d *text.Document, s text.Span) bool {
	i := s.Lo
	for i < s.Hi && d.Tokens[i].Kind != text.WordToken {
		i++
	}
	return i+1 < s.Hi && !d.Tokens[i].Is(text.Stopwords) && d.Tokens[i+1].Is(text.Determiners)
}
