package prose

import (
	"testing"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
)

// TestPolarity checks whether a reply states a fact, denies it, leaves it open, or doesn't mention
// it.
func TestPolarity(t *testing.T) {
	type said map[string]grader.Finding
	tests := map[string]struct {
		language string
		fact     scenarios.Fact
		said     said
	}{
		"an amount": {"en", scenarios.Fact{ID: "f", Value: "$1,482.00", Context: []string{"difference", "overcharged"}},
			said{
				"The difference is $1,482.00.":                                          stated,
				"You were overcharged by 1482 dollars.":                                 stated,
				"The difference is exactly USD 1,482.00, no more.":                      stated,
				"There is no doubt that the difference is $1,482.00.":                   stated,
				"The difference, which nobody disputes, is $1,482.00.":                  stated,
				"The difference isn't $1,482.00.":                                       contradicted,
				"The difference never was $1,482.00.":                                   contradicted,
				"Either the difference is $1,482.00 or you counted wrongly.":            contradicted,
				"The difference is $1,482.00. In fact the difference is not $1,482.00.": contradicted,
				"Is the difference $1,482.00?":                                          missing,
				"The difference is $1,428.00.":                                          contradicted,
				"Your order number is $1,482.00.":                                       missing,
				"The difference is large. It came to $1,482.00.":                        stated,
			}},
		"a time": {"en", scenarios.Fact{ID: "f", Slot: "timeframe", Value: "48 hours",
			Context: []string{"answer", "hear"}}, said{
			"You will have an answer within two days.":                             stated,
			"You'll hear from them in 48 h.":                                       stated,
			"You won't hear from them until 48 hours have passed.":                 stated,
			"You will not have an answer within 48 hours.":                         contradicted,
			"You will have an answer within 48 hours, or an answer within 5 days.": stated,
			"You will have an answer within 5 days.":                               contradicted,
			"The parcel takes 48 hours.":                                           missing,
		}},
		"an instruction": {"en", scenarios.Fact{ID: "f", Value: "deadbolt", Context: []string{"key", "turn"}}, said{
			"Please turn the deadbolt by hand.":               stated,
			"Use the key for the mechanical deadbolt.":        stated,
			"Don't turn the deadbolt.":                        contradicted,
			"You should never use the key with the deadbolt.": contradicted,
			"The deadbolt is made of steel.":                  missing,
		}},
		"a denial": {"en", scenarios.Fact{ID: "f", Value: "date", Context: []string{"repair", "yet"}, Negative: true},
			said{
				"There is no date for the repair.":        stated,
				"I can't name a date for the repair yet.": stated,
				"The date of the repair is known.":        missing,
				"There is no news.":                       missing,
			}},
		"German amount": {"de", scenarios.Fact{ID: "f", Value: "1.482,00 $", Context: []string{"Differenz", "zu viel"}},
			said{
				"Die Differenz beträgt 1.482,00 $.":               stated,
				"Die Differenz beträgt 1482 Dollar.":              stated,
				"Es wurden 1.482,00 USD zu viel berechnet.":       stated,
				"Die Differenz beträgt nicht 1.482,00 $.":         contradicted,
				"Die Differenz war nie 1.482,00 $.":               contradicted,
				"Entweder beträgt die Differenz 1.482,00 $ nicht": contradicted,
				"Beträgt die Differenz 1.482,00 $?":               missing,
				"Die Differenz beträgt 1.428,00 $.":               contradicted,
			}},
		"German time": {"de", scenarios.Fact{ID: "f", Value: "5 Werktage", Context: []string{"Antwort", "melden"}},
			said{
				"Die Antwort kommt in fünf Arbeitstagen.":              stated,
				"Wir melden uns innerhalb von 5 Werktagen.":            stated,
				"Wir melden uns nicht innerhalb von 5 Werktagen.":      contradicted,
				"Wir melden uns in 5 Tagen.":                           contradicted,
				"Der Versand dauert 5 Werktage.":                       missing,
				"Melden Sie sich bitte. Das Paket braucht 5 Werktage.": missing,
			}},
		"Spanish time": {"es", scenarios.Fact{ID: "f", Value: "48 horas", Context: []string{"respuesta", "responder"}},
			said{
				"Tendrá una respuesta en dos días.":        stated,
				"La respuesta llega en 48 horas.":          stated,
				"La respuesta no llega en 48 horas.":       contradicted,
				"Nunca tendrá la respuesta en 48 horas.":   contradicted,
				"¿Tendrá una respuesta en 48 horas?":       missing,
				"El paquete tarda 48 horas.":               missing,
				"Tendrá la respuesta. Tarda unos 48 días.": missing,
			}},
		"Spanish amount": {"es", scenarios.Fact{ID: "f", Value: "1.482,00 $", Context: []string{"diferencia"}}, said{
			"La diferencia es de 1482 dólares.":    stated,
			"La diferencia es de 1.482,00 $.":      stated,
			"La diferencia no es de 1.482,00 $.":   contradicted,
			"La diferencia es de 1.842,00 $.":      contradicted,
			"El precio del equipo es 1.482,00 USD": missing,
		}},
		"French time": {"fr", scenarios.Fact{ID: "f", Value: "48 heures", Context: []string{"lien", "valable"}}, said{
			"Le lien est valable deux jours.":            stated,
			"Les liens restent valables 48 h.":           stated,
			"Le lien n'est pas valable 48 heures.":       contradicted,
			"Le lien n'est jamais valable 48 heures.":    contradicted,
			"Le lien est-il valable 48 heures ?":         missing,
			"Le colis met 48 heures.":                    missing,
			"Soit le lien est valable 48 heures ou non.": contradicted,
		}},
		"either way": {"en", scenarios.Fact{ID: "f", Value: "20 minutes", Context: []string{"restart"}}, said{
			"Update or not, the restart takes 20 minutes.":    stated,
			"The restart takes 20 minutes, update or not.":    stated,
			"The restart takes 20 minutes or not.":            contradicted,
			"Either the restart takes 20 minutes or it fails": contradicted,
		}},
		"French amount": {"fr", scenarios.Fact{ID: "f", Value: "1 482,00 €", Context: []string{"différence"}}, said{
			"La différence est de 1482 euros.":       stated,
			"La différence est de 1 482,00 €.":       stated,
			"La différence n'est pas de 1 482,00 €.": contradicted,
			"La différence est de 1 428,00 €.":       contradicted,
		}},
	}
	libraries := newLibraries()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ticket := &scenarios.Ticket{Served: scenarios.Served{Language: tc.language},
				Reply: scenarios.ReplySpec{Facts: []scenarios.Fact{tc.fact}}}
			p := prepareTicket(ticket, libraries)
			for reply, want := range tc.said {
				if got := p.facts[0].find(p.lib.read(reply), p); got != want {
					t.Errorf("%q: the fact is %s, want %s", reply, got, want)
				}
			}
		})
	}
}

// TestDiscriminatingFacts checks which facts show that a reply answers this ticket.
func TestDiscriminatingFacts(t *testing.T) {
	const served = "My invoice INV-104233 is wrong, I use 12 seats."
	fixed := scenarios.Fact{ID: "fixed", Value: "finance team"}
	shown := scenarios.Fact{ID: "shown", Value: "INV-104233", Seeded: true}
	drawn := scenarios.Fact{ID: "drawn", Value: "3 business days", Seeded: true}
	optional := scenarios.Fact{ID: "optional", Value: "$12.00", Seeded: true, Optional: true}
	told := scenarios.Fact{ID: "told", Value: "12 seats"}
	tests := map[string]struct {
		facts []scenarios.Fact
		want  string
	}{
		"drawn and not shown":     {[]scenarios.Fact{fixed, shown, drawn, optional}, "drawn"},
		"drawn, all shown":        {[]scenarios.Fact{fixed, shown, told}, "shown"},
		"nothing drawn":           {[]scenarios.Fact{fixed, told, optional}, "fixed"},
		"nothing drawn, all told": {[]scenarios.Fact{told}, "told"},
		"nothing required":        {[]scenarios.Fact{optional}, ""},
		"no facts":                {nil, ""},
	}
	libraries := newLibraries()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := prepareTicket(&scenarios.Ticket{Served: scenarios.Served{Language: "en", Description: served},
				Reply: scenarios.ReplySpec{Facts: tc.facts}}, libraries)
			got := ""
			for i := range p.facts {
				if p.facts[i].discriminating {
					got += p.facts[i].id
				}
			}
			if got != tc.want {
				t.Errorf("the discriminating facts are %q, want %q", got, tc.want)
			}
		})
	}
}

// TestPricesComeBeforeCaps checks that the lowest cap bounds what invented values leave.
func TestPricesComeBeforeCaps(t *testing.T) {
	r := &analysis{prepared: &prepared{}, discriminated: 1, verdict: grader.Verdict{
		Criteria: []grader.Criterion{{ID: "Q1", Earned: 160}, {ID: "Q2", Earned: 100}},
		Gates:    []grader.Gate{{ID: "stuffed", Cap: 100}}, Invented: []string{"$1", "$2"},
	}}
	if v := r.total(); v.PreGate != 160 || v.PostGate != 100 {
		t.Errorf("earned %d before and %d after the gates, want 160 and 100", v.PreGate, v.PostGate)
	}
	r.verdict.Invented = []string{"$1", "$2", "$3", "$4"}
	if v := r.total(); v.PreGate != 60 || v.PostGate != 60 {
		t.Errorf("earned %d before and %d after the gates, want 60 and 60", v.PreGate, v.PostGate)
	}
	r.discriminated, r.verdict.Invented = 0, r.verdict.Invented[:1]
	if v := r.total(); v.PostGate != 50 {
		t.Errorf("earned %d without facts, want 50", v.PostGate)
	}
}
