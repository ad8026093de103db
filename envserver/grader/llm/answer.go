package llm

import (
	stdjson "encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/text"
)

// cannotJudge is the third answer of a model. It decides nothing and is not cached.
const cannotJudge = "cannot_judge"

const (
	maxContent          = 64 << 10  // of a model's answer, in bytes
	maxReason, maxQuote = 500, 1000 // of an answer's parts that are kept, in characters
)

// schema returns the JSON schema of an answer. Endpoints generate properties in its order, so quote
// and reason come before the verdict.
func schema(ids []string) map[string]any {
	properties := `{"id":{"enum":["` + strings.Join(ids, `","`) + `"],"type":"string"},` +
		`"evidence_quote":{"type":"string"},"reason":{"type":"string"},` +
		`"verdict":{"enum":["met","unmet","cannot_judge"],"type":"string"}}`
	return map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"verdicts"},
		"properties": map[string]any{"verdicts": map[string]any{
			"type": "array",
			"items": map[string]any{
				"type": "object", "additionalProperties": false,
				"required":   []string{"id", "evidence_quote", "reason", "verdict"},
				"properties": stdjson.RawMessage(properties),
			},
		}},
	}
}

type answer struct {
	Verdicts []struct {
		ID       string `json:"id"`
		Evidence string `json:"evidence_quote"`
		Reason   string `json:"reason"`
		Verdict  string `json:"verdict"`
	} `json:"verdicts"`
}

// parse reads one answer for each claim of the question, in their order. Anything but exactly one
// known verdict for each id is an error, whose text is sent to the model.
func parse(content string, q *question) ([]grader.Evidence, error) {
	if len(content) > maxContent {
		return nil, fmt.Errorf("it is longer than %d bytes", maxContent)
	}
	var a answer
	if err := json.Unmarshal([]byte(object(content)), &a, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf(`it is not one JSON object of the form {"verdicts": [...]} without other members`)
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
		given[v.ID] = grader.Evidence{Claim: q.claims[i].ID, Verdict: v.Verdict,
			Quote: text.Clip(unmarked(v.Evidence), maxQuote), Reason: text.Clip(v.Reason, maxReason)}
	}
	out := make([]grader.Evidence, len(q.Claims))
	for i, c := range q.Claims {
		var ok bool
		if out[i], ok = given[c.ID]; !ok {
			return nil, fmt.Errorf("it lacks %s", c.ID)
		}
	}
	return out, nil
}

// object returns the JSON object of a text: the last fenced block, or all of it.
func object(content string) string {
	const fence = "```"
	content = strings.TrimSpace(content)
	end := strings.LastIndex(content, fence)
	start := strings.LastIndex(content[:max(end, 0)], fence)
	if strings.HasPrefix(content, "{") || start < 0 {
		return content
	}
	return strings.TrimPrefix(strings.TrimSpace(content[start+len(fence):end]), "json")
}
