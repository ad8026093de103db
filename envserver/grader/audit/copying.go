package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csenv/csenv/scenarios/facts"
)

// englishDay is the form of dates in replies.
const englishDay = "January 2, 2006"

// readResult reads what a tool answered: whether it did, and its records.
func readResult(document any) (ok bool, records map[string]any) {
	raw, err := json.Marshal(document)
	if err != nil {
		return false, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&records) // no result has no records
	ok = records["ok"] == true
	for _, own := range []string{"ok", "error", "sent", "answer"} {
		delete(records, own)
	}
	return ok, records
}

// fieldNames are the names under which the fields of records are stated.
var fieldNames = map[string]string{"carrier": "carrier", "tracking": "reference", "delivered": "delivered_on",
	"amount": "charged_amount", "total": "price", "placed": "starts_on", "refund_id": "reference", "team": "team"}

// copyFields writes a reply with a sentence for every field in the tools' results, and for the
// executed actions. It states the fields that have a name of the vocabulary.
func copyFields(p *player) (string, []facts.Fact) {
	var stated []facts.Fact
	var b strings.Builder
	fmt.Fprintf(&b, "Hello %s, thank you for your message.", p.workflow.Customer.Name)
	for _, entry := range p.seen.History {
		ok, records := readResult(entry.Result)
		if ok && records["refund"] != nil {
			b.WriteString(" I have sent a refund to your card.")
		}
		if ok && records["case"] != nil {
			b.WriteString(" I have passed your case on to a team.")
		}
		stated = copyRecord(&b, stated, "", records)
	}
	return b.String(), stated[:min(len(stated), facts.MaxStated)]
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
