package episode

import (
	"encoding/json"
	"fmt"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
)

// servedVerdict has the members of a verdict that agents and their trainers receive: what was done
// and what it earned. The other members, such as reasons and a model's answers, name what would
// have been right, and the same seed can be played again.
type servedVerdict struct {
	TicketID string `json:"ticket_id,omitempty"`
	Judge    string `json:"judge"`
	Case     string `json:"case,omitempty"`
	Status   string `json:"status"`
	Criteria []struct {
		ID      string `json:"id"`
		Earned  int64  `json:"earned"`
		Offered int64  `json:"offered"`
		Reason  string `json:"reason,omitempty"`
	} `json:"criteria"`
	Gates []struct {
		ID  string `json:"id"`
		Cap int64  `json:"cap"`
	} `json:"gates,omitempty"`
	PreGate  int64  `json:"preGate"`
	PostGate int64  `json:"postGate"`
	Right    bool   `json:"right"`
	Cause    string `json:"cause,omitempty"`
}

// ServeVerdicts returns verdicts as agents and their trainers receive them. Of reasons only the
// class of an action's fine is left: "forbidden" of "forbidden: it would pay the customer twice".
// One that isn't a JSON object of the right types is an error.
func ServeVerdicts(verdicts []json.RawMessage) ([]json.RawMessage, error) {
	served := make([]json.RawMessage, len(verdicts))
	for i, text := range verdicts {
		var v servedVerdict
		if err := jsonv2.Unmarshal(text, &v); err != nil {
			return nil, fmt.Errorf("reading verdict %d: %w", i+1, err)
		}
		for k := range v.Criteria {
			c := &v.Criteria[k]
			if c.Reason, _, _ = strings.Cut(c.Reason, ":"); !strings.HasPrefix(c.ID, "action ") {
				c.Reason = ""
			}
		}
		var err error
		if served[i], err = json.Marshal(v); err != nil {
			return nil, fmt.Errorf("writing verdict %d: %w", i+1, err)
		}
	}
	return served, nil
}
