package episode

import "strings"

// TeamName is the name under which scenarios know a team: "Trade Compliance team" and
// "trade_compliance" are both trade-compliance.
func TeamName(team string) string {
	words := strings.FieldsFunc(strings.ToLower(team), func(r rune) bool { return strings.ContainsRune(" -_\t\n", r) })
	if n := len(words); n > 1 && (words[n-1] == "team" || words[n-1] == "desk") {
		words = words[:n-1]
	}
	return strings.Join(words, "-")
}
