package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
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

// copyFields writes a reply with a sentence for every field in the tools' results, and for the
// executed actions.
func copyFields(p *player) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "Hello %s, thank you for your message.", p.workflow.Customer.Name)
	for _, entry := range p.seen.History {
		r, err := readResult(entry.Result)
		if err != nil {
			return "", err
		}
		if r.OK && r.Records["refund"] != nil {
			b.WriteString(" I have sent a refund to your card.")
		}
		if r.OK && r.Records["case"] != nil {
			b.WriteString(" I have passed your case on to a team.")
		}
		copyRecord(&b, "", r.Records)
	}
	return b.String(), nil
}

func copyRecord(b *strings.Builder, name string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			copyRecord(b, strings.TrimSpace(name+" "+strings.ReplaceAll(key, "_", " ")), v[key])
		}
	case []any:
		for _, item := range v {
			copyRecord(b, name, item)
		}
	case json.Number:
		fmt.Fprintf(b, " Your %s is %s%s.", name, currencySign(v), v)
	case string:
		fmt.Fprintf(b, " Your %s is %s.", name, formatText(v))
	}
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
