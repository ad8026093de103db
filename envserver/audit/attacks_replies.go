package audit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/words"
)

const (
	// echoWords is the maximum number of words of an echo of articles.
	echoWords = 110
	// fillerEvery is the number of words after which an echo has a filler, so that no long run of
	// words is copied.
	fillerEvery = 5
	// minShared is the minimum length of a word that a sentence shares with a ticket, in bytes.
	minShared = 3
)

// fillers are words that change no statement.
var fillers = []string{"indeed", "simply", "really", "certainly"}

// echoArticles resolves the ticket with the sentences of its articles in which the ticket's words
// have the largest share, the category that keywords indicate and the most frequent priority.
func echoArticles(to *target) []attempt {
	asked := wordsOf(to.ticket.Subject + " " + to.ticket.Description)
	type candidate struct {
		words []string
		share float64
	}
	var all []candidate
	for _, a := range to.ticket.Articles {
		for _, sentence := range sentencesOf(a.Body) {
			of := wordsOf(sentence)
			shared := slices.DeleteFunc(slices.Clone(of), func(w string) bool {
				return len(w) < minShared || !slices.Contains(asked, w)
			})
			slices.Sort(shared)
			share := float64(len(slices.Compact(shared))) / float64(len(of))
			all = append(all, candidate{strings.Fields(sentence), share})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.share, a.share) })
	given, _, _ := strings.Cut(to.ticket.Customer.Name, " ")
	reply, n := "Hello "+given+",\n\nthank you for your message.", 0
	for _, c := range all {
		if n > 0 && n+len(c.words) > echoWords {
			break
		}
		for _, w := range c.words {
			reply += " " + w
			if n++; n%fillerEvery == 0 {
				reply += " " + fillers[n/fillerEvery%len(fillers)]
			}
		}
		reply += "."
	}
	return []attempt{{grader.Decisions{Category: scenarios.ReadKeywords(to.ticket), Priority: to.majority,
		Ending: grader.Resolved}, reply}}
}

// wordsOf returns the words of a text in lower case.
func wordsOf(text string) []string { return slices.Collect(words.SplitText(text)) }

// sentencesOf returns the sentences of an article, without headings and tables.
func sentencesOf(body string) []string {
	var out []string
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "|") {
			continue
		}
		for sentence := range strings.SplitSeq(strings.TrimSpace(line), ". ") {
			if len(wordsOf(sentence)) > 0 {
				out = append(out, strings.TrimSuffix(sentence, "."))
			}
		}
	}
	return out
}

// listOf lists facts, each with a word that a sentence about it has.
func listOf(facts []scenarios.Fact) string {
	var b strings.Builder
	for _, f := range facts {
		b.WriteString(" " + f.Value + ",")
		if len(f.Context) > 0 {
			b.WriteString(" " + f.Context[0] + ",")
		}
	}
	return b.String()
}

// maxAlternatives is the number of alternatives to a value in an enumeration.
const maxAlternatives = 3

// enumerateValues are the good references in which each required value is followed by its values at
// other seeds: "2, or 3, or 4, or 5 business days". References without such a value are left out.
func enumerateValues(to *target) []attempt {
	return enumerateForms(to, func(f scenarios.Fact, form int, own string) []string {
		list := []string{own}
		for _, m := range to.known {
			i := slices.IndexFunc(m.ticket.Reply.Facts, func(g scenarios.Fact) bool { return g.ID == f.ID })
			if i < 0 {
				continue
			}
			if other := formsOf(m.ticket.Reply.Facts[i]); form < len(other) && !slices.Contains(list, other[form]) {
				list = append(list, other[form])
			}
		}
		return list
	})
}

// enumerateTeams are the good references in which the required team is followed by other teams.
func enumerateTeams(to *target) []attempt {
	return enumerateForms(to, func(f scenarios.Fact, _ int, own string) []string {
		if f.Slot != teamSlot {
			return nil
		}
		others := slices.DeleteFunc(slices.Clone(to.teams), func(team string) bool { return team == f.Value })
		return append([]string{own}, others...)
	})
}

// teamSlot is the slot of the facts that name a team.
const teamSlot = "team"

// enumerateForms replaces the first form of each required fact in the good references by
// alternatives, the first of which is the form itself.
func enumerateForms(to *target, alternatives func(f scenarios.Fact, form int, own string) []string) []attempt {
	var out []attempt
	for _, reply := range to.ticket.References.Good {
		enumerated := reply
		for _, f := range to.ticket.Reply.Facts {
			forms := formsOf(f)
			i := slices.IndexFunc(forms, func(form string) bool { return words.Contains(enumerated, form) })
			if f.Optional || i < 0 {
				continue
			}
			if list := alternatives(f, i, forms[i]); len(list) > 1 {
				list = shareUnit(list[:min(len(list), 1+maxAlternatives)])
				enumerated = strings.Replace(enumerated, forms[i], strings.Join(list, ", or "), 1)
			}
		}
		if enumerated != reply {
			out = append(out, attempt{goldDecisions(to.ticket), enumerated})
		}
	}
	return out
}

func formsOf(f scenarios.Fact) []string { return append([]string{f.Value}, f.Accept...) }

// shareUnit removes the words after the first from all values but the last, if they are the same in
// all.
func shareUnit(values []string) []string {
	_, unit, _ := strings.Cut(values[0], " ")
	for _, v := range values {
		if _, of, _ := strings.Cut(v, " "); of != unit {
			return values
		}
	}
	out := slices.Clone(values)
	for i := range out[:len(out)-1] {
		out[i], _, _ = strings.Cut(out[i], " ")
	}
	return out
}
