package prose

import (
	"testing"

	"github.com/csenv/csenv/envserver/grader/text"
)

func TestPromises(t *testing.T) {
	tests := map[string][]struct {
		text string
		// remedy is the promised remedy, or "".
		remedy string
	}{
		"en": {
			{"We will refund you.", "refund"},
			{"We'll refund the full amount today.", "refund"},
			{"I have refunded the second payment.", "refund"},
			{"I am refunding this for you now.", "refund"},
			{"We are going to refund it.", "refund"},
			{"I'd be happy to help, and I am happy to refund it.", "refund"},
			{"You'll get your money back.", "refund"},
			{"You will be refunded in full.", "refund"},
			{"You're getting a refund.", "refund"},
			{"The amount will be returned to your card.", "refund"},
			{"The $310.00 is coming back to you.", "refund"},
			{"The charge has been reversed.", "refund"},
			{"Your refund has been issued.", "refund"},
			{"Your refund is on its way.", "refund"},
			{"Refund approved.", "refund"},
			{"Expect your refund by Friday.", "refund"},
			{"I've checked the charge and refunded it.", "refund"},
			{"I can refund you right away.", "refund"},
			{"There's no doubt you will get your money back.", "refund"},
			{"If you like, we will refund it today.", "refund"},
			{"We will reimburse all of it without delay.", "refund"},
			{"I will put the money back on your card.", "refund"},
			{"We will send you a replacement.", "replace"},
			{"I have applied a goodwill credit.", "credit"},
			{"We will waive the fee.", "waive"},
			{"We will compensate you for the trouble.", "compensate"},
			{"I guarantee that it arrives.", "guarantee"},

			{"I will refund it at once.", "refund"},
			{"I will refund it today; if you need more, write.", "refund"},
			{"I will refund it today, and if you need more, just write.", "refund"},
			{"I will refund it today. If you need more, write.", "refund"},
			{"I will refund it today, if finance agrees.", ""},
			{"I'll look into it, and if finance agrees, I will refund it.", ""},
			{"Will it be refunded? Not yet.", ""},

			{"We cannot refund this.", ""},
			{"I can't promise that the money will be returned.", ""},
			{"We won't be able to refund it.", ""},
			{"No refund will be issued.", ""},
			{"Unfortunately a refund is not possible here.", ""},
			{"If finance approves, we will refund you.", ""},
			{"Once finance has decided, the amount will be returned.", ""},
			{"You will be refunded provided that the claim is accepted.", ""},
			{"Finance decides whether you get a refund.", ""},
			{"A refund may follow.", ""},
			{"Finance will review your refund request.", ""},
			{"I have passed your refund to finance.", ""},
			{"You asked for a refund.", ""},
			{"I understand that you want your money back.", ""},
			{"Regarding the refund, finance will write to you.", ""},
			{"Refunds above $200 go to finance.", ""},
			{"Agents may refund up to $200.", ""},
			{"Would you like a refund?", ""},
			{"The refund is with finance now.", ""},
			{"It was paid by credit card.", ""},
			{"Please send the device back to us.", ""},
			{"Please return the device in its box.", ""},
		},
		"de": {
			{"Wir erstatten Ihnen den Betrag.", "refund"},
			{"Wir werden Ihnen den Betrag vollständig erstatten.", "refund"},
			{"Die Erstattung wurde veranlasst.", "refund"},
			{"Sie erhalten Ihr Geld zurück.", "refund"},
			{"Sie bekommen eine Gutschrift.", "credit"},
			{"Wir können das nicht erstatten.", ""},
			{"Wenn die Buchhaltung zustimmt, erstatten wir den Betrag.", ""},
			{"Ich habe Ihre Anfrage zur Erstattung weitergeleitet.", ""},
			{"Eine Erstattung ist leider nicht möglich.", ""},
			{"Ich habe Ihnen den Betrag bereits erstattet.", "refund"},
			{"Ihr Geld wird zurücküberwiesen.", "refund"},
			{"Das Geld kommt zurück.", "refund"},
			{"Wir können Ihnen den Betrag sofort erstatten.", "refund"},
			{"Wir schicken Ihnen einen Ersatz.", "replace"},
			{"Wir erlassen Ihnen die Gebühr.", "waive"},
			{"Wir entschädigen Sie dafür.", "compensate"},
			{"Sie erhalten einen Rabatt.", "discount"},
			{"Wir garantieren das.", "guarantee"},
			{"Wenn Sie möchten, erstatten wir den Betrag.", "refund"},
			{"Niemand wird Ihnen das erstatten.", ""},
			{"Falls das Team zustimmt, erhalten Sie eine Gutschrift.", ""},
			{"Das Team prüft die Erstattung.", ""},
			{"Die Entscheidung über die Erstattung trifft die Buchhaltung.", ""},
			{"Bitte schicken Sie das Gerät zurück.", ""},
			{"Möchten Sie eine Erstattung?", ""},
		},
		"es": {
			{"Le devolveremos el importe.", "refund"},
			{"Hemos emitido el reembolso.", "refund"},
			{"No podemos reembolsar el importe.", ""},
			{"Si finanzas lo aprueba, le devolveremos el importe.", ""},
			{"Le reembolsamos el pago hoy mismo.", "refund"},
			{"Recibirá un reembolso.", "refund"},
			{"Ya he tramitado la devolución.", "refund"},
			{"Vamos a devolver el dinero.", "refund"},
			{"Le enviaremos un reemplazo.", "replace"},
			{"Le daremos un descuento.", "discount"},
			{"Le compensaremos por la demora.", "compensate"},
			{"Garantizamos la entrega.", "guarantee"},
			{"Si lo desea, le devolveremos el importe.", "refund"},
			{"Nunca reembolsamos este importe.", ""},
			{"El equipo decide sobre el reembolso.", ""},
			{"Usted pidió un reembolso.", ""},
			{"Hemos pasado su solicitud de reembolso a finanzas.", ""},
			{"Cuando finanzas decida, le devolveremos el importe.", ""},
		},
		"fr": {
			{"Nous vous remboursons aujourd'hui.", "refund"},
			{"Vous recevrez un remboursement.", "refund"},
			{"Nous ne pouvons pas rembourser ce montant.", ""},
			{"Si la finance l'accepte, nous vous rembourserons.", ""},
			{"Nous avons remboursé le montant.", "refund"},
			{"Nous allons vous rembourser.", "refund"},
			{"Le remboursement est effectué.", "refund"},
			{"Nous vous rendrons l'argent.", "refund"},
			{"Nous remplacerons l'appareil.", "replace"},
			{"Vous recevrez une remise.", "discount"},
			{"Nous garantissons la livraison.", "guarantee"},
			{"Si vous voulez, nous vous remboursons.", "refund"},
			{"Aucun remboursement ne sera effectué.", ""},
			{"L'équipe décide du remboursement.", ""},
			{"Vous avez fait une demande de remboursement.", ""},
			{"Quand la finance aura décidé, nous vous rembourserons.", ""},
			{"Un remboursement est peut-être possible.", ""},
			{"Le montant sera crédité sur votre carte.", "refund"},
			{"La somme sera créditée sur votre compte bancaire.", "refund"},
			{"Un avoir a été crédité sur votre compte.", "credit"},
			{"Nous vous offrons un avoir.", "credit"},
			{"Le remboursement est donc accordé.", "refund"},
			{"Le colis est arrivé trop tard, nous vous remboursons.", "refund"},
			{"Nous vous restituons 50 $.", "refund"},
			{"50 $ vous seront reversés.", "refund"},
			{"Vous récupérez 50 $.", "refund"},
			{"Votre remboursement a été validé.", "refund"},
			{"Le remboursement vous parviendra le 3 mai au plus tard.", "refund"},
			{"Vous disposez d'un avoir de 20 $.", "credit"},
			{"Un crédit de 20 $ a été ajouté à votre compte.", "credit"},
			{"Je vous offre un bon d'achat de 20 $.", "credit"},
			{"Nous vous envoyons un nouvel article.", "replace"},
			{"Nous remplaçons votre caméra.", "replace"},
			{"Nous compensons votre perte.", "compensate"},
			{"Je vous accorde un geste commercial.", "compensate"},
			{"Merci de nous avoir écrit.", ""},
			{"Nous espérons avoir répondu à votre question.", ""},
			{"Il est trop tard pour un remboursement.", ""},
			{"Dès réception du retour, nous vous rembourserons.", ""},
			{"Passé ce délai, nous vous enverrons un remplacement.", ""},
			{"Un crédit est accordé à partir de 24 heures de panne.", ""},
			{"Une panne d'au moins 24 heures donne droit à un avoir, que nous accordons.", ""},
			{"Le remboursement est donc exclu.", ""},
			{"Je dois donc refuser le remplacement.", ""},
			{"Le remboursement des frais de port est réservé aux envois express.", ""},
			{"C'est à une autre équipe de valider le remboursement.", ""},
		},
	}
	lexicons := newLibraries()
	for language, cases := range tests {
		lib := lexicons[language]()
		for _, tc := range cases {
			plain := text.Normalise(tc.text)
			promises := lib.promiseReader(text.Parse(text.Fold(plain), lib.Lexicon)).promises()
			got := ""
			if len(promises) > 0 {
				got = promises[0].name
			}
			if got != tc.remedy {
				t.Errorf("%s: %q promises %q, want %q", language, tc.text, got, tc.remedy)
			}
		}
	}
}

func TestPromisedVerb(t *testing.T) {
	lib := newLibraries()["en"]()
	tests := map[string]bool{
		"We will send the footage to the officer.":    true,
		"I have sent the footage.":                    true,
		"We can't send the footage to anybody.":       false,
		"If the desk agrees, we'll send the footage.": false,
	}
	forbidden := lib.remedyOf("send the footage")
	for wording, want := range tests {
		if got := lib.promiseReader(text.Parse(text.Fold(wording), lib.Lexicon)).promised(
			&forbidden.term); got != want {
			t.Errorf("%q counts as a promise: %v, want %v", wording, got, want)
		}
	}
	if r := newLibraries()["de"]().remedyOf("refund"); r.name != "refund" {
		t.Errorf("an English verb names remedy %q in a German ticket", r.name)
	}
}
