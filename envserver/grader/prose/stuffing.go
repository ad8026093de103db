package prose

import (
	"slices"

	"github.com/csenv/csenv/envserver/grader/text"
)

const (
	minVaried = 60 // the minimum number of words at which a reply's variety is meaningful
	// maxDensity is the share of a sentence's words, in percent, that may come from the rubric's
	// own lists. The sentence may be entirely about one fact.
	maxDensity = 70
	// nearby is the number of examined tokens on each side of a value, and maxNearby the maximum
	// percentage of them that may be the rubric's.
	nearby, maxNearby = 5, 85
	// minSmall is the percentage of small words that shows a sentence of at most maxBrief words
	// rather than a list, and looseDensity the maximum density at which it does.
	minSmall, maxBrief, looseDensity = 15, 25, 90
	// minDense is the minimum number of words at which a sentence's density is meaningful.
	minDense = 10
)

// isInKeywordList reports whether the tokens around a value are a list of keywords. A label of a
// word or two, as in "Estimated delivery: March 26, 2026", is allowed.
func isInKeywordList(d *text.Document, s text.Span, at int, p *prepared) bool {
	around := text.NewSpan(max(at-nearby, s.Lo), min(at+nearby+1, s.Hi))
	return d.CountUnvalued(around) > maxLabel && exceedsDensity(d.Tokens[around.Lo:around.Hi], p, nearby, maxNearby)
}

// maxLabel is the maximum number of words of a label.
const maxLabel = 2

// exceedsDensity reports whether more than the given percentage of the words are the rubric's, if
// there are enough words. Stopwords indicate a sentence.
func exceedsDensity(tokens []text.Token, p *prepared, least, percent int) bool {
	hits, small, n := 0, 0, 0
	for i := range tokens {
		t := &tokens[i]
		if t.Kind == text.PunctToken || t.Kind == text.CurrencyToken {
			continue
		}
		n++
		if t.Is(text.Stopwords) {
			small++
		} else if p.rubric.has(t.KeyHash()) {
			hits++
		}
	}
	if n <= maxBrief && 100*small >= minSmall*n {
		percent = max(percent, looseDensity)
	}
	return n >= least && 100*hits > percent*n
}

// hasAlternatives reports whether the reply lists three alternatives for one value, "2 business
// days, or 3, or 4", or three teams. A person can't act on those.
func hasAlternatives(d *text.Document) bool {
	if slices.ContainsFunc(d.Sentences, func(s text.Span) bool { return enumeratesTeams(d, s) }) {
		return true
	}
	for i := 0; i < len(d.Values); {
		n := i + 1
		for n < len(d.Values) && isAlternativePair(d, d.Values[n-1], d.Values[n]) {
			n++
		}
		if n-i > 2 {
			return true
		}
		i = n
	}
	return false
}

// isAlternativePair reports whether only a comma or an "or" stands between two different times of
// one kind. A number may lack its unit: "2, 3 or 5 days".
func isAlternativePair(d *text.Document, a, b text.Value) bool {
	lo, hi := min(a.Kind, b.Kind), max(a.Kind, b.Kind)
	listed := lo == hi && lo != text.NumberValue || lo == text.DurationValue && hi == text.NumberValue
	return listed && a.Kind >= text.DateValue && a.Kind <= text.NumberValue && a.Kind != text.PercentValue &&
		isListedPair(d, a, b)
}

// isListedPair reports whether only a comma or an "or" stands between two different values.
func isListedPair(d *text.Document, a, b text.Value) bool {
	if a.Equal(b) || b.At.Lo-a.At.Hi > maxLabel+1 || b.At.Lo == a.At.Hi {
		return false
	}
	for i := a.At.Hi; i < b.At.Lo; i++ {
		t := &d.Tokens[i]
		if t.Text != "," && !isOr(t) && !t.Is(text.Within|text.Guesses) {
			return false
		}
	}
	return true
}

// maxTeamGap is the maximum number of tokens between two teams of a list: "or the emergency
// disclosure".
const maxTeamGap = 4

// enumeratesTeams reports whether a sentence lists three teams as alternatives: "finance, logistics
// or the legal desk".
func enumeratesTeams(d *text.Document, s text.Span) bool {
	teams, last, or := 0, s.Lo, false
	for i := s.Lo; i < s.Hi; i++ {
		if !d.Tokens[i].StemIs(text.Teams) {
			continue
		}
		separated, either := false, false
		for k := last; k < i; k++ {
			alternative := isOr(&d.Tokens[k])
			either = either || alternative
			separated = separated || alternative || d.Tokens[k].Text == ","
		}
		switch {
		case teams == 0 || i-last-1 > maxTeamGap:
			teams, or = 1, false
		case separated:
			teams, or = teams+1, or || either
		}
		if teams > 2 && or {
			return true
		}
		last = i
	}
	return false
}

func isOr(t *text.Token) bool { return t.Text == "/" || t.IsWord("or", "oder", "o", "ou") }

// among reports whether the fact's value at a token is one of a list of alternatives that are
// neither the fact's nor known: "2, 3 or 5 days". A list without an "or" is none: "Monday, August
// 3".
func (f *fact) among(d *text.Document, at int, known []text.Value) bool {
	k := slices.IndexFunc(d.Values, func(v text.Value) bool { return v.At.Lo <= at && at < v.At.Hi })
	if k < 0 {
		return false
	}
	lo, hi := k, k
	for lo > 0 && f.rivals(d, d.Values[lo-1], d.Values[lo], known) {
		lo--
	}
	for hi+1 < len(d.Values) && f.rivals(d, d.Values[hi], d.Values[hi+1], known) {
		hi++
	}
	list := d.Tokens[d.Values[lo].At.Lo:d.Values[hi].At.Hi]
	return lo < hi && slices.ContainsFunc(list, func(t text.Token) bool { return isOr(&t) || t.Is(text.Guesses) })
}

// rivals reports whether two neighbouring values are listed as alternatives, and one of them is
// neither the fact's nor known.
func (f *fact) rivals(d *text.Document, a, b text.Value, known []text.Value) bool {
	lo, hi := min(a.Kind, b.Kind), max(a.Kind, b.Kind)
	other := func(v text.Value) bool { return !f.anyValue(v.Equal) && !text.Contains(known, v) }
	return (lo == hi || lo == text.DurationValue && hi == text.NumberValue) && isListedPair(d, a, b) &&
		(other(a) || other(b))
}
