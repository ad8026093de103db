package source

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/score"
)

// The last verdict on a ticket counts, and the steps of workflows are named without their number.
func TestLost(t *testing.T) {
	e := record.Episode{}
	for _, text := range []string{
		`{"ticket_id":"T","criteria":[{"id":"Q1","earned":0,"offered":200}],"preGate":0,"postGate":0}`,
		`{"ticket_id":"T","criteria":[{"id":"Q1","earned":50,"offered":200},{"id":"Q2","earned":50,"offered":50}],
			"invented":["7"],"gates":[{"id":"G2","cap":40},{"id":"G1","cap":10}],"preGate":80,"postGate":10}`,
		`{"criteria":[{"id":"s1 look_up_policy","earned":0,"offered":20},{"id":"s7 look_up_policy","earned":5,
			"offered":20}],"preGate":5,"postGate":5}`, `"odd"`,
	} {
		e.Verdicts = append(e.Verdicts, json.RawMessage(text))
	}
	got := listLostPoints(e, "task", []score.Dimension{{Name: "response", Earned: 10, Offered: 500},
		{Name: "penalties", Earned: -100}, {Name: "category", Earned: 100, Offered: 100}})
	want := []Lost{{"task/criterion/Q1 facts", 150}, {"task/criterion/invented values", 20},
		{"task/criterion/look_up_policy", 35}, {"task/dimension/penalties", 100}, {"task/dimension/response", 490},
		{"task/gate/G1", 70}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	sum := NewSum(score.Plan{})
	sum.addLost(got)
	sum.addLost(got[:2])
	points := sum.lostPoints()
	if len(points) != len(want) || points[0] != (LostPoints{"task", LostDimension, "response", 1, 490}) ||
		points[1] != (LostPoints{"task", LostCriterion, "Q1 facts", 2, 300}) {
		t.Errorf("%+v", points)
	}
}
