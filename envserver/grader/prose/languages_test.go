package prose

import (
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
)

// generatedCase is a case in a language whose policy gives no remedy.
func generatedCase(language string, facts ...scenarios.Fact) *scenarios.Workflow {
	w := &scenarios.Workflow{Language: language, Facts: facts, Desk: &desk.Desk{Records: &desk.Records{}}}
	for _, remedy := range []string{"refund", "credit", "replace", "compensate"} {
		w.Forbidden = append(w.Forbidden, scenarios.ForbiddenAction{ID: "no-" + remedy, Action: scenarios.RespondUser,
			Verbs: []string{remedy}})
	}
	return w
}

// TestPromisesInLanguages reads promises and denials to customers who don't write English.
func TestPromisesInLanguages(t *testing.T) {
	for _, tc := range []struct{ language, message, remedy string }{
		{"de", "Ich erstatte Ihnen den Kaufpreis.", "refund"},
		{"de", "Ich habe Ihnen 20,00 $ erstattet.", "refund"},
		{"de", "Sie bekommen Ihr Geld zurück.", "refund"},
		{"de", "Die Rückerstattung ist veranlasst.", "refund"},
		{"de", "Sie müssen nicht länger warten, wir erstatten Ihnen den Betrag.", "refund"},
		{"de", "Sie erhalten eine Gutschrift über 20,00 $.", "credit"},
		{"de", "Wir schreiben Ihnen 20,00 $ gut.", "credit"},
		{"de", "Wir haben Ihrem Kundenkonto ein Guthaben von 20,00 $ hinzugefügt.", "credit"},
		{"de", "Sie erhalten ein Guthaben von 20,00 $.", "credit"},
		{"de", "Wir erstatten Ihnen zweimal 5,13 $, insgesamt also 10,26 $, als Guthaben.", "credit"},
		{"en", "We will refund the difference, $10.26 in all, as store credit.", "credit"},
		{"en", "We will refund $10.26 to your card and give you $5.00 as store credit.", "refund"},
		{"de", "Wir senden Ihnen kostenlos Ersatz.", "replace"},
		{"de", "Wir tauschen das Gerät aus.", "replace"},
		{"de", "Wir schicken Ihnen einen neuen Artikel.", "replace"},
		{"de", "Ein neues Gerät ist unterwegs zu Ihnen.", "replace"},
		{"de", "Als Entschädigung erhalten Sie 20,00 $.", "compensate"},

		{"de", "Eine Erstattung ist leider nicht möglich.", ""},
		{"de", "Deshalb kann ich Ihnen den Kaufpreis leider nicht mehr erstatten.", ""},
		{"de", "Die Frist ist vorbei, eine Erstattung ist daher nicht möglich.", ""},
		{"de", "Einen Ersatz können wir deshalb leider nicht mehr anbieten.", ""},
		{"de", "Die Frist für eine Erstattung ist am 3. März 2026 abgelaufen.", ""},
		{"de", "Ob Sie eine Erstattung bekommen, entscheidet das Finanzteam.", ""},
		{"de", "Wenn das Team zustimmt, bekommen Sie das Geld zurück.", ""},
		{"de", "Ihren Antrag auf Erstattung habe ich an das Finanzteam weitergegeben.", ""},
		{"de", "Eine Gutschrift erhalten Sie erst ab einem Ausfall von 6 Stunden.", ""},
		{"de", "Dafür haben wir kein Guthaben eingerichtet.", ""},
		{"de", "Leider können wir Ihnen keinen neuen Artikel schicken.", ""},
		{"de", "Ich melde mich bei Ihnen zurück.", ""},

		{"es", "Le reembolsamos el precio del artículo.", "refund"},
		{"es", "Le hemos devuelto 20,00 $ en su tarjeta.", "refund"},
		{"es", "La devolución del importe está en camino.", "refund"},
		{"es", "Recibirá el dinero de vuelta.", "refund"},
		{"es", "Recibirá un crédito de tienda de 20,00 $.", "credit"},
		{"es", "Hemos añadido a su cuenta un saldo de 20,00 $.", "credit"},
		{"es", "Le damos un vale de 20,00 $.", "credit"},
		{"es", "Le hemos enviado un artículo de reemplazo.", "replace"},
		{"es", "Le mandamos otro artículo nuevo.", "replace"},
		{"es", "Le enviaremos un artículo nuevo.", "replace"},
		{"es", "Le compensamos con 20,00 $.", "compensate"},

		{"es", "Lo siento, pero el plazo de devolución ha terminado.", ""},
		{"es", "El plazo para devolver el artículo ha finalizado.", ""},
		{"es", "El último día para devolverlo fue el 3 de marzo de 2026.", ""},
		{"es", "El artículo está excluido de la devolución.", ""},
		{"es", "Tendrá 30 días para la devolución.", ""},
		{"es", "El importe se abonará en su cuenta bancaria.", ""},
		{"es", "La compensación se aplica a partir de 6 horas.", ""},
		{"es", "Concedemos crédito por interrupciones de 6 horas o más.", ""},
		{"es", "El equipo de finanzas decidirá sobre su reembolso.", ""},
		{"es", "No le podemos enviar otro artículo.", ""},
		{"es", "Le enviaremos otro correo.", ""},
		{"es", "El saldo de su cuenta es de 20,00 $.", ""},
	} {
		w := generatedCase(tc.language)
		r := New().ReadMessage(w, tc.message)
		got := ""
		for i, reason := range r.Commits {
			if reason != "" {
				got = w.Forbidden[i].Verbs[0]
			}
		}
		if got != tc.remedy {
			t.Errorf("%q promises %q, want %q", tc.message, got, tc.remedy)
		}
	}
}

// TestFactsInLanguages reads a day, an amount, a duration and a reason in other words than the
// reference reply's.
func TestFactsInLanguages(t *testing.T) {
	facts := map[string][]scenarios.Fact{"de": {
		{ID: "day", Slot: "arrival_day", Value: "23. Juni 2026", Context: []string{"spätestens", "bis", "geld", "konto"}},
		{ID: "sum", Slot: "refund_amount", Value: "1.096,50\u00a0$", Context: []string{"erstatt", "betrag", "zurück"}},
		{ID: "days", Slot: "return_days", Value: "30 Tage", Context: []string{"rückgabe", "zurück", "zustellung"}},
		{ID: "kind", Slot: "kind", Value: "die Packung wurde geöffnet", Accept: []string{"geöffnet", "aufgemacht"},
			Context: []string{"grund", "weil", "artikel"}},
	}, "es": {
		{ID: "day", Slot: "arrival_day", Value: "23 de junio de 2026", Context: []string{"tardar", "dinero", "cuenta"}},
		{ID: "sum", Slot: "refund_amount", Value: "1.096,50\u00a0$", Context: []string{"reembols", "devol", "importe"}},
		{ID: "days", Slot: "return_days", Value: "30 días", Context: []string{"devol", "entrega", "plazo"}},
		{ID: "kind", Slot: "kind", Value: "el artículo se abrió", Accept: []string{"abierto", "abrió"},
			Context: []string{"motivo", "porque", "artículo"}},
	}, "fr": {
		{ID: "day", Slot: "arrival_day", Value: "23 juin 2026", Context: []string{"argent", "compte", "tard"}},
		{ID: "sum", Slot: "refund_amount", Value: "1\u00a0096,50\u00a0$", Context: []string{"rembours", "recev"}},
		{ID: "days", Slot: "return_days", Value: "30 jours", Context: []string{"retour", "renvoy", "livraison"}},
		{ID: "kind", Slot: "kind", Value: "mauvaise utilisation", Accept: []string{"pas couvert", "chute"},
			Context: []string{"raison", "garantie", "article"}},
	}}
	for _, tc := range []struct {
		language, message string
		fact              int
		want              grader.Finding
	}{
		{"de", "Das Geld ist bis zum 23.06.2026 auf Ihrem Konto.", 0, stated},
		{"de", "Spätestens am Dienstag, den 23. Juni, ist das Geld da.", 0, stated},
		{"de", "Das Geld ist nicht am 23. Juni 2026 auf Ihrem Konto.", 0, contradicted},
		{"de", "Ist das Geld bis zum 23. Juni 2026 da?", 0, missing},
		{"de", "Das Geld ist spätestens am 25. Juni 2026 da.", 0, contradicted},
		{"de", "Sie bekommen 1096,50 $ zurück.", 1, stated},
		{"de", "Der Betrag von $1,096.50 wird erstattet.", 1, stated},
		{"de", "Wir erstatten Ihnen 1.096,50 Dollar.", 1, stated},
		{"de", "Wir erstatten Ihnen nicht 1.096,50 $.", 1, contradicted},
		{"de", "Wir erstatten Ihnen 96,50 $.", 1, contradicted},
		{"de", "Sie können den Artikel innerhalb von dreißig Tagen nach der Zustellung zurückgeben.", 2, stated},
		{"de", "Die Rückgabe ist 30 Tage lang möglich.", 2, stated},
		{"de", "Das geht nicht, weil der Artikel schon aufgemacht wurde.", 3, stated},
		{"de", "Der Grund ist, dass die Packung geöffnet ist.", 3, stated},

		{"es", "El dinero estará en su cuenta el 23/06/2026.", 0, stated},
		{"es", "A más tardar el martes 23 de junio tendrá el dinero.", 0, stated},
		{"es", "El dinero aún no estará en su cuenta el 23 de junio de 2026.", 0, contradicted},
		{"es", "¿Tendrá el dinero el 23 de junio de 2026?", 0, missing},
		{"es", "Tendrá el dinero a más tardar el 25 de junio de 2026.", 0, contradicted},
		{"es", "Le devolvemos 1096,50 $.", 1, stated},
		{"es", "Se reembolsa el importe de $1,096.50.", 1, stated},
		{"es", "El reembolso es de 1.096,50 dólares.", 1, stated},
		{"es", "No le reembolsamos 1.096,50 $.", 1, contradicted},
		{"es", "Le reembolsamos 96,50 $.", 1, contradicted},
		{"es", "Puede devolver el artículo en los treinta días siguientes a la entrega.", 2, stated},
		{"es", "El plazo de devolución es de 30 días.", 2, stated},
		{"es", "No es posible, porque el artículo ya está abierto.", 3, stated},
		{"es", "El motivo es que el artículo se abrió.", 3, stated},
		{"fr", "L'argent sera sur votre compte d'ici au 23/06/2026.", 0, stated},
		{"fr", "L'argent arrivera le mardi 23 juin au plus tard.", 0, stated},
		{"fr", "L'argent ne sera pas sur votre compte le 23 juin 2026.", 0, contradicted},
		{"fr", "L'argent sera-t-il sur votre compte le 23 juin 2026 ?", 0, missing},
		{"fr", "L'argent arrivera au plus tard le 25 juin 2026.", 0, contradicted},
		{"fr", "Vous recevrez 1096,50 $.", 1, stated},
		{"fr", "Un remboursement de $1,096.50 est en route.", 1, stated},
		{"fr", "Nous vous remboursons 1.096,50 dollars.", 1, stated},
		{"fr", "Nous ne vous remboursons pas 1 096,50 $.", 1, contradicted},
		{"fr", "Nous vous remboursons 96,50 $.", 1, contradicted},
		{"fr", "Vous avez trente jours après la livraison pour renvoyer l'article.", 2, stated},
		{"fr", "Le retour est possible pendant 30 jours.", 2, stated},
		{"fr", "La garantie exclut les chutes.", 3, stated},
		{"fr", "Ce dommage n'est pas couvert par la garantie.", 3, stated},
	} {
		w := generatedCase(tc.language, facts[tc.language][tc.fact])
		if got := New().ReadMessage(w, tc.message).Facts[0]; got != tc.want {
			t.Errorf("%q: %v, want %v", tc.message, got, tc.want)
		}
	}
}

// TestPromisesThatWait permits promises for the case that a parcel counts as lost, and no others.
func TestPromisesThatWait(t *testing.T) {
	for _, tc := range []struct {
		language, from, message string
		promised                bool
	}{
		{"en", "May 3, 2026", "If it doesn't turn up, we will replace it.", false},
		{"en", "May 3, 2026", "From May 3, 2026 on it counts as lost, and then we will send you a replacement.", false},
		{"en", "May 3, 2026", "We will send you a replacement today.", true},
		{"en", "May 3, 2026", "From May 9, 2026 on it counts as lost, and then we will send you a replacement.", true},
		{"en", "", "If it doesn't turn up, we will replace it.", true},
		{"de", "3. Mai 2026", "Ab dem 3. Mai 2026 gilt es als verloren, dann senden wir Ihnen Ersatz.", false},
		{"de", "3. Mai 2026", "Wir senden Ihnen kostenlos Ersatz.", true},
		{"es", "3 de mayo de 2026", "Si no aparece, le enviaremos un reemplazo.", false},
		{"fr", "3 mai 2026", "Si le colis est perdu, nous vous enverrons un nouvel article.", false},
		{"fr", "3 mai 2026", "Nous vous enverrons un nouvel article.", true},
	} {
		w := generatedCase(tc.language)
		for i := range w.Forbidden {
			w.Forbidden[i].From = tc.from
		}
		commits := New().ReadMessage(w, tc.message).Commits
		if got := strings.Join(commits, "") != ""; got != tc.promised {
			t.Errorf("%s, from %q: %q is read as a promise: %v (%q)", tc.language, tc.from, tc.message, got, commits)
		}
	}
}
