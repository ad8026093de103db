package prose

import (
	"testing"
	"time"

	"github.com/csenv/csenv/scenarios"
)

// TestFairness checks many correct ways to state a fact, and similar sentences that don't state it.
func TestFairness(t *testing.T) {
	tests := map[string]struct {
		language string
		facts    []scenarios.Fact
		stated   []string
		unstated []string
	}{
		"amount": {"en", []scenarios.Fact{{ID: "f1", Value: "$1,482.00", Context: []string{"overcharg", "difference",
			"too much"}}, {ID: "f2", Value: "$57.00", Context: []string{"seat"}}}, []string{
			"You were overcharged by $1,482.",
			"The difference: USD 1,482.00.",
			"1482 dollars too much were billed.",
			"I've worked out the difference. It comes to $1,482.00.",
			"The difference is easily told. That is $1,482.00 in all.",
			"Here is the difference:\n\n- $1,482.00",
			"What you paid too much:\n- seats: $57.00 each\n- in total: $1,482.00",
			"The difference (including tax) amounts to $1,482.00.",
			"We billed you too much, namely $1,482.00.",
			"By my count the difference isn't small: it's $1,482.00.",
			"There's no doubt about it, the difference is $1,482.00.",
		}, []string{
			"It comes to $1,482.00.",
			"Is there a difference? It comes to $1,482.00.",
			"There is no difference. It comes to $1,482.00.",
			"The difference is being checked. Your parcel weighs a ton and the courier wants $1,482.00 for it.",
			"The difference isn't $1,482.00.",
			"The difference is $57.00.",
		}},
		"time frame": {"en", []scenarios.Fact{{ID: "f1", Slot: "timeframe", Value: "2 business days",
			Accept: []string{"March 12, 2026"}, Context: []string{"hear", "write", "answer", "finance"}}}, []string{
			"You'll hear from us within two working days.",
			"They will write to you in 2 business days at the latest.",
			"Finance will answer by March 12.",
			"Finance will answer by the 12th.",
			"Finance will answer by Thursday.",
			"Finance will answer on 12/3.",
			"Expect their answer no later than 12 March 2026.",
			"You will hear from finance. That will take two business days.",
			"You will hear from finance: 2 working days.",
			"It won't be more than 2 business days until you hear from them.",
		}, []string{
			"You'll hear from us within two hours.",
			"Finance will answer by the 13th.",
			"Finance will answer by Friday.",
			"You won't hear from them within 2 business days.",
			"The parcel takes 2 business days.",
		}},
		"instruction": {"en", []scenarios.Fact{{ID: "f1", Value: "sign out everywhere", Accept: []string{
			"sign out of all"}, Context: []string{"password", "device", "phone", "account"}}}, []string{
			"Then sign out everywhere, so that no phone stays connected.",
			"Please tap \"Sign out everywhere\" in your account.",
			"Sign out of all devices.",
		}, []string{
			"Don't sign out everywhere, that would lock the account.",
			"Your account is safe.",
		}},
		"German amount": {"de", []scenarios.Fact{{ID: "f1", Value: "24,50 $",
			Context: []string{"anteilig", "Differenz"}}}, []string{
			"Die Differenz macht 24,50 $ aus.",
			"Anteilig sind das 24,50 Dollar.",
			"Ich habe die Differenz ausgerechnet. Es sind 24,50 $.",
			"So setzt sich die Differenz zusammen:\n- Tarif Plus: 24,50 $",
		}, []string{
			"Eine Differenz gibt es nicht. Es sind 24,50 $.",
			"Die Differenz ist klar. Ein neues Gerät kostet im Laden nebenan 24,50 $.",
		}},
		"Spanish time": {"es", []scenarios.Fact{{ID: "f1", Value: "12 de marzo de 2026",
			Context: []string{"respuesta", "escribir"}}}, []string{
			"Tendrá la respuesta el 12/3/2026.",
			"Tendrá la respuesta el 12 de marzo.",
			"Tendrá la respuesta el jueves.",
			"Le daremos una respuesta. Será el 12 de marzo.",
		}, []string{
			"No tendrá la respuesta el 12 de marzo.",
			"Tendrá la respuesta el viernes.",
		}},
		"French time": {"fr", []scenarios.Fact{{ID: "f1", Value: "48 heures", Context: []string{"lien", "valable"}}},
			[]string{
				"Le lien reste valable deux jours.",
				"Vous recevrez un lien. Il sera valable 48 h.",
				"Cliquez sur le lien. C'est valable pendant 48 heures.",
			}, []string{
				"Vous recevrez un lien. Le colis, lui, met 48 heures.",
			}},
	}
	libraries := newLibraries()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ticket := &scenarios.Ticket{Served: scenarios.Served{Language: tc.language, Now: time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)},
				Reply: scenarios.ReplySpec{Facts: tc.facts}}
			p := prepareTicket(ticket, libraries)
			for _, reply := range tc.stated {
				if got := p.facts[0].find(p.lib.read(reply), p); got != stated {
					t.Errorf("%q: the fact is %s", reply, got)
				}
			}
			for _, reply := range tc.unstated {
				if got := p.facts[0].find(p.lib.read(reply), p); got == stated {
					t.Errorf("%q: the fact is stated", reply)
				}
			}
		})
	}
}
