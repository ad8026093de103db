package audit

import (
	"slices"
	"strings"
	"unicode"

	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/words"
)

// A transplant is a reference of the most similar known instance in which the tokens that differ
// between known instances are replaced by those of the attacked ticket. Where the tokens stand in
// what the agent can read is learned from the known instances.

// memory is a known instance.
type memory struct {
	ticket *scenarios.Ticket
	// served are the tokens of the ticket, and read those of the ticket and its articles.
	served, read []string
	words        map[string]bool
	reply        []string
}

func newMemory(t *scenarios.Ticket) *memory {
	m := &memory{ticket: t, words: map[string]bool{}}
	texts := append(t.ServedTexts(), "name", t.Customer.Name, "company", t.Customer.Company)
	m.served = dropSpaces(tokensOf(strings.Join(texts, "\n")))
	for _, a := range t.Articles {
		texts = append(texts, a.Title, a.Body)
	}
	m.read = dropSpaces(tokensOf(strings.Join(texts, "\n")))
	for _, token := range m.served {
		m.words[token] = true
	}
	if len(t.References.Good) > 0 {
		m.reply = tokensOf(t.References.Good[0])
	}
	return m
}

// tokensOf splits a text into words and single other characters.
func tokensOf(text string) []string {
	var tokens []string
	inWord := false
	for _, r := range text {
		part := words.IsPart(r)
		if part && inWord {
			tokens[len(tokens)-1] += string(r)
		} else {
			tokens = append(tokens, string(r))
		}
		inWord = part
	}
	return tokens
}

// dropSpaces returns the tokens that aren't space.
func dropSpaces(tokens []string) []string {
	return slices.DeleteFunc(slices.Clone(tokens), func(t string) bool { return strings.TrimSpace(t) == "" })
}

// transplantReply writes the reply to a ticket with the decisions of the most similar known
// instance.
func transplantReply(to *target, texts func(*memory) []string) []attempt {
	here := newMemory(to.ticket)
	nearest := slices.MaxFunc(to.known, func(a, b *memory) int { return here.common(a) - here.common(b) })
	rest := slices.DeleteFunc(slices.Clone(to.known), func(m *memory) bool { return m == nearest })
	others := alignAll(nearest.reply, rest)
	var reply strings.Builder
	last := 0
	for _, s := range findVaryingSpans(nearest.reply, others) {
		model := nearest.reply[s.lo:s.hi]
		examples := []example{{texts(nearest), dropSpaces(model)}}
		for _, o := range others {
			if value := dropSpaces(o.gap(s)); len(value) > 0 {
				examples = append(examples, example{texts(o.memory), value})
			}
		}
		reply.WriteString(strings.Join(nearest.reply[last:s.lo], ""))
		reply.WriteString(renderValue(learnPlace(examples, texts(here)), model))
		last = s.hi
	}
	reply.WriteString(strings.Join(nearest.reply[last:], ""))
	return []attempt{{goldDecisions(nearest.ticket), reply.String()}}
}

// common is the number of words that both tickets contain.
func (m *memory) common(other *memory) int {
	n := 0
	for w := range m.words {
		if other.words[w] {
			n++
		}
	}
	return n
}

// span is a run of tokens.
type span struct{ lo, hi int }

// aligned is a known instance with the position in its reply of each token of a base, or -1.
type aligned struct {
	*memory
	at []int
}

// alignAll aligns the replies with a base, and leaves out those with less than half of its tokens:
// they say something else.
func alignAll(base []string, known []*memory) []aligned {
	var out []aligned
	for _, m := range known {
		at := alignTokens(base, m.reply)
		missing := len(slices.DeleteFunc(slices.Clone(at), func(i int) bool { return i >= 0 }))
		if 2*missing <= len(base) {
			out = append(out, aligned{m, at})
		}
	}
	return out
}

// alignTokens returns, for each token of a, its position in b in a longest common subsequence, or
// -1.
func alignTokens(a, b []string) []int {
	longest := make([][]int, len(a)+1)
	for i := range longest {
		longest[i] = make([]int, len(b)+1)
	}
	for i, x := range slices.Backward(a) {
		for j, y := range slices.Backward(b) {
			longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			if x == y {
				longest[i][j] = longest[i+1][j+1] + 1
			}
		}
	}
	at := make([]int, len(a))
	for i, j := 0, 0; i < len(a); {
		switch {
		case j < len(b) && a[i] == b[j]:
			at[i] = j
			i, j = i+1, j+1
		case j < len(b) && longest[i][j+1] >= longest[i+1][j]:
			j++
		default:
			at[i] = -1
			i++
		}
	}
	return at
}

// gap returns the tokens of the aligned reply that stand in the place of a span of the base, or
// none.
func (a aligned) gap(s span) []string {
	lo, hi := 0, len(a.reply)
	if s.lo > 0 {
		lo = a.at[s.lo-1] + 1
	}
	if s.hi < len(a.at) {
		hi = a.at[s.hi]
	}
	if s.lo > 0 && lo == 0 || hi < lo {
		return nil
	}
	return a.reply[lo:hi]
}

// findVaryingSpans lists the runs of tokens of a base that another reply lacks. Runs with only a
// space or a sign between them are one.
func findVaryingSpans(base []string, others []aligned) []span {
	var spans []span
	for i := range base {
		if !slices.ContainsFunc(others, func(a aligned) bool { return a.at[i] < 0 }) {
			continue
		}
		n := len(spans)
		if n > 0 && (spans[n-1].hi == i || spans[n-1].hi == i-1 && !isWord(base[i-1])) {
			spans[n-1].hi = i + 1
		} else {
			spans = append(spans, span{i, i + 1})
		}
	}
	return spans
}

func isWord(token string) bool { return strings.IndexFunc(token, words.IsPart) == 0 }

// example is a value of a reply with the texts that the agent could read.
type example struct{ texts, value []string }

// place describes where a value stands: after one or two tokens, with the given shape.
type place struct {
	after [2]string // the second is "" for one token
	shape string
}

// find returns the first value in the place, or nil.
func (p place) find(texts []string) []string {
	for i := 1; i+len(p.shape) <= len(texts); i++ {
		if texts[i-1] == p.after[0] && (p.after[1] == "" || i > 1 && texts[i-2] == p.after[1]) &&
			shapeOf(texts[i:i+len(p.shape)]) == p.shape {
			return texts[i : i+len(p.shape)]
		}
	}
	return nil
}

// shapeOf returns a letter for each token: a number, a capitalised word, another word, or a sign.
func shapeOf(value []string) string {
	shape := make([]byte, len(value))
	for i, token := range value {
		r := []rune(token)[0]
		switch {
		case unicode.IsDigit(r):
			shape[i] = '9'
		case unicode.IsUpper(r):
			shape[i] = 'A'
		case unicode.IsLetter(r):
			shape[i] = 'a'
		default:
			shape[i] = '.'
		}
	}
	return string(shape)
}

// places lists the places of the example's value in its texts.
func (e example) places() []place {
	var out []place
	shape := shapeOf(e.value)
	for i := 1; i+len(e.value) <= len(e.texts); i++ {
		if !slices.Equal(e.texts[i:i+len(e.value)], e.value) {
			continue
		}
		out = append(out, place{[2]string{e.texts[i-1]}, shape})
		if i > 1 {
			out = append(out, place{[2]string{e.texts[i-1], e.texts[i-2]}, shape})
		}
	}
	return out
}

// learnPlace returns the value, in the texts, of the place that is right for the most examples. A
// wrong value costs more than a right one is worth. It returns nil if no place is right for more.
func learnPlace(examples []example, texts []string) []string {
	var best []string
	most := 0
	tried := map[place]bool{}
	for _, e := range examples {
		for _, p := range e.places() {
			value := p.find(texts)
			if tried[p] || value == nil {
				continue
			}
			tried[p] = true
			right := 0
			for _, e := range examples {
				switch got := p.find(e.texts); {
				case slices.Equal(got, e.value):
					right += 2
				case got != nil:
					right -= 3
				}
			}
			if right > most {
				most, best = right, value
			}
		}
	}
	return best
}

// renderValue writes a value with the spaces of a model, or the model if there is no value.
func renderValue(value, model []string) string {
	if len(value) == 0 {
		return strings.Join(model, "")
	}
	var b strings.Builder
	if len(value) != len(dropSpaces(model)) {
		for i, token := range value {
			if i > 0 && isWord(token) && isWord(value[i-1]) {
				b.WriteByte(' ')
			}
			b.WriteString(token)
		}
		return b.String()
	}
	for _, token := range model {
		if strings.TrimSpace(token) != "" {
			token, value = value[0], value[1:]
		}
		b.WriteString(token)
	}
	return b.String()
}
