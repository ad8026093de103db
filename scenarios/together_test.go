package scenarios

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// crowd loads the test pack with copies of T1: T2, T3 and so on, each with replaced texts.
func crowd(t *testing.T, copies ...[]string) []*TicketScenario {
	t.Helper()
	files := testPack(t, "", "", "")
	original := string(files["tickets/T1.yaml"].Data)
	for i, replacements := range copies {
		id := fmt.Sprintf("T%d", i+2)
		text := strings.NewReplacer(append([]string{"id: T1", "id: " + id}, replacements...)...).Replace(original)
		files["tickets/"+id+".yaml"] = &fstest.MapFile{Data: []byte(text)}
	}
	return mustLoad(t, files).Tickets()
}

func completed(t *testing.T, drawn ...*DrawnTicket) []*Ticket {
	t.Helper()
	whole := make([]*Ticket, len(drawn))
	for i, d := range drawn {
		var err error
		if whole[i], err = d.Complete(); err != nil {
			t.Fatal(err)
		}
	}
	return whole
}

// bodyOf returns the text of an article of a ticket.
func bodyOf(t *DrawnTicket, id string) string {
	for _, a := range t.Articles {
		if a.ID == id {
			return a.Body
		}
	}
	return ""
}

func TestTogether(t *testing.T) {
	const (
		limit  = `  refund_limit: {money: ["180.00", "220.00"], step: "20.00"}` + "\n"
		window = "params:\n"
		due    = "  due: {"
	)
	at := func(now string) []string { return []string{"params:", "now: " + now + "\nparams:"} }
	tests := map[string]struct {
		copies [][]string
		// now and article report whether the tickets share them at every seed.
		now, article bool
	}{
		"equal tickets":           {[][]string{{}, {}}, true, true},
		"one without the param":   {[][]string{{limit, "", "over ? sum > usd(220)", "over ? sum > usd(200)"}}, true, true},
		"a param of a later one":  {[][]string{{window, window + "  window_days: {int: [5, 90]}\n"}}, true, true},
		"a computed param":        {[][]string{{due, "  window_days: {expr: \"seats * 3\"}\n" + due}, {}}, true, true},
		"one possible time":       {[][]string{at(`"2026-03-14T09:00:00Z"`), {}}, true, true},
		"no common time":          {[][]string{at(`"2026-03-14T09:00:00Z"`), at(`"2026-03-14T10:00:00Z"`)}, false, false},
		"a narrow range of times": {[][]string{at(`{date: ["2026-03-14T09:00:00Z", "2026-03-15T09:00:00Z"], step: 1h}`)}, true, true},
		"a constraint on time":    {[][]string{{"constraints: [", `constraints: ["now.getHours() == 9", `}}, true, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			together(t, crowd(t, tc.copies...), tc.now, tc.article)
		})
	}
}

func together(t *testing.T, all []*TicketScenario, sameNow, sameArticle bool) {
	t.Helper()
	limits, nows, apart := map[string]bool{}, true, 0
	for seed := range int64(60) {
		drawn, err := DrawTickets(all, seed)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DrawTickets(all, seed)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(completed(t, drawn...), completed(t, again...)); diff != "" {
			t.Fatalf("seed %d gave two queues:\n%s", seed, diff)
		}
		for i, ticket := range drawn {
			if ticket.ScenarioID != all[i].ID || ticket.Seed != seed {
				t.Fatalf("ticket %d is %s of seed %d", i, ticket.ScenarioID, ticket.Seed)
			}
			nows = nows && ticket.Now.Equal(drawn[0].Now)
			if bodyOf(ticket, "POL-REF") != bodyOf(drawn[0], "POL-REF") {
				apart++
			}
		}
		limits[bodyOf(drawn[0], "POL-REF")] = true
	}
	if nows != sameNow || (apart == 0) != sameArticle {
		t.Errorf("the tickets share now: %t, want %t; %d articles differ", nows, sameNow, apart)
	}
	if len(limits) < 2 {
		t.Error("every seed draws the same article")
	}
}

// A ticket alone, and the first of a queue that the others can join, are as Instantiate draws them.
func TestTogetherKeepsTheFirst(t *testing.T) {
	all := crowd(t, nil)
	for seed := range int64(20) {
		want, err := all[0].Instantiate(seed)
		if err != nil {
			t.Fatal(err)
		}
		for n := range all {
			got, err := DrawTickets(all[:n+1], seed)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, completed(t, got[0])[0]); diff != "" {
				t.Errorf("seed %d, first of %d (-want +got):\n%s", seed, n+1, diff)
			}
		}
	}
}

// TestTogetherIsSound lints tickets of the built-in pack that are drawn together.
func TestTogetherIsSound(t *testing.T) {
	c, err := LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	l := &linter{seen: map[Finding]int64{}}
	for _, split := range Splits {
		all, err := openWritten(c.Split(split).Tickets())
		if err != nil {
			t.Fatal(err)
		}
		for first := range len(all) - 4 {
			five := all[first : first+5]
			for seed := range int64(5) {
				vals := drawTogether(five, seed)
				if vals == nil {
					t.Errorf("%s and the four after it can't be drawn together at seed %d", five[0].ID, seed)
					continue
				}
				for i, s := range five {
					l.seed = seed
					b, err := s.renderTicket(seed, drawnVariant, vals[i])
					if err == nil {
						err = b.renderRest()
					}
					if err != nil {
						t.Fatal(err)
					}
					l.lintInstance(b)
				}
			}
		}
	}
	for _, f := range l.findings {
		t.Error(f)
	}
}
