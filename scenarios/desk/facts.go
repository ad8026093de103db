package desk

import (
	"fmt"
	"sync"
)

// names are the names of the vocabulary by the slots of decisions.
var names = sync.OnceValue(func() map[string]string {
	return map[string]string{
		"refund_amount": "refund_amount", "credit_amount": "credit_amount", "given_before": "given_before",
		"held_amount": "held_amount", "paid_amount": "charged_amount", "duty": "charged_amount", "shop_price": "price",
		"arrival_day": "arrives_by", "answer_day": "answer_by", "ship_day": "ships_by", "delivered_day": "delivered_on",
		"last_day": "last_day", "warranty_end": "last_day", "until_day": "last_day", "expiry_day": "last_day",
		"lost_day": "starts_on", "act_day": "starts_on", "production_day": "starts_on",
		"return_days": "period", "price_days": "period", "outage_hours": "threshold",
		"tracking": "reference", "coupon": "reference", "address": "place", "carrier": "carrier", "team": "team",
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
	if what := names()[f.Slot]; what != "" {
		return what, nil
	}
	return "", fmt.Errorf("the slot %q has no name in the vocabulary of facts", f.Slot)
}

// Word returns a fact's text in the form of the vocabulary: the value of reason, else the text.
func (f *Fact) Word() string {
	if reason := reasons()[f.Text]; reason != "" && names()[f.Slot] == "reason" {
		return reason
	}
	return f.Text
}
