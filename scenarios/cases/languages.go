package cases

import (
	"maps"
	"slices"
	"strings"

	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/source"
)

// english is the language of a list that names none.
const english = "en"

// checkCode checks the code of a language.
func (c *compiler) checkCode(code string, at source.Position) {
	if expr.Locales[code] == nil {
		c.failf(at, "there is no language %q: it is one of %s", code,
			strings.Join(slices.Sorted(maps.Keys(expr.Locales)), ", "))
	}
}

// compileProducts returns the names of the products of a kind by language. A seed chooses a
// position in the list, so all lists name the same products in the same order.
func (c *compiler) compileProducts(kind string, files byLanguage) map[string][]string {
	out := map[string][]string{}
	for _, names := range files {
		c.checkCode(names.Name, names.Pos)
		out[names.Name] = names.Value
		if first := files[0]; len(names.Value) != len(first.Value) {
			c.failf(names.Pos, "products.%s has %d names in %q and %d in %q: name the same products in the same order",
				kind, len(names.Value), names.Name, len(first.Value), first.Name)
		}
	}
	return out
}

// checkLanguages checks that each language of a family has everything else that its cases need.
func (s *Set) checkLanguages(c *compiler) {
	checked := map[string]bool{}
	for _, f := range s.families {
		s.checkVoices(c, f.Says)
		for _, says := range f.Says {
			if language := says.Name; !checked[language] && expr.Locales[language] != nil {
				checked[language] = true
				s.checkLanguage(c, language, says.Pos)
			}
			for _, m := range f.modifiers {
				c.checkAnswers(m.answers, says.Name)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.modifiers)) {
		s.checkVoices(c, s.modifiers[id].Says)
	}
}

// checkVoices rejects the texts of unknown voices, which no case would use.
func (s *Set) checkVoices(c *compiler, says wordings) {
	all := slices.Concat(s.train, s.heldOut)
	for _, language := range says {
		for _, voice := range language.Value {
			if !slices.Contains(all, voice.Name) {
				c.failf(voice.Pos, "there is no voice %q: it is one of %s", voice.Name, strings.Join(all, ", "))
			}
		}
	}
}

// checkLanguage checks what all families share. The position is where a family's texts are.
func (s *Set) checkLanguage(c *compiler, language string, at source.Position) {
	if s.replies[language] == nil {
		c.failf(at, "there are no replies in %q: add names/replies-%s.yaml", language, language)
	}
	if s.people[language] == nil {
		c.failf(at, "there are no names of customers in %q: add names/%s.yaml", language, language)
	}
	for _, kind := range slices.Sorted(maps.Keys(s.goods.kinds)) {
		if len(s.goods.products(kind, language)) == 0 {
			c.failf(at, "products.%s has no names in %q: add them to names/cases.yaml", kind, language)
		}
	}
	c.checkAnswers(s.answers, language)
}

func (c *compiler) checkAnswers(answers map[string]*answer, language string) {
	for _, topic := range slices.Sorted(maps.Keys(answers)) {
		a := answers[topic]
		if len(a.about[language]) == 0 || a.says[language][anyVoice] == nil {
			c.failf(a.pos, "the answer about %s has no words or no text of voice %q in %q", topic, anyVoice, language)
		}
	}
}
