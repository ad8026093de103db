package talk_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/talk"
)

// script is a customer who gives a wrong id, puts the question about the serial number off, is a
// day off, and thinks again when a change of the address is to be confirmed.
func script() *talk.Script {
	act := func(kind talk.Kind, topic, what, value string) *talk.Act {
		return &talk.Act{Kind: kind, Topic: topic, Words: value,
			Values: []facts.Wanted{{What: what, Values: []string{value}}}}
	}
	s := &talk.Script{Language: "en", Voice: "plain", Lines: map[string]string{"exhausted": "All told."},
		Topics: []talk.Topic{
			{Name: talk.AboutOrder, Tell: *act(talk.Tell, talk.AboutOrder, "reference", "LD-1"),
				Mistake:    act(talk.Tell, talk.AboutOrder, "reference", "LD-2"),
				Correction: act(talk.Correct, talk.AboutOrder, "reference", "LD-1")},
			{Name: talk.AboutSerial, Tell: *act(talk.Tell, talk.AboutSerial, "reference", "SN1"), Evades: true},
			{Name: talk.AboutDelivery, Said: true,
				Tell:       *act(talk.Tell, talk.AboutDelivery, "delivered_on", "May 4, 2026"),
				Mistake:    act(talk.Tell, talk.AboutDelivery, "delivered_on", "May 5, 2026"),
				Correction: act(talk.Correct, talk.AboutDelivery, "delivered_on", "May 4, 2026")},
		},
		First:  []talk.Act{{Kind: talk.Request, Topic: "warranty_end", Words: "And the warranty?"}},
		Serves: []string{desk.Refunding, desk.Readdressing}, Accepts: []string{desk.Refunding}, Orders: []string{"LD-1"},
		FirstAddress: "1 A Street", Address: "2 B Street", Insists: 2, Patience: 3,
		Rethinks: act(talk.Rethink, desk.Readdressing, "place", "2 B Street"),
		Context:  facts.NewContext("en", time.Date(2026, 5, 10, 9, 0, 0, 0, time.UTC))}
	for name, places := range talk.LineNames() {
		s.Lines[name] = name
		if places {
			s.Lines[name] += " %s"
		}
	}
	return s
}

// kinds describes the acts of an answer by kind and topic.
func kinds(a talk.Answer) string {
	var out []string
	for _, act := range a.Acts {
		out = append(out, strings.TrimSuffix(string(act.Kind)+" "+act.Topic, " "))
	}
	return strings.Join(out, ", ")
}

func TestCustomerAnswersWhatAnAgentDoes(t *testing.T) {
	address := func(to string) desk.Effect {
		return desk.Effect{Tool: desk.Readdressing, OrderID: "LD-1", Address: to}
	}
	refused := []facts.Fact{{What: "next_step", Value: "refused"}}
	for name, tc := range map[string]struct {
		heard []talk.Heard
		want  []string
	}{
		"prose alone": {[]talk.Heard{{}, {}}, []string{"request warranty_end", "remind"}},
		"a wrong id, asked again": {[]talk.Heard{{Asks: []string{"order"}}, {Asks: []string{"order"}}, {Asks: []string{"order"}}},
			[]string{"tell order, request warranty_end", "correct order", "complain, tell order"}},
		"a question put off": {[]talk.Heard{{Asks: []string{"serial"}}, {Asks: []string{"serial"}}},
			[]string{"evade serial, request warranty_end", "tell serial"}},
		"a day off, and the record": {[]talk.Heard{
			{Facts: []facts.Fact{{What: "delivered_on", Value: "2026-05-06"}}},
			{Facts: []facts.Fact{{What: "delivered_on", Value: "2026-05-04"}}},
			{Facts: []facts.Fact{{What: "delivered_on", Value: "2026-05-04"}}}},
			[]string{"request warranty_end", "correct delivery_day", "remind"}},
		"nothing is known": {[]talk.Heard{{Asks: []string{"photo"}}},
			[]string{"complain, exhausted photo, request warranty_end"}},
		"anything else": {[]talk.Heard{{Asks: []string{"anything_else"}}, {Asks: []string{"anything_else"}}},
			[]string{"request warranty_end", "close"}},
		"thinks again": {[]talk.Heard{{Confirms: []desk.Effect{address("1 A Street")}},
			{Confirms: []desk.Effect{address("1 A Street")}}, {Confirms: []desk.Effect{address("2 B Street")}}},
			[]string{"deny change_address, rethink change_address, request warranty_end", "deny change_address",
				"confirm change_address"}},
		"another order": {[]talk.Heard{{Confirms: []desk.Effect{{Tool: desk.Refunding, OrderID: "LD-3"}}}},
			[]string{"deny initiate_refund, request warranty_end"}},
		"offers": {[]talk.Heard{{Offers: []string{desk.Refunding, desk.Replacing}}},
			[]string{"accept initiate_refund, decline replace_item, request warranty_end"}},
		"insists twice": {[]talk.Heard{{Facts: refused}, {Facts: refused}, {Facts: refused}},
			[]string{"complain, insist, request warranty_end", "complain, insist", "accept"}},
	} {
		t.Run(name, func(t *testing.T) {
			state := script().Begin()
			var got []string
			for _, h := range tc.heard {
				got = append(got, kinds(state.Hear(h, 0)))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyTheSameChangeIsConfirmed(t *testing.T) {
	state := script().Begin()
	asked := desk.Effect{Tool: desk.Refunding, OrderID: "LD-1", Amount: 1250}
	state.Hear(talk.Heard{Confirms: []desk.Effect{asked}}, 0)
	more := asked
	more.Amount++
	if !state.HasConfirmed(asked) || state.HasConfirmed(more) {
		t.Errorf("confirmed: the change %v, one with another amount %v", state.HasConfirmed(asked), state.HasConfirmed(more))
	}
}

// TestMood moves it by needless questions and waiting, and back by facts.
func TestMood(t *testing.T) {
	state := script().Begin()
	var moods []string
	for _, step := range []struct {
		h      talk.Heard
		waited int
	}{{talk.Heard{}, 3}, {talk.Heard{}, 4}, {talk.Heard{Asks: []string{"photo"}}, 4},
		{talk.Heard{Asks: []string{"wish"}}, 0}, {talk.Heard{Facts: []facts.Fact{{What: "price", Value: "1"}}}, 0}} {
		moods = append(moods, state.Hear(step.h, step.waited).Mood)
	}
	if diff := cmp.Diff([]string{"calm", "uneasy", "angry", "angry", "annoyed"}, moods); diff != "" {
		t.Errorf("moods (-want +got):\n%s", diff)
	}
}

// TestAnswersDependOnNothingElse plays the same acts on a state and on a copy of it.
func TestAnswersDependOnNothingElse(t *testing.T) {
	tools := []string{desk.Refunding, desk.Readdressing, desk.Cancelling}
	rapid.Check(t, func(t *rapid.T) {
		one := script().Begin()
		other := one
		for range rapid.IntRange(1, 6).Draw(t, "turns") {
			h := talk.Heard{Asks: rapid.SliceOfN(rapid.SampledFrom(talk.Topics), 0, 3).Draw(t, "asks"),
				Offers: rapid.SliceOfN(rapid.SampledFrom(tools), 0, 2).Draw(t, "offers")}
			for _, tool := range rapid.SliceOfN(rapid.SampledFrom(tools), 0, 2).Draw(t, "confirms") {
				h.Confirms = append(h.Confirms, desk.Effect{Tool: tool, OrderID: "LD-1", Address: rapid.SampledFrom([]string{
					"", "1 A Street", "2 B Street"}).Draw(t, "address")})
			}
			waited := rapid.IntRange(0, 5).Draw(t, "waited")
			fork := one
			fork.Hear(talk.Heard{Asks: talk.Topics, Confirms: h.Confirms}, 0)
			got, want := one.Hear(h, waited), other.Hear(h, waited)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("the answers differ (-want +got):\n%s", diff)
			}
			if len(got.Acts) == 0 || strings.TrimSpace(got.Template()) == "" {
				t.Fatalf("%+v has no answer", h)
			}
			for _, v := range one.Hidden() {
				if slices.ContainsFunc(got.Acts, func(a talk.Act) bool {
					return slices.ContainsFunc(a.Values, func(w facts.Wanted) bool { return cmp.Equal(w, v) && a.Kind != talk.Rethink })
				}) {
					t.Fatalf("%v is hidden and said", v)
				}
			}
		}
	})
}

// TestRoundsTellEverything asks as Rounds says, and wants each topic to be told, not before.
func TestRoundsTellEverything(t *testing.T) {
	s := script()
	rounds := s.Rounds([]string{talk.AboutOrder, talk.AboutSerial})
	if diff := cmp.Diff([][]string{{"order", "serial"}, {"order", "serial"}}, rounds); diff != "" {
		t.Errorf("rounds (-want +got):\n%s", diff)
	}
	state := s.Begin()
	for i, asks := range rounds {
		state.Hear(talk.Heard{Asks: asks}, 0)
		if told := state.HasTold(talk.AboutOrder) && state.HasTold(talk.AboutSerial); told != (i == len(rounds)-1) {
			t.Errorf("after round %d: told %v", i+1, told)
		}
	}
	if diff := cmp.Diff([][]string{{talk.AboutRest}}, s.Rounds(nil)); diff != "" {
		t.Errorf("rounds of nothing (-want +got):\n%s", diff)
	}
}
