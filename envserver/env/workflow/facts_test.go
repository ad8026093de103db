package workflow

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
)

func TestFactsAreKept(t *testing.T) {
	w := testWorkflow()
	w.Steps = append(w.Steps, scenarios.WorkflowStep{ID: "s5", Action: desk.RespondUser, Ask: true,
		About: []string{"serial"}, Answer: "S1"})
	e := start(w, episode.Terminal)
	r := step(t, e, `{"action_type":"respond_user","payload":{"message":"Which serial number has it? It costs $2.","facts":[`+
		`{"what":"price","value":"$2"},{"what":"needed","value":"serial_number"}]}}`)
	if r.Done {
		t.Fatal("the question ended the episode")
	}
	fork := e.Fork().(*environment)
	last := step(t, e, `{"action_type":"respond_user","payload":{"message":"It costs <$3>.","facts":[{"what":"price",`+
		`"value":"<$3>"}]}}`)
	step(t, fork, `{"action_type":"respond_user","payload":{"message":"It is free.","facts":[{"what":"price","value":0}]}}`)
	needed := facts.Fact{What: "needed", Value: "serial_number"}
	for name, c := range map[string]struct {
		e     *environment
		price string
	}{"episode": {e, "<$3>"}, "fork": {fork, "0"}} {
		if diff := cmp.Diff([]facts.Fact{needed, {What: "price", Value: c.price}}, c.e.state.stated); diff != "" {
			t.Errorf("%s: facts (-want +got)\n%s", name, diff)
		}
	}
	history := last.Observation.(Observation).History
	if got := string(history[0].Payload); !strings.Contains(got,
		`"facts":[{"what":"price","value":"$2"},{"what":"needed","value":"serial_number"}]`) {
		t.Errorf("payload %s", got)
	}
}
