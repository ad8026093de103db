package offline

import (
	"github.com/csenv/csenv/envserver/grader/text"
	"github.com/csenv/csenv/scenarios"
)

// FactsStated reports for each fact whether a reply in the language states it: as the offline judge
// reads replies to tickets, for environments that grade by facts alone. A time in a sentence about
// a fact that is neither the fact's nor in one of the known texts contradicts it. It reads as much
// of a reply as the judge does.
func (o *Judge) FactsStated(reply string, facts []scenarios.Fact, known []string, language string) []bool {
	r := o.read(reply, language, scenarios.ReplySpec{Facts: facts, AllowedValues: known})
	r.known = r.allowed
	r.findFacts()
	said := make([]bool, len(facts))
	for i := range said {
		said[i] = r.findings[i] == stated
	}
	return said
}

// Commits reports whether a reply in the language promises one of the acts that the verbs name.
func (o *Judge) Commits(reply string, verbs []string, language string) bool {
	r := o.read(reply, language, scenarios.ReplySpec{Forbidden: []scenarios.Forbidden{{Verbs: verbs}}})
	r.promises = r.lib.promiseReader(r.doc).promises()
	return r.promisedOf(&r.gates[0]) != ""
}

// read reads a reply that answers no ticket.
func (o *Judge) read(reply, language string, spec scenarios.ReplySpec) *analysis {
	p := prepare(&scenarios.Ticket{Language: language, Reply: spec}, o.libraries)
	plain, _ := text.Bound(reply)
	return &analysis{prepared: p, doc: text.Parse(text.Fold(plain), p.lex)}
}
