package llm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios/text"
)

// cannotJudge is the third answer of a model. It decides nothing and is not cached.
const cannotJudge = "cannot_judge"

const (
	maxContent          = 64 << 10  // of a model's answer, in bytes
	maxReason, maxQuote = 500, 1000 // of an answer's parts that are kept, in characters
)

type answer struct {
	Verdicts []struct {
		ID       string `json:"id"`
		Evidence string `json:"evidence_quote"`
		Reason   string `json:"reason"`
		Verdict  string `json:"verdict"`
	} `json:"verdicts"`
	Letter *struct {
		Reason    string `json:"reason"`
		MayBeSent *bool  `json:"may_be_sent"`
	} `json:"letter"`
}

// parseAnswer reads one answer for each claim of the question, in their order, the last of which is
// about the letter. Anything but exactly one known verdict for each id and a boolean for the letter
// is an error, whose text is sent to the model.
func parseAnswer(content string, q *question) ([]grader.Evidence, error) {
	if len(content) > maxContent {
		return nil, fmt.Errorf("it is longer than %d bytes", maxContent)
	}
	// A model that quotes the reply may quote an answer, too. Which one is its own isn't guessed.
	if strings.Count(content, `"verdicts"`) > 1 {
		return nil, fmt.Errorf(`it has "verdicts" twice: write one JSON object and nothing else`)
	}
	a, ok := endpoint.ReadObject[answer](content)
	if !ok {
		return nil, fmt.Errorf(`it is not one JSON object of the form {"verdicts": [...], "letter": {...}} ` +
			"without other members")
	}
	given := map[string]grader.Evidence{}
	for _, v := range a.Verdicts {
		i := slices.IndexFunc(q.Claims, func(c asked) bool { return c.ID == v.ID })
		if i < 0 {
			return nil, fmt.Errorf("it holds an id that was not asked for")
		}
		if _, twice := given[v.ID]; twice {
			return nil, fmt.Errorf("it holds %s twice", v.ID)
		}
		if v.Verdict != grader.Met && v.Verdict != grader.Unmet && v.Verdict != cannotJudge {
			return nil, fmt.Errorf(`the verdict of %s is none of "met", "unmet" and "cannot_judge"`, v.ID)
		}
		given[v.ID] = grader.Evidence{Claim: q.claims[i].Claim, Verdict: v.Verdict,
			Quote: text.ClipRunes(removeDatamark(v.Evidence), maxQuote), Reason: text.ClipRunes(v.Reason, maxReason)}
	}
	out := make([]grader.Evidence, len(q.Claims), len(q.claims))
	for i, c := range q.Claims {
		var ok bool
		if out[i], ok = given[c.ID]; !ok {
			return nil, fmt.Errorf("it lacks %s", c.ID)
		}
	}
	if a.Letter == nil || a.Letter.MayBeSent == nil {
		return nil, fmt.Errorf(`it lacks "letter" with "may_be_sent": true or false`)
	}
	letter := grader.Evidence{Claim: letterClaim, Verdict: grader.Unmet,
		Reason: text.ClipRunes(a.Letter.Reason, maxReason)}
	if *a.Letter.MayBeSent {
		letter.Verdict = grader.Met
	}
	return append(out, letter), nil
}

func removeDatamark(quote string) string { return strings.ReplaceAll(quote, mark, " ") }
