package episode

import "strings"

// TeamName returns the name of a team as scenarios write it: "Trade Compliance team" and
// "trade_compliance" both become trade-compliance.
func TeamName(team string) string {
	words := strings.FieldsFunc(strings.ToLower(team), func(r rune) bool { return strings.ContainsRune(" -_\t\n", r) })
	if n := len(words); n > 1 && (words[n-1] == "team" || words[n-1] == "desk") {
		words = words[:n-1]
	}
	return strings.Join(words, "-")
}
