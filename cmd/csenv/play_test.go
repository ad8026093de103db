package main

import (
	"strings"
	"testing"
)

// play plays with the input that a person would type.
func play(t *testing.T, typed string, args ...string) (out, errs string, code int) {
	t.Helper()
	return typing(t, typed, append([]string{"play"}, args...)...)
}

func TestPlay(t *testing.T) {
	tests := map[string]struct {
		args  []string
		typed string
		want  []string
	}{
		"by menu": {[]string{"B07", "--seed", "3"}, "1\nbilling\nmedium\n3\nWe have refunded the difference.\n\n",
			[]string{"INV-015107", "Category: billing. Priority: medium.", "We have refunded", "GRADE",
				"category    0.200   0.200", "Q1 facts", "GIVEN AND GOLD", "  f1 overcharge"}},
		"by number of a word, and a mistake": {[]string{"B07"},
			"jump\n9\nclassify\nnonsense\n1\n4\nescalate\nbilling\n\n",
			[]string{`"jump" is none of the possible actions`, `"9" is none of the possible actions`,
				"choose one of the listed values",
				"Category: billing. Priority: urgent.", "GRADE"}},
		"by JSON": {[]string{"S03", "--task", "ticket-classify"}, `{"action_type":"classify","categry":"x"}` + "\n" +
			`{"action_type":"submit","category":"shipping","priority":"high"}` + "\n",
			[]string{"invalid action: ", "GRADE", "outcome        scored"}},
		"a workflow": {[]string{"C09"}, "check_order_status\nLD-937813\n" +
			`{"action_type":"respond_user","payload":{"message":"Done."}}` + "\n",
			[]string{"check_order_status {", "GIVEN AND GOLD", "\ns1  "}},
		"a queue": {[]string{"--task", "queue-management"},
			strings.Repeat(`{"action_type":"submit","category":"billing","priority":"low","decision":"resolve"}`+"\n",
				9),
			[]string{"escalations left", "WAITING"}},
		"a queue by its id, ended early": {[]string{"Q001"}, "q\n",
			[]string{"task           queue-management", "the shift ends", "GRADE", "score ",
				"TICKET T04, T-", ", WEIGHT 4\n", "first reply            -", "times 0.400"}},
		"a queue that goes on by itself": {[]string{"Q001"}, "resolve\n\nselect_ticket\n3\n",
			[]string{"2 of 40", "The ticket is resolved.", "ticket_id (T-", "This is ticket", "GRADE"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, errs, _ := play(t, tt.typed, tt.args...)
			narrow(t, out)
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("missing %q in:\n%s%s", want, out, errs)
				}
			}
		})
	}
}

// A queue without time for another reply offers other actions under the same numbers.
func TestPlayPrintsAChangedMenu(t *testing.T) {
	out, _, _ := play(t, strings.Repeat("respond\nGood day.\n\n", 7)+"q\n", "Q001")
	menus := strings.Split(out, "ACTION  ")
	if len(menus) != 3 || !strings.Contains(menus[1], " respond ") || strings.Contains(menus[2], " respond ") {
		t.Errorf("%d menus in:\n%s", len(menus)-1, out)
	}
}

func TestPlayStops(t *testing.T) {
	for _, typed := range []string{"", "q\n", "1\n"} {
		if _, errs, code := play(t, typed, "B07"); code != exitError ||
			!strings.Contains(errs, "stopped before the end, so the episode has no score") {
			t.Errorf("%q: exit code %d: %s", typed, code, errs)
		}
	}
	if out, _, _ := play(t, "7\nq\n", "B07"); !strings.Contains(out, "\n6  submit ") ||
		!strings.Contains(out, `"7" is none of the possible actions`) {
		t.Errorf("the menu has other numbers than those that are accepted:\n%s", out)
	}
	for _, tt := range [][2]string{{"Q999", "there is no scenario"}, {"b07", "did you mean B07?"},
		{"--task=chess", `there is no task "chess"`}} {
		if _, errs, code := play(t, "", tt[0]); code != exitError || !strings.Contains(errs, tt[1]) {
			t.Errorf("%s: exit code %d: %s", tt[0], code, errs)
		}
	}
}
