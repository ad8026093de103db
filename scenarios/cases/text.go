package cases

import (
	"maps"
	"slices"
	"strings"

	"github.com/csenv/csenv/scenarios/source"
)

// text is a template: {{name}} is replaced by a value, and what is in [[ ]] is left out if it
// contains a value that the customer doesn't give.
type text []piece

// piece is a literal, a value or an optional part.
type piece struct {
	literal, name string
	optional      text
}

// parseText reads a template. Names are checked against the known ones.
func parseText(raw source.Raw) (text, error) {
	var t text
	rest := raw.Text
	for rest != "" {
		i := strings.IndexAny(rest, "{[")
		switch {
		case i < 0:
			return append(t, piece{literal: rest}), nil
		case strings.HasPrefix(rest[i:], "{{"):
			name, after, ok := strings.Cut(rest[i+2:], "}}")
			if !ok {
				return nil, raw.Pos.Errorf("{{ without }}")
			}
			if !isKnownValue(name) {
				return nil, raw.Pos.Errorf("there is no value %q%s", name, source.SuggestWord(name, valueNames()))
			}
			t, rest = append(t, piece{literal: rest[:i]}, piece{name: name}), after
		case strings.HasPrefix(rest[i:], "[["):
			inner, after, ok := strings.Cut(rest[i+2:], "]]")
			if !ok {
				return nil, raw.Pos.Errorf("[[ without ]]")
			}
			part, err := parseText(source.Raw{Text: inner, Pos: raw.Pos})
			if err != nil {
				return nil, err
			}
			t, rest = append(t, piece{literal: rest[:i]}, piece{optional: part}), after
		default:
			t, rest = append(t, piece{literal: rest[:i+1]}), rest[i+1:]
		}
	}
	return t, nil
}

func isKnownValue(name string) bool { return values()[name] != nil }

func valueNames() []string { return slices.Sorted(maps.Keys(values())) }

// render writes the template. values returns the text of a name, and false for one that the
// customer doesn't give.
func (t text) render(b *strings.Builder, values func(name string) (string, bool)) {
	for _, p := range t {
		switch {
		case p.name != "":
			value, _ := values(p.name)
			b.WriteString(value)
		case p.optional != nil:
			if p.optional.given(values) {
				p.optional.render(b, values)
			}
		default:
			b.WriteString(p.literal)
		}
	}
}

func (t text) given(values func(name string) (string, bool)) bool {
	for _, p := range t {
		if p.name != "" {
			if _, ok := values(p.name); !ok {
				return false
			}
		}
	}
	return true
}
