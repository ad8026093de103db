package prose

import (
	"testing"

	"github.com/csenv/csenv/scenarios"
)

// TestAcknowledges checks which sentences acknowledge a worried customer's situation, and which
// would fit every ticket.
func TestAcknowledges(t *testing.T) {
	tests := map[string]map[string]bool{
		"en": {
			"You won't lose anything, the sensors come back.":            true,
			"Please be at ease, your card is safe.":                      true,
			"You can sleep tonight.":                                     true,
			"You wrote twice and got no answer: that is our failure.":    true,
			"Two messages without a reply is two too many.":              true,
			"It was right to ask.":                                       true,
			"I realise that's awkward for a month-end close.":            true,
			"Please don't wait for a quiet minute, ring your bank.":      true,
			"You should not have had to spend a lunch break on this.":    true,
			"I know that isn't what you hoped for.":                      true,
			"We apologise for any inconvenience caused.":                 false,
			"Sorry for the inconvenience.":                               false,
			"Thank you for contacting us.":                               false,
			"Thank you for your message and your patience.":              false,
			"We are looking into it and will get back to you.":           false,
			"Kind regards, Larkfield Support":                            false,
			"The plan ends in March.":                                    false,
			"Please find the invoice under Billing.":                     false,
			"If you have any further questions, do not hesitate to ask.": false,
		},
		"de": {
			"Seien Sie beruhigt, es geht nichts verloren.":         true,
			"Das war unser Versäumnis.":                            true,
			"Mir ist klar, dass der Termin drängt.":                true,
			"Ihre Nachfrage kommt zu Recht.":                       true,
			"Vielen Dank für Ihre Nachricht.":                      false,
			"Wir bitten, die Unannehmlichkeiten zu entschuldigen.": false,
			"Die Rechnung steht im Konto.":                         false,
		},
		"es": {
			"Puede estar tranquilo, no se pierde nada.": true,
			"Ha hecho bien en escribirnos.":             true,
			"Fue un error nuestro.":                     true,
			"Gracias por contactar con nosotros.":       false,
			"Disculpe las molestias.":                   false,
			"La factura está en su cuenta.":             false,
		},
		"fr": {
			"Rassurez-vous, vous avez encore le temps.":       true,
			"C'est notre erreur.":                             true,
			"Vous avez bien fait de nous écrire.":             true,
			"Merci de nous avoir contactés.":                  false,
			"Nous vous prions d'excuser la gêne occasionnée.": false,
			"La facture est dans votre compte.":               false,
		},
	}
	libraries := newLibraries()
	for language, cases := range tests {
		p := prepareTicket(&scenarios.Ticket{Served: scenarios.Served{Language: language, Tone: "worried", Description: "?"}}, libraries)
		for text, want := range cases {
			if got := hasAcknowledgement(p.lib.read(text), p); got != want {
				t.Errorf("%s: %q acknowledges: %t, want %t", language, text, got, want)
			}
		}
	}
}

// TestHandedOver checks which replies state a hand-over, also with "them" for a team that the reply
// names.
func TestHandedOver(t *testing.T) {
	tests := map[string]map[string]bool{
		"en": {
			"Whether it's allowed is for legal to say; I've asked them.":                  true,
			"Whether it's allowed is open; I haven't asked them.":                         false,
			"I have passed your case to our legal desk.":                                  true,
			"Our legal colleagues decide. Your case is already with them.":                true,
			"Finance has to decide. They've had it from me this morning.":                 true,
			"Only the legal desk may say. I have handed them your request.":               true,
			"The decision is the legal desk's, and the file is in their hands.":           true,
			"The legal desk, to whom I have given it, will write to you.":                 true,
			"The legal desk decides. I have not handed them your request.":                false,
			"If you want it, the legal desk decides and I have handed them your request.": false,
			"There's no form or legal team involved.":                                     false,
			"I have handed them your request.":                                            false,
		},
		"es": {
			"Lo decide el departamento legal y ya se lo he remitido.": true,
			"Lo decide el departamento legal; no se lo he remitido.":  false,
		},
		"de": {
			"Darüber entscheidet die Rechtsabteilung; Ihr Fall liegt bereits dort.": true,
			"Ihr Fall ist abgeschlossen.":                                           false,
		},
		"fr": {
			"C'est le service juridique qui décide et je leur ai transmis votre demande.": true,
			"Votre demande est close.": false,
		},
	}
	libraries := newLibraries()
	for language, cases := range tests {
		p := prepareTicket(&scenarios.Ticket{Served: scenarios.Served{Language: language, Gold: scenarios.TicketGold{Escalate: true, Team: "xyz"}}},
			libraries)
		for text, want := range cases {
			if got := handedOver(p.lib.read(text), p, false); got != want {
				t.Errorf("%s: %q states a hand-over: %t, want %t", language, text, got, want)
			}
		}
	}
}
