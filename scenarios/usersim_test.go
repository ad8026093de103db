package scenarios

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/scenarios/words"
)

func TestUserSim(t *testing.T) {
	ticket := mustTicket(t, mustLoad(t, testPack(t, "", "", "")), 0)
	calm := "Thank you, red it is."
	var invoice string
	for _, a := range ticket.UserSim.Answers {
		if a.ID == "invoice" {
			invoice = a.Text
		}
	}
	want := &UserSim{
		Persona: "terse", MaxTurns: 3,
		Answers: []SimAnswer{
			{ID: "invoice", Ask: []string{"invoice number", "which invoice"}, Text: invoice, Known: true, Told: true},
			{ID: "price", Ask: []string{"price of the red ones"}, Text: "No idea."},
		},
		Lines: map[string][]string{"calm": {calm}, "uneasy": {calm}, "annoyed": {"I said so.", "Again?"},
			"angry": {"And when?"}},
		StopWhen: []string{"outcome_stated"},
	}
	if diff := cmp.Diff(want, ticket.UserSim); diff != "" {
		t.Errorf("script of seed 0 (-want +got):\n%s", diff)
	}
	if !words.ContainsFold(ticket.Subject+ticket.Description, invoice[len("It is "):len(invoice)-1]) {
		t.Errorf("the answer %q does not contain the ticket's invoice", invoice)
	}
}
