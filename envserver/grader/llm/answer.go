package llm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/csenv/csenv/envserver/grader"
)

// cannotJudge is the third answer that a model may give. It decides nothing, and is never kept.
const cannotJudge = "cannot_judge"

const (
	// maxContent bounds what a model writes, in bytes.
	maxContent = 64 << 10
	// maxReason and maxQuote bound what is kept of it, in characters.
	maxReason, maxQuote = 500, 1000
)

// schema is the JSON schema of an answer. Quote and reason stand before the verdict, so that the
// verdict follows from them.
func schema(ids []string) map[string]any {
	return map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"verdicts"},
		"properties": map[string]any{"verdicts": map[string]any{
			"type": "array",
			"items": map[string]any{
				"type": "object", "additionalProperties": false, "required": []string{"id", "evidence_quote", "reason",
					"verdict"},
				"properties": ordered{
					{"id", map[string]any{"type": "string", "enum": ids}},
					{"evidence_quote", map[string]any{"type": "string"}},
					{"reason", map[string]any{"type": "string"}},
					{"verdict", map[string]any{"type": "string", "enum": []string{grader.Met, grader.Unmet,
						cannotJudge}}},
				},
			},
		}},
	}
}

// ordered is a JSON object that keeps its order: endpoints generate properties in the order of the
// schema.
type ordered []property

type property struct {
	name  string
	value map[string]any
}

// MarshalJSON writes the properties in order.
func (o ordered) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, p := range o {
		if i > 0 {
			out = append(out, ',')
		}
		value, err := json.Marshal(p.value, json.Deterministic(true))
		if err != nil {
			return nil, fmt.Errorf("writing the schema's %s: %w", p.name, err)
		}
		out, _ = jsontext.AppendQuote(out, p.name) // a name of ours is valid UTF-8
		out = append(append(out, ':'), value...)
	}
	return append(out, '}'), nil
}

// answer is what a model writes.
type answer struct {
	Verdicts []struct {
		ID       string `json:"id"`
		Evidence string `json:"evidence_quote"`
		Reason   string `json:"reason"`
		Verdict  string `json:"verdict"`
	} `json:"verdicts"`
}

// parse reads an answer to the question, one for each claim and in their order. It never guesses:
// whatever isn't exactly one known verdict for each id is an error, whose text is ours and can be
// shown to the model.
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
			Quote: clip(unmarked(v.Evidence), maxQuote), Reason: clip(v.Reason, maxReason)}
	}
	out := make([]grader.Evidence, len(q.Claims))
	for i, c := range q.Claims {
		e, ok := given[c.ID]
		if !ok {
			return nil, fmt.Errorf("it lacks %s", c.ID)
		}
		out[i] = e
	}
	return out, nil
}

// object returns the JSON object of a text: the last fenced block, or all of it.
func object(content string) string {
	const fence = "```"
	text := strings.TrimSpace(content)
	end := strings.LastIndex(text, fence)
	if strings.HasPrefix(text, "{") || end < 0 {
		return text
	}
	start := strings.LastIndex(text[:end], fence)
	if start < 0 {
		return text
	}
	block := text[start+len(fence) : end]
	return strings.TrimPrefix(strings.TrimSpace(block), "json")
}

func clip(text string, most int) string {
	n := 0
	for i := range text {
		if n == most {
			return text[:i]
		}
		n++
	}
	return text
}
