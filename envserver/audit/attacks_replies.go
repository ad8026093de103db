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
		Ending: grader.Resolved}, reply, nil}}
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
