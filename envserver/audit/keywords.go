package audit

import (
	"slices"
	"strings"
	"unicode"

	"github.com/csenv/csenv/scenarios"
)

// lexicon are the beginnings of words that speak for a category, in one language.
type lexicon map[string][]string

// lexicons are what a triage rule written in an afternoon would hold: no more than the everyday
// words of each category. They are closed. A ticket whose texts don't bear out its cue is
// rewritten; the lists don't follow the tickets.
func lexicons() map[string]lexicon {
	return map[string]lexicon{
		"en": {
			"billing": {
				"invoice", "charge", "payment", "paid", "pay", "refund", "bill", "price", "card", "fee", "fees", "bank",
				"statement", "vat", "instalment", "credit", "overdraft", "discount",
				"subscription", "seats",
			},
			"shipping": {
				"parcel", "deliver", "courier", "tracking", "shipment", "shipping", "shipped", "carrier", "address",
				"pallet", "locker", "package", "depot", "truck", "dock", "pickup", "signature",
				"signed", "box", "customs",
			},
			"technical": {
				"camera", "hub", "lock", "sensor", "controller", "siren", "app", "login", "log", "device", "offline",
				"update", "firmware", "software", "error", "alert", "router", "recording",
				"footage", "radio", "protocol", "api", "code", "reset", "restart", "battery", "wifi", "network",
				"export", "phone",
			},
			"general": {"account", "e-mail", "email", "plan", "question", "policy", "privacy", "terms", "newsletter",
				"feature", "logo", "brand", "press", "future", "preference", "profile", "contract"},
		},
		"de": {
			"billing": {"rechnung", "bezahl", "zahl", "betrag", "berechn", "preis", "karte", "gebühr", "erstatt",
				"abbuch", "gutschrift", "abo", "tarif", "kosten"},
			"shipping": {"paket", "liefer", "sendung", "versand", "zustell", "kurier", "adresse", "abhol", "spediteur",
				"palette"},
			"technical": {"kamera", "hub", "schloss", "sensor", "sirene", "app", "gerät", "offline", "update",
				"firmware", "software", "fehler", "router", "aufnahme", "zurücksetz"},
			"general": {"konto", "e-mail", "frage", "richtlinie", "datenschutz", "newsletter", "funktion", "vertrag"},
		},
		"es": {
			"billing": {"factura", "pago", "pagar", "cobr", "cargo", "precio", "tarjeta", "reembols", "importe",
				"abono", "cuota"},
			"shipping": {"paquete", "envío", "envio", "entrega", "repart", "mensajer", "dirección", "almacén", "recog",
				"seguimiento", "transport", "depósito"},
			"technical": {"cámara", "camara", "hub", "cerradura", "sensor", "sirena", "app", "aplicación",
				"dispositivo", "conexión", "router", "wifi", "actualiz", "firmware", "error", "red", "señal"},
			"general": {"cuenta", "correo", "pregunta", "política", "privacidad", "boletín", "función", "contrato"},
		},
		"fr": {
			"billing": {"factur", "paiement", "payer", "prélèvement", "débit", "prix", "carte", "rembours", "montant",
				"avoir", "tarif"},
			"shipping": {"colis", "livraison", "livrer", "expédi", "transport", "coursier", "suivi", "dépôt",
				"palette"},
			"technical": {"caméra", "hub", "serrure", "capteur", "sirène", "application", "hors ligne", "mise à jour",
				"logiciel", "erreur", "routeur", "réseau", "enregistrement"},
			"general": {"compte", "mail", "e-mail", "messagerie", "question", "adresse", "confidentialité",
				"fonction", "contrat"},
		},
	}
}

// Keywords is the category that a reader of keywords says of a ticket: the one most of whose words
// occur in the subject and the description, a word of the subject counting twice. Ties go to
// billing, shipping, technical and general, in this order.
func Keywords(t *scenarios.Ticket) string {
	words := lexicons()[t.Language[:2]]
	counts := make([]int, len(scenarios.Categories()))
	for i, c := range scenarios.Categories() {
		counts[i] = 2*hits(t.Subject, words[c]) + hits(t.Description, words[c])
	}
	best := slices.Max(counts)
	if best == 0 {
		return "general"
	}
	return scenarios.Categories()[slices.Index(counts, best)]
}

// hits counts the words of a text that begin as one of the keywords does. Keywords of up to three
// letters stand for themselves and their plural alone.
func hits(text string, keywords []string) int {
	n := 0
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) &&
			r != '-'
	}) {
		if slices.ContainsFunc(keywords, func(k string) bool {
			return strings.HasPrefix(word, k) && (len(k) > 3 || len(word) <= len(k)+1)
		}) {
			n++
		}
	}
	return n
}
