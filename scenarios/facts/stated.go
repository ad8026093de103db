package facts

import (
	"fmt"
	"slices"
	"strings"
)

// Join returns what holds after a message has stated more: every fact of a name that it states
// replaces the earlier ones of that name. It changes neither list.
func Join(earlier, later []Fact) []Fact {
	if len(later) == 0 {
		return earlier
	}
	joined := make([]Fact, 0, len(earlier)+len(later))
	for _, e := range earlier {
		if !slices.ContainsFunc(later, func(l Fact) bool { return l.What == e.What }) {
			joined = append(joined, e)
		}
	}
	return append(joined, later...)
}

// Describe explains the vocabulary to an agent: a line for each name with its meaning, and its
// values or an example.
func Describe() string {
	lines := make([]string, len(Vocabulary))
	for i, n := range Vocabulary {
		shown := n.Example
		if n.Values != nil {
			shown = strings.Join(n.Values, ", ")
		}
		lines[i] = fmt.Sprintf("%s: %s (%s)", n.What, n.Meaning, shown)
	}
	return strings.Join(lines, "\n")
}

// NoneStated is what an agent is told that has written to the customer without a fact, whatever is
// right.
const NoneStated = "No facts were stated: nothing of the reply counts."

// AnyStated reports whether one of the facts states something.
func AnyStated(all []Fact) bool { return slices.ContainsFunc(all, Fact.IsStated) }
