package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/facts"
)

// englishDay is the form of dates in replies.
const englishDay = "January 2, 2006"

// toolResult is the result of a tool. Its records are plain maps.
type toolResult struct {
	OK      bool           `json:"ok"`
	Records map[string]any `json:"-"`
}

func readResult(document any) (toolResult, error) {
	raw, err := json.Marshal(document)
	if err != nil {
		return toolResult{}, fmt.Errorf("reading a result: %w", err)
	}
	var r toolResult
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("reading a result: %w", err)
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if err := d.Decode(&r.Records); err != nil {
		return r, fmt.Errorf("reading the records of a result: %w", err)
	}
	for _, own := range []string{"ok", "error", "sent", "answer"} {
		delete(r.Records, own)
	}
	return r, nil
}

// fieldNames are the names under which the fields of records are stated.
var fieldNames = map[string]string{"carrier": "carrier", "tracking": "reference", "delivered": "delivered_on",
	"amount": "charged_amount", "total": "price", "placed": "starts_on", "refund_id": "reference", "team": "team"}

// copyFields writes a reply with a sentence for every field in the tools' results, and for the
// executed actions. It states the fields that have a name of the vocabulary.
func copyFields(p *player) (string, []facts.Fact, error) {
	var stated []facts.Fact
	var b strings.Builder
	fmt.Fprintf(&b, "Hello %s, thank you for your message.", p.workflow.Customer.Name)
	for _, entry := range p.seen.History {
		r, err := readResult(entry.Result)
		if err != nil {
			return "", nil, err
		}
		if r.OK && r.Records["refund"] != nil {
			b.WriteString(" I have sent a refund to your card.")
		}
		if r.OK && r.Records["case"] != nil {
			b.WriteString(" I have passed your case on to a team.")
		}
		stated = copyRecord(&b, stated, "", r.Records)
	}
	return b.String(), stated[:min(len(stated), facts.MaxStated)], nil
}

func copyRecord(b *strings.Builder, stated []facts.Fact, name string, value any) []facts.Fact {
	text := ""
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			stated = copyRecord(b, stated, strings.TrimSpace(name+" "+strings.ReplaceAll(key, "_", " ")), v[key])
		}
	case []any:
		for _, item := range v {
			stated = copyRecord(b, stated, name, item)
		}
	case json.Number:
		text = currencySign(v) + v.String()
	case string:
		text = formatText(v)
	}
	if text == "" {
		return stated
	}
	fmt.Fprintf(b, " Your %s is %s.", name, text)
	words := strings.Fields(name)
	f := facts.Fact{What: fieldNames[words[len(words)-1]], Value: text}
	if f.What != "" && !slices.Contains(stated, f) {
		stated = append(stated, f)
	}
	return stated
}

// currencySign returns the sign of an amount of money. Only amounts have two decimals.
func currencySign(n json.Number) string {
	if i := strings.IndexByte(n.String(), '.'); i >= 0 && len(n)-i == 3 {
		return "$"
	}
	return ""
}

// formatText formats a time as a day, and returns any other text unchanged.
func formatText(text string) string {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.Format(englishDay)
	}
	return strings.TrimSuffix(strings.ReplaceAll(text, "_", " "), ".")
}
