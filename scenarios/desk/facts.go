package desk

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/csenv/csenv/scenarios/facts"
)

// names are the names of the vocabulary by the slots of decisions. Other slots have their own name.
var names = sync.OnceValue(func() map[string]string {
	return map[string]string{
		"paid_amount": "charged_amount", "duty": "charged_amount", "shop_price": "price",
		"arrival_day": "arrives_by", "answer_day": "answer_by", "ship_day": "ships_by", "delivered_day": "delivered_on",
		"warranty_end": "last_day", "until_day": "last_day", "expiry_day": "last_day",
		"lost_day": "starts_on", "act_day": "starts_on", "production_day": "starts_on",
		"return_days": "period", "price_days": "period", "outage_hours": "threshold",
		"tracking": "reference", "coupon": "reference", "address": "place",
		"kind": "reason", "cause": "reason", "service": "reason", "status": "reason",
	}
})

// reasons are the values of the name reason by the words of decisions.
var reasons = sync.OnceValue(func() map[string]string {
	return map[string]string{"final sale": "final_sale", "custom": "custom_made", "opened": "opened",
		"misuse": "misuse", "weather": "weather", "customs": "customs", "packed": "packed",
		"standard": "standard_delivery"}
})

// What returns the name of the fact in the vocabulary.
func (f *Fact) What() (string, error) {
	what := cmp.Or(names()[f.Slot], f.Slot)
	if _, known := facts.Find(what); !known {
		return "", fmt.Errorf("the slot %q has no name in the vocabulary of facts", f.Slot)
	}
	return what, nil
}

// Word returns a fact's text in the form of the vocabulary: the value of reason, else the text.
func (f *Fact) Word() string {
	if reason := reasons()[f.Text]; reason != "" && names()[f.Slot] == "reason" {
		return reason
	}
	return f.Text
}

// String returns the value in the form in which an agent states it, in English.
func (f *Fact) String() string {
	switch {
	case f.Amount != 0:
		return "$" + f.Amount.String()
	case !f.Day.IsZero():
		return f.Day.Format(time.DateOnly)
	}
	return f.Word()
}
