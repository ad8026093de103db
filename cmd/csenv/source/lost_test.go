package source

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
)

// The last verdict on a ticket counts, and the parts of a dimension add up to what it lost.
func TestLost(t *testing.T) {
	points := .5
	e := record.Episode{Grade: record.Grade{Score: &points}}
	for _, text := range []string{
		`{"ticket_id":"T","criteria":[{"id":"facts","earned":0,"offered":200}],"preGate":0,"postGate":0}`,
		`{"ticket_id":"T","criteria":[{"id":"facts","earned":50,"offered":200},{"id":"next step","earned":50,"offered":50}],
			"gates":[{"id":"G2","cap":40},{"id":"no-facts","cap":10}],"preGate":80,"postGate":10}`, `"odd"`,
	} {
		e.Verdicts = append(e.Verdicts, json.RawMessage(text))
	}
	got := listLostPoints(e, score.PlannedEpisode{Task: "ticket-resolve"}, []score.Dimension{{Name: "response", Earned: 280, Offered: 500},
		{Name: "category", Earned: 100, Offered: 100}})
	want := []Lost{{"ticket-resolve/response/", 220}, {"ticket-resolve/response/facts", 150},
		{"ticket-resolve/response/limit: no facts", 70}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	sum := NewSum(score.Plan{})
	sum.addLost(got)
	sum.addLost(got[:2])
	lost := sum.lostPoints()
	if len(lost) != len(want) || lost[0] != (LostPoints{"ticket-resolve", "response", "", 2, 440}) ||
		lost[1] != (LostPoints{"ticket-resolve", "response", "facts", 2, 300}) {
		t.Errorf("%+v", lost)
	}
	// Four of five tickets have no reply, and the parts of a mean add up to it.
	got = listLostPoints(e, score.PlannedEpisode{Task: "queue-management"}, []score.Dimension{{Name: "response", Earned: 17, Offered: 500}})
	want = []Lost{{"queue-management/response/", 483}, {"queue-management/response/facts", 32},
		{"queue-management/response/limit: no facts", 15}, {"queue-management/response/no reply", 436}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	e.Verdicts = []json.RawMessage{json.RawMessage(`{"criteria":[{"id":"steps","earned":0,"offered":200},
		{"id":"penalty","step":4,"action":"check_payment","earned":-20,"offered":0},
		{"id":"penalty","step":6,"action":"check_payment","earned":-100,"offered":0}]}`)}
	got = listLostPoints(e, score.PlannedEpisode{Task: "refund"}, []score.Dimension{{Name: "steps", Offered: 200}, {Name: "penalties", Earned: -120}})
	want = []Lost{{"refund/penalties/", 120}, {"refund/penalties/check payment", 120}, {"refund/steps/", 200}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// A wrong reply is divided by the points of more steps than C03 requires.
	got = listLostPoints(record.Episode{}, score.PlannedEpisode{Task: "refund", Scenario: "C03"},
		[]score.Dimension{{Name: "steps", Earned: 200, Offered: 1600}})
	if want = []Lost{{"refund/steps/", 200}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
