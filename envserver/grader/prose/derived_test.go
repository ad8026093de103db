package prose

import (
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/text"
	"github.com/csenv/csenv/scenarios"
)

// dated returns a ticket of Tuesday, March 10, 2026, 9:30, with facts of various durations.
func dated(language string, facts ...scenarios.Fact) *scenarios.Ticket {
	return &scenarios.Ticket{Served: scenarios.Served{Language: language, Now: time.Date(2026, 3, 10, 9, 30, 0, 0, time.UTC),
		Description: "It began on March 2, 2026.",
		History: []scenarios.Message{{Role: "customer", At: time.Date(2026, 2, 3, 9, 0, 0, 0, time.UTC),
			Text: "Hello?"}}},
		Reply: scenarios.ReplySpec{Facts: facts}}
}

// TestFollowing checks which days, times and durations follow from now and known values, and which
// are invented.
func TestFollowing(t *testing.T) {
	ticket := dated("en",
		scenarios.Fact{ID: "f1", Value: "80 minutes", Context: []string{"hear"}},
		scenarios.Fact{ID: "f2", Value: "26 days", Context: []string{"privacy"}},
		scenarios.Fact{ID: "f3", Value: "5 business days", Context: []string{"bank"}},
		scenarios.Fact{ID: "f4", Value: "8 months", Context: []string{"valid"}},
		scenarios.Fact{ID: "f5", Value: "March 16, 2026", Context: []string{"trace"}})
	p := prepareTicket(ticket, newLibraries())
	for text, want := range map[string]bool{
		"by 10:50": true, "by 10:52": true, "by 10:53": false, "at 10:50 am": true, "by 11:20": false, "at 9:30": true, "by 17:00": false,
		"April 5, 2026": true, "April 6": true, "April 9": false, "February 12": true,
		"March 17": true, "by March 20": false, "November 10, 2026": true, "December 24, 2026": false,
		"March 9": true, "March 11": true, "February 3": true, "March 1": true, "March 28": true,
		"six days": true, "8 days": true, "in 4 business days": true, "seven weeks": false, "4 days": false,
		"40 minutes": false,
	} {
		claims := p.lib.read(text).Values
		if len(claims) != 1 {
			t.Errorf("%q makes %d claims", text, len(claims))
			continue
		}
		if got := p.supports(claims[0]); got != want {
			t.Errorf("%q is supported: %t, want %t", text, got, want)
		}
	}
}

// TestDerivedFacts checks that the end of a duration states it, and that other days and times
// don't.
func TestDerivedFacts(t *testing.T) {
	type said map[string]grader.Finding
	tests := map[string]struct {
		language string
		fact     scenarios.Fact
		said     said
	}{
		"minutes": {"en", scenarios.Fact{ID: "f", Value: "80 minutes", Context: []string{"touch", "hear"}}, said{
			"They'll get in touch no later than 10:50.":                               stated,
			"They'll get in touch no later than 10:50, eighty minutes from now.":      stated,
			"You'll hear from them by ten to eleven.":                                 missing,
			"You'll hear from them by 12:30.":                                         contradicted,
			"The shop opens at 10:50.":                                                missing,
			"You will not hear from them by 10:50.":                                   contradicted,
			"You'll hear from them within 80 minutes. The battery takes 3 hours.":     stated,
			"You'll hear from them within 80 minutes. You'll hear within 2 hours.":    contradicted,
			"You'll hear from them in the next hour and a quarter or so, 80 minutes.": stated,
		}},
		"business days": {"en", scenarios.Fact{ID: "f", Value: "5 business days", Context: []string{"bank", "release"}},
			said{
				"Your bank releases it by March 17.":                                    stated,
				"Your bank releases it within 5 working days, so by Tuesday, March 17.": stated,
				"Your bank releases it by March 19.":                                    contradicted,
			}},
		"long": {"en", scenarios.Fact{ID: "f", Value: "26 days", Context: []string{"privacy", "answer"}}, said{
			"The privacy desk will answer by April 5, 2026.": stated,
			"The privacy desk will answer by April 6.":       stated,
			"The privacy desk will answer by April 16.":      contradicted,
			"The privacy desk has 26 more days to answer.":   stated,
		}},
		"German": {"de", scenarios.Fact{ID: "f", Value: "3 Werktage", Context: []string{"Antwort", "melden"}}, said{
			"Sie haben die Antwort bis zum 13. März.": stated,
			"Wir melden uns bis Freitag.":             stated,
			"Wir melden uns bis Montag.":              missing,
		}},
		"French": {"fr", scenarios.Fact{ID: "f", Value: "45 minutes", Context: []string{"réponse"}}, said{
			"Vous aurez la réponse avant 10 h 15.": stated,
			"Vous aurez la réponse à 10:15.":       stated,
			"Vous aurez la réponse à 14 h 15.":     contradicted,
		}},
	}
	libraries := newLibraries()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := prepareTicket(dated(tc.language, tc.fact), libraries)
			for reply, want := range tc.said {
				if got := p.facts[0].find(p.lib.read(reply), p); got != want {
					t.Errorf("%q: the fact is %s, want %s", reply, got, want)
				}
			}
		})
	}
}

// A day that the customer names states no duration. Otherwise repeating the ticket would answer it.
func TestServedDays(t *testing.T) {
	ticket := dated("en", scenarios.Fact{ID: "f", Value: "5 business days", Context: []string{"bank"}})
	ticket.Description = "Will my bank have it by March 17, 2026?"
	p := prepareTicket(ticket, newLibraries())
	if got := p.facts[0].find(p.lib.read("Your bank will have it by March 17, 2026."), p); got == stated {
		t.Errorf("the customer's own day: the fact is %s", got)
	}
}

// TestNoContradiction checks values that may be near a fact without contradicting it.
func TestNoContradiction(t *testing.T) {
	fact := scenarios.Fact{ID: "f", Value: "48 hours", Context: []string{"answer", "hear", "team"}}
	p := prepareTicket(dated("en", fact), newLibraries())
	for reply, want := range map[string]grader.Finding{
		"A signature that isn't yours goes to our team, who answer within 48 hours.":        stated,
		"Anything that doesn't come back is for the team, and they answer in 48 hours.":     stated,
		"I can't say yes or no, but the team will answer within 48 hours.":                  stated,
		"Card or no card, the team will answer within 48 hours.":                            stated,
		"The team won't take longer than 48 hours to answer.":                               stated,
		"Their answer should not exceed 48 hours.":                                          stated,
		"You'll hear from them in a minute. The team will answer within 48 hours.":          stated,
		"The team will answer within 48 hours. The parcel itself takes another 9 days.":     stated,
		"The team will answer within 48 hours, or perhaps within 96 hours.":                 contradicted,
		"Hello Tom, either the team will answer within 48 hours or it won't.":               contradicted,
		"The team will answer within 48 hours. Well, the team will answer within 96 hours.": contradicted,
		"The team that has it won't answer within 48 hours.":                                contradicted,
		"Should that answer not have come after 48 hours, write to the team again.":         stated,
	} {
		if got := p.facts[0].find(p.lib.read(reply), p); got != want {
			t.Errorf("%q: the fact is %s, want %s", reply, got, want)
		}
	}
}

// The days that follow are found without going through the durations again for each date.
func TestDaysThatFollow(t *testing.T) {
	ticket := overbilled()
	p := prepareTicket(ticket, newLibraries())
	today := startOfDay(ticket.Now)
	follows := func(day time.Time) bool { // date by date
		for _, base := range p.bases {
			if daysBetween(day, base) <= nearDays {
				return true
			}
			for _, d := range p.known {
				if end, ok := d.Shift(base, 1); ok && daysBetween(day, end) == 0 {
					return true
				}
			}
		}
		for _, set := range p.sets() {
			for _, d := range set {
				for _, sign := range []int{1, -1} {
					if end, ok := d.Shift(today, sign); ok && daysBetween(day, end) <= nearDays {
						return true
					}
				}
				if m := d.Minutes(); m > 0 &&
					daysBetween(day, startOfDay(ticket.Now.Add(time.Duration(m)*time.Minute))) == 0 {
					return true
				}
			}
		}
		return daysBetween(day, today) <= nearDays
	}
	found := 0
	for n := -1500; n <= 1500; n++ {
		day := today.AddDate(0, 0, n)
		want := follows(day)
		if got := p.dayFollows(text.DayValue(day)); got != want {
			t.Errorf("%s follows: %v, want %v", day.Format(time.DateOnly), got, want)
		}
		if want {
			found++
		}
	}
	if found < 5 || found > 1000 {
		t.Errorf("%d days follow", found)
	}
	date := text.Value{Kind: text.DateValue, Amount: 102} // of any year
	if n := testing.AllocsPerRun(10, func() { p.dayFollows(date) }); n > 1 {
		t.Errorf("a date costs %v allocations", n)
	}
}
