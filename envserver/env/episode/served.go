package episode

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
)

// servedVerdict has the members of a verdict that agents and their trainers receive: what was done
// and what it earned. The other members, such as reasons and a model's answers, name what would
// have been right, and the same seed can be played again.
type servedVerdict struct {
	TicketID string            `json:"ticket_id,omitempty"`
	Judge    string            `json:"judge"`
	Case     string            `json:"case,omitempty"`
	Status   string            `json:"status"`
	Criteria []servedCriterion `json:"criteria"`
	Gates    []struct {
		ID  string `json:"id"`
		Cap int64  `json:"cap"`
	} `json:"gates,omitempty"`
	PreGate  int64  `json:"preGate"`
	PostGate int64  `json:"postGate"`
	Right    bool   `json:"right"`
	Cause    string `json:"cause,omitempty"`
}

type servedCriterion struct {
	ID      string `json:"id"`
	Earned  int64  `json:"earned"`
	Offered int64  `json:"offered"`
}

// ServeVerdicts returns verdicts as agents and their trainers receive them. A model's points of one
// criterion of a reply are shares of what it requires, and so tell how many facts and questions
// there are: only their sum is left. A verdict that isn't a JSON object of the right types is an
// error.
func ServeVerdicts(verdicts []json.RawMessage) ([]json.RawMessage, error) {
	served := make([]json.RawMessage, len(verdicts))
	for i, text := range verdicts {
		var v servedVerdict
		if err := jsonv2.Unmarshal(text, &v); err != nil {
			return nil, fmt.Errorf("reading verdict %d: %w", i+1, err)
		}
		v.Criteria = slices.DeleteFunc(v.Criteria, func(c servedCriterion) bool {
			return strings.HasPrefix(v.Judge, "llm:") && !slices.Contains(ofActions, c.ID)
		})
		var err error
		if served[i], err = json.Marshal(v); err != nil {
			return nil, fmt.Errorf("writing verdict %d: %w", i+1, err)
		}
	}
	return served, nil
}

// ofActions are the criteria of what was done, which code decides with any judge.
var ofActions = []string{"steps", "resolution", "penalty"}
