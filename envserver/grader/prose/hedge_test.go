package prose

import (
	"testing"

	"github.com/csenv/csenv/envserver/grader/text"
)

// TestHedges checks which words leave a promise open. Grounds ("as I said", "per our policy") and
// text after a complete promise don't; a condition, another person's decision and the limit of
// one's authority do.
func TestHedges(t *testing.T) {
	tests := map[string]map[string]bool{
		"en": {
			"As I said, we will refund you.":                                 true,
			"As I said we will refund you.":                                  true,
			"As requested we will refund you.":                               true,
			"As you asked, we'll refund it.":                                 true,
			"As you asked we'll refund it.":                                  true,
			"Per our policy we'll refund you.":                               true,
			"Under our policy you'll get a refund.":                          true,
			"According to our policy, you will receive a refund.":            true,
			"According to our policy you will receive a refund.":             true,
			"In line with our policy we will refund you.":                    true,
			"I checked and we will refund you.":                              true,
			"I checked your order and refunded it.":                          true,
			"We looked into it and will refund you.":                         true,
			"We will refund the requested amount.":                           true,
			"We will refund the amount in question.":                         true,
			"We will refund you before Friday.":                              true,
			"We will refund you before the end of the week.":                 true,
			"We will refund you as soon as possible.":                        true,
			"We'll refund you after the weekend.":                            true,
			"We will refund you; if you have any questions, let us know.":    true,
			"What I can do is refund you right away.":                        true,
			"But we can refund you.":                                         true,
			"We can confirm that we will refund it.":                         true,
			"We have decided to refund you.":                                 true,
			"Your refund will be issued as requested.":                       true,
			"Should you have questions, write to us, we will refund you.":    true,
			"Should finance agree, we will refund you.":                      false,
			"Finance decided to refund others.":                              false,
			"I haven't decided to refund you.":                               false,
			"We will refund you, subject to finance's approval.":             false,
			"If finance approves it, we will refund.":                        false,
			"If you like and if finance approves it, we will refund.":        false,
			"Finance decides whether to refund.":                             false,
			"We can't refund.":                                               false,
			"As I said, we can't refund you.":                                false,
			"As I said, finance decides about the refund.":                   false,
			"It's above what I can replace myself.":                          false,
			"It's more than I can refund.":                                   false,
			"That is beyond what I can refund on my own.":                    false,
			"This is not something I may refund.":                            false,
			"You said that we will refund you.":                              false,
			"We will refund you after the review.":                           false,
			"We will refund you once finance agrees.":                        false,
			"I will ask finance to refund you.":                              false,
			"We will consider refunding it.":                                 false,
			"Our policy covers refunds of up to $200.":                       false,
			"I have refund requests from three customers.":                   false,
			"We refund customers who qualify.":                               false,
			"Per our policy, finance will review your refund within 2 days.": false,
		},
		"de": {
			"Wie gesagt, wir erstatten Ihnen den Betrag.":                    true,
			"Wie gewünscht erstatten wir Ihnen den Betrag.":                  true,
			"Gemäß unserer Richtlinie erstatten wir Ihnen den Betrag.":       true,
			"Wir haben es geprüft und erstatten Ihnen den Betrag.":           true,
			"Wir erstatten Ihnen den Betrag so bald wie möglich.":            true,
			"Wir erstatten den Betrag vor Freitag.":                          true,
			"Wenn die Buchhaltung zustimmt, erstatten wir Ihnen den Betrag.": false,
			"Die Buchhaltung entscheidet, ob wir den Betrag erstatten.":      false,
			"Das übersteigt, was ich selbst ersetzen kann.":                  false,
			"Das ist mehr, als ich erstatten kann.":                          false,
			"Das darf ich nicht erstatten.":                                  false,
			"Nach der Prüfung entscheidet das Team über die Erstattung.":     false,
		},
		"es": {
			"Como le dije, le devolveremos el importe.":           true,
			"Como pidió usted, le devolveremos el importe.":       true,
			"Según nuestra política le devolveremos el importe.":  true,
			"Lo he revisado y le devolveremos el importe.":        true,
			"Le devolveremos el importe lo antes posible.":        true,
			"Si finanzas lo aprueba, le devolveremos el importe.": false,
			"Finanzas decide si le devolvemos el importe.":        false,
			"Eso supera lo que puedo reembolsar.":                 false,
			"Es más de lo que podemos reembolsar.":                false,
			"No es algo que pueda reembolsar.":                    false,
		},
		"fr": {
			"Comme je l'ai dit, nous vous remboursons aujourd'hui.":   true,
			"Comme demandé nous vous remboursons aujourd'hui.":        true,
			"Selon notre politique nous vous remboursons le montant.": true,
			"J'ai vérifié et nous vous remboursons le montant.":       true,
			"Nous vous remboursons le montant dès que possible.":      true,
			"Si la finance l'accepte, nous vous remboursons.":         false,
			"La finance décide si nous vous remboursons.":             false,
			"Cela dépasse ce que je peux rembourser.":                 false,
			"C'est plus que ce que nous pouvons rembourser.":          false,
			"Ce n'est pas une chose que je peux rembourser.":          false,
		},
	}
	lexicons := newLibraries()
	for language, cases := range tests {
		for wording, want := range cases {
			lib := lexicons[language]()
			if got := len(lib.promiseReader(text.Parse(text.Fold(text.Normalise(wording)),
				lib.Lexicon)).promises()) > 0; got != want {
				t.Errorf("%s: %q promises: %v, want %v", language, wording, got, want)
			}
		}
	}
}
