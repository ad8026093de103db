package params

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/csenv/csenv/scenarios/expr"
)

// NameList is a compiled name file.
type NameList struct {
	given, family []personName
	Lists         map[string][]string
}

// personName is a name and its form in an address.
type personName struct {
	name, address string
}

// NewNameList makes a list of people by their given and family names.
func NewNameList(given, family []string) *NameList {
	return &NameList{given: personNames(given), family: personNames(family), Lists: map[string][]string{}}
}

func personNames(names []string) []personName {
	out := make([]personName, len(names))
	for i, n := range names {
		out[i] = personName{n, asciiFold(n)}
	}
	return out
}

// asciiFold returns a name in lower case without diacritics.
func asciiFold(s string) string {
	s = strings.NewReplacer("ß", "ss", "ø", "o", "ł", "l", "æ", "ae", "œ", "oe").Replace(strings.ToLower(s))
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) {
			return -1
		}
		return r
	}, norm.NFD.String(s))
}

// Person draws a name: given, full, family, email.
func (l *NameList) Person(s *expr.Stream) map[string]string {
	g, f := l.given[s.Below(uint64(len(l.given)))], l.family[s.Below(uint64(len(l.family)))]
	return map[string]string{"given": g.name, "family": f.name, "full": g.name + " " + f.name, "email": g.address +
		"." + f.address + "@mail.example"}
}
