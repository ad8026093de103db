package policy

import (
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The patterns of the values that the heuristic reads.
var (
	idPattern      = regexp.MustCompile(`\b[A-Z]{2,4}-?\d{4,}\b`)
	amountPattern  = regexp.MustCompile(`\$\s?(\d{1,3}(?:,\d{3})*|\d+)(?:\.(\d{2}))?`)
	minutesPattern = regexp.MustCompile(`\b(\d{1,3})\s?min`)
	devicesPattern = regexp.MustCompile(`\b(\d{1,3})\s(?:dead\s)?(?:devices|cameras|sensors|locks|hubs)\b`)
	limitPattern   = regexp.MustCompile(`up to \$(\d+)(?:\.(\d{2}))?`)
)

// ends are the characters that end a sentence.
const ends = ".!?\n"

// splitSentences iterates over the sentences of a text, each with the mark that ends it.
func splitSentences(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			text = strings.TrimLeft(text, ends)
			end := strings.IndexAny(text, ends)
			if end < 0 {
				end = len(text)
			} else if text[end] != '\n' {
				end++
			}
			if end == 0 || !yield(text[:end]) {
				return
			}
			text = text[end:]
		}
	}
}

// findIDs lists the order, invoice, payment and tracking numbers in the text, without duplicates.
func findIDs(text string) []string {
	var ids []string
	for _, id := range idPattern.FindAllString(text, -1) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// findAmounts lists the dollar amounts in the text, in cents.
func findAmounts(text string) []int64 {
	matches := amountPattern.FindAllStringSubmatch(text, -1)
	found := make([]int64, len(matches))
	for i, m := range matches {
		found[i] = parseCents(strings.ReplaceAll(m[1], ",", ""), m[2])
	}
	return found
}

func parseCents(dollars, fraction string) int64 {
	d, _ := strconv.ParseInt(dollars, 10, 64)
	f, _ := strconv.ParseInt(fraction, 10, 64)
	return 100*d + f
}

// findLargestAmount returns the largest amount in the text, or 0.
func findLargestAmount(text string) int64 { return slices.Max(append(findAmounts(text), 0)) }

// findNumber returns the first number that the pattern finds, or -1.
func findNumber(pattern *regexp.Regexp, text string) int {
	m := pattern.FindStringSubmatch(text)
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(m[1]) // the patterns find up to three digits
	return n
}

// hasPhrase reports whether the lower-case text contains one of the phrases at the beginning of a
// word.
func hasPhrase(text string, phrases ...string) bool { return countPhrases(text, phrases...) > 0 }

// countPhrases returns the number of phrases that the text contains at the beginning of a word.
func countPhrases(text string, phrases ...string) int {
	n := 0
	for _, phrase := range phrases {
		if beginsWord(text, phrase) {
			n++
		}
	}
	return n
}

func beginsWord(text, phrase string) bool {
	for from := 0; ; from++ {
		i := strings.Index(text[from:], phrase)
		if i < 0 {
			return false
		}
		if from += i; from == 0 || !isWordByte(text[from-1]) {
			return true
		}
	}
}

func isWordByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b >= 0x80
}
