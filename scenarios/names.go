package scenarios

import (
	"reflect"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// nameFile is names/<lang>.yaml.
type nameFile struct {
	APIVersion string       `yaml:"apiVersion" enum:"csenv/v1"`
	Kind       string       `yaml:"kind" enum:"NameList"`
	Metadata   baseMetadata `yaml:"metadata"`
	People     struct {
		Given  []string `yaml:"given"`
		Family []string `yaml:"family"`
	} `yaml:"people"`
	Lists ordered[[]string] `yaml:"lists,optional"`
}

// nameList is a compiled name file.
type nameList struct {
	given, family []personName
	lists         map[string][]string
}

// personName is a name and its form in an address.
type personName struct {
	name, address string
}

func newNameList(f *nameFile) *nameList {
	l := &nameList{given: personNames(f.People.Given), family: personNames(f.People.Family),
		lists: map[string][]string{}}
	for _, e := range f.Lists {
		l.lists[e.Name] = e.Value
	}
	return l
}

func personNames(names []string) []personName {
	out := make([]personName, len(names))
	for i, n := range names {
		out[i] = personName{n, asciiFold(n)}
	}
	return out
}

// asciiFold keeps the letters of a name without their marks, in lower case.
func asciiFold(s string) string {
	s = strings.NewReplacer("ß", "ss", "ø", "o", "ł", "l", "æ", "ae", "œ", "oe").Replace(strings.ToLower(s))
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) {
			return -1
		}
		return r
	}, norm.NFD.String(s))
}

func (l *nameList) person(s *stream) map[string]string {
	g, f := l.given[s.below(uint64(len(l.given)))], l.family[s.below(uint64(len(l.family)))]
	return map[string]string{"given": g.name, "family": f.name, "full": g.name + " " + f.name, "email": g.address +
		"." + f.address + "@mail.example"}
}

func valueOf[T any](p *T) reflect.Value { return reflect.ValueOf(p).Elem() }
