package workflow

import (
	"slices"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
)

// honestReplies are right final replies to generated cases, many of them terse, by language and the
// slots of the case's facts. {given} is the customer's given name.
var honestReplies = map[string][]string{
	"en answer_day team": {
		"This needs our {team} team, so I've handed it to them. They'll reply by {answer_day:eu}.",
		"Hi {given}, one for {team}: I've passed your case on. Expect their answer by {answer_day:th} at the latest.",
		"Hello {given},\n\nI can't decide this, so it's now with **{team}**.\n\n- Team: {team}\n- " +
			"Answer by: {answer_day}\n\nBest wishes,\nLarkfield Support",
		"Escalated to the {team} team. You will hear from them by {answer_day:short}.",
		"Your case is with our {team} colleagues now; a decision reaches you no later than {answer_day}.",
	},
	"en arrival_day refund_amount": {
		"I've refunded {refund_amount}. It reaches your card by {arrival_day:eu}.",
		"Refund of {refund_amount} issued, {given}. The money is with you by {arrival_day:short}.",
		"Done! {refund_amount} is on its way back to you and arrives by {arrival_day:th}.",
		"Hi {given},\n\nhere is what I did:\n\n1. Refund: **{refund_amount}**\n2. With you by: " +
			"**{arrival_day}**\n\nAll the best, Larkfield Support",
		"You get {refund_amount} back, {given}, by {arrival_day} at the latest.",
		"**Refund:** {refund_amount}\n**Money back by:** {arrival_day}\n\nThat settles it, but do write if " +
			"anything is unclear.",
	},
	"en credit_amount": {
		"{credit_amount} in store credit is on your account now. Nothing else is needed from you.",
		"Thanks, {given}. I've credited {credit_amount} to your account.",
		"Store credit added: {credit_amount}. You can spend it on your next order.",
	},
	"en last_day": {
		"I'm sorry, {given}: the last day for this was {last_day:eu}.",
		"Hi {given}, I checked the dates, and the period ended on {last_day:th}. I'm afraid that's final.",
	},
	"en kind": {
		"Sorry, {given}, we can't help here because {kind}.",
		"I've checked our terms. We have to decline, and the reason is this: {kind}.",
	},
	"en ship_day": {
		"A new one is on its way to you. It leaves our warehouse by {ship_day:eu}.",
		"Sorry about that, {given}! Your replacement ships by {ship_day:short}, free of charge.",
	},
	"en lost_day tracking": {
		"Please hold on a little longer. Parcel {tracking} counts as lost from {lost_day:eu}, and we act then.",
		"Hi {given}, it's still moving (tracking number {tracking}). If it isn't there, we consider it lost from " +
			"{lost_day:th} on.",
	},
	"de answer_day team": {
		"Ich habe Ihren Fall an unser {team} gegeben. Die Antwort kommt bis zum {answer_day}.",
	},
	"de arrival_day refund_amount": {
		"Die Erstattung über {refund_amount} ist raus. Das Geld ist bis zum {arrival_day} da.",
		"Guten Tag,\n\n- Erstattung: {refund_amount}\n- Geld bei Ihnen: bis {arrival_day}\n\nMit freundlichen Grüßen",
	},
	"de credit_amount": {"Erledigt: Ich habe Ihnen {credit_amount} Guthaben gutgeschrieben."},
	"es answer_day team": {
		"He pasado su caso al equipo de {team}. Le responderán antes del {answer_day}, ese día como muy tarde.",
	},
	"es arrival_day refund_amount": {"Hecho: le devolvemos {refund_amount}. Tendrá el dinero el {arrival_day}."},
	"es credit_amount":             {"Tiene {credit_amount} de crédito en su cuenta."},
	"fr arrival_day refund_amount": {
		"C'est fait : {refund_amount} vous sont remboursés. L'argent arrive le {arrival_day} au plus tard.",
	},
	"fr credit_amount": {"Un avoir de {credit_amount} est sur votre compte."},
}

// listReplies are the same values in lists, of the same shape.
var listReplies = map[string][]string{
	"en arrival_day refund_amount": {
		"Hello {given}, thank you for your message. {refund_amount}, refund, {arrival_day}, by, money.",
		"{refund_amount}; refund; {arrival_day}; money",
		"{given} | refund | {refund_amount} | money | {arrival_day}",
		"Dear {given}, sorry.\n\n- {refund_amount}\n- refund\n- {arrival_day}\n- money\n\nKind regards",
		"refund {refund_amount} money {arrival_day} bank",
		"Values: refund, {refund_amount}, money, {arrival_day}, bank. Thank you for your patience.",
	},
	"en answer_day team": {
		"{team}, team, {answer_day}, answer",
		"Hello {given}. Team {team}, passed, escalated, answer {answer_day}, hear.",
	},
	"en credit_amount": {"Hi {given}! {credit_amount}, credit, account.", "credit {credit_amount} account"},
	"de credit_amount": {"Guten Tag, vielen Dank für Ihre Nachricht. {credit_amount}, Guthaben, Konto,"},
	"es credit_amount": {"Hola, gracias por su mensaje. {credit_amount}, crédito, cuenta,"},
	"fr credit_amount": {"Bonjour, merci pour votre message. {credit_amount}, avoir, compte,"},
}

// TestHonestReplies sends terse and formatted replies at the end of cases, each to several of them.
func TestHonestReplies(t *testing.T) {
	sendToCases(t, honestReplies, func(t *testing.T, kind *Kind, w *scenarios.Workflow, reply string) {
		if final := withReply(t, kind, w, reply); final == nil || final.Score != score.One {
			t.Errorf("%s: %s\nreading %+v, facts %+v", w.ScenarioID, reply, kind.reader.Tell(w, reply, facts.Stated(w.Required())), w.Facts)
		}
	})
}

// TestListsAreReplies sends the right values without sentences: how a letter is worded isn't
// judged.
func TestListsAreReplies(t *testing.T) {
	sendToCases(t, listReplies, func(t *testing.T, kind *Kind, w *scenarios.Workflow, reply string) {
		if final := withReply(t, kind, w, reply); final == nil || final.Score != score.One || final.Wrong {
			t.Errorf("%s: %s: final %+v", w.ScenarioID, reply, final)
		}
	})
}

// sendToCases tries each reply on up to three cases with its slots, and on at least one.
func sendToCases(t *testing.T, replies map[string][]string,
	try func(t *testing.T, kind *Kind, w *scenarios.Workflow, reply string)) {
	t.Helper()
	const most = 3
	_, kind := publicKind(t)
	sent := map[string]int{}
	for i, s := range kind.catalog.Cases() {
		w, err := s.Instantiate(int64(i))
		if err != nil {
			t.Fatal(err)
		}
		names := make([]string, 0, len(w.Facts))
		for _, f := range w.Facts {
			names = append(names, f.Slot)
		}
		slices.Sort(names)
		key := w.Language + " " + strings.Join(names, " ")
		if sent[key]++; sent[key] > most {
			continue
		}
		for _, text := range replies[key] {
			given, _, _ := strings.Cut(w.Customer.Name, " ")
			filled, complete := fill(strings.ReplaceAll(text, "{given}", given), w)
			if !complete {
				t.Fatalf("%s lacks a value of %q", w.ScenarioID, text)
			}
			try(t, kind, w, filled)
		}
	}
	for key := range replies {
		if sent[key] == 0 {
			t.Errorf("no case has the slots %q", key)
		}
	}
}
