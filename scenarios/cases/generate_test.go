package cases_test

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/scenarios/cases"
)

// entry is what a list says about a case. Modifiers are sorted.
type entry struct {
	ID, Family, Modifiers, Difficulty, Split string
	Tickets                                  bool
}

func entriesOf(all []*cases.Composition) []entry {
	out := make([]entry, len(all))
	for i, c := range all {
		modifiers := strings.Join(slices.Sorted(slices.Values(c.Modifiers)), " ")
		out[i] = entry{c.ID, c.Family, modifiers, c.Difficulty, c.Split, c.Tickets}
	}
	return out
}

// smallFiles are those of the catalogue without its lists. Each family has eight modifiers, so that
// its compositions are soon measured.
func smallFiles(t *testing.T) []namedFile {
	t.Helper()
	eight := regexp.MustCompile(`(?m)^modifiers: \[((?:[a-z0-9-]+, ){7}[a-z0-9-]+).*\]$`)
	files := slices.DeleteFunc(read(t), func(f namedFile) bool { return strings.Contains(f.text, "kind: CaseList") })
	for i := range files {
		files[i].text = eight.ReplaceAllString(files[i].text, "modifiers: [$1]")
	}
	return files
}

func loadSmall(t *testing.T) *cases.Set {
	t.Helper()
	set, err := compile(smallFiles(t))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func generate(t *testing.T, set *cases.Set, o cases.Options) []*cases.Composition {
	t.Helper()
	o.List, o.Language = "own", "en"
	all, err := set.Generate(o)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// options choose few cases of families, one of which is held out of the training split.
func options() cases.Options {
	return cases.Options{Salt: "salt", PerDifficulty: 4, Families: []string{"coupon", "merge-accounts",
		"return-deadline"}}
}

// TestGeneratedLists wants as many cases as asked for, each once, with ids in order and the words
// of its split.
func TestGeneratedLists(t *testing.T) {
	set := loadSmall(t)
	all := generate(t, set, options())
	count, numbers, keys := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, c := range all {
		numbers[c.Family]++
		if want := fmt.Sprintf("own-%s-%02d", c.Family, numbers[c.Family]); c.ID != want {
			t.Errorf("the id of %s is %s, want %s", c.Key(), c.ID, want)
		}
		if keys[c.Key()] {
			t.Errorf("%s is chosen twice", c.Key())
		}
		keys[c.Key()] = true
		if count[c.Family+c.Difficulty]++; count[c.Family+c.Difficulty] > options().PerDifficulty {
			t.Errorf("%s has more %s cases than asked for", c.Family, c.Difficulty)
		}
		if c.Family == "merge-accounts" && c.Split != "public-test" {
			t.Errorf("%s of a family that is held out is in the split %s", c.ID, c.Split)
		}
		for seed := range int64(6) {
			voice := instance(t, c, seed).Voice
			if heldOut := voice == "worried" || voice == "blunt"; heldOut != (c.Split != "public-train") {
				t.Errorf("%s of the split %s speaks in the voice %s", c.ID, c.Split, voice)
			}
		}
	}
	if len(count) < 3 || len(numbers) != 3 {
		t.Errorf("the difficulties of the families are %v", count)
	}
	for _, family := range slices.Sorted(maps.Keys(numbers)) {
		if first := all[slices.IndexFunc(all,
			func(c *cases.Composition) bool { return c.Family == family })]; len(first.Modifiers) != 0 {
			t.Errorf("the list of %s lacks the family without a modifier", family)
		}
	}
}

// TestSplitsAreStable wants a composition in one split whatever else is generated, about three
// tenths of them held out, and other ones with another salt.
func TestSplitsAreStable(t *testing.T) {
	set := loadSmall(t)
	o := options()
	split := map[string]string{}
	held, n := 0, 0
	for _, per := range []int{40, 4} {
		o.PerDifficulty, o.Families = per, []string{"return", "cancel-order", "damaged", "late-express"}
		for _, c := range generate(t, set, o) {
			if before, ok := split[c.Key()]; ok && before != c.Split {
				t.Errorf("%s is in %s and in %s", c.Key(), before, c.Split)
			}
			if split[c.Key()] = c.Split; per == 40 {
				if n++; c.Split != "public-train" {
					held++
				}
			}
		}
	}
	if share := 100 * held / n; share < 15 || share > 45 {
		t.Errorf("%d %% of %d compositions are held out, want about 30 %%", share, n)
	}
	first := entriesOf(generate(t, set, o))
	if diff := cmp.Diff(first, entriesOf(generate(t, set, o))); diff != "" {
		t.Errorf("the same options choose other cases:\n%s", diff)
	}
	if o.Salt = "another"; slices.Equal(first, entriesOf(generate(t, set, o))) {
		t.Error("another salt chooses the same cases")
	}
	o.Private, o.TrainVoices = true, true
	for _, c := range generate(t, set, o) {
		if c.Split != "private" {
			t.Errorf("%s of a private list is in the split %s", c.ID, c.Split)
		}
	}
}

// TestListsAreReadBack writes lists and wants that a pack with them has their cases.
func TestListsAreReadBack(t *testing.T) {
	set := loadSmall(t)
	tickets, trained := options(), options()
	tickets.Tickets = 9
	trained.TrainVoices, trained.PerDifficulty = true, 2
	for name, o := range map[string]cases.Options{"cases": options(), "tickets": tickets,
		"voices for training": trained} {
		t.Run(name, func(t *testing.T) {
			o.List, o.Language = "own", "en"
			all := generate(t, set, o)
			var file bytes.Buffer
			if err := cases.WriteList(&file, "canary", o, all); err != nil {
				t.Fatal(err)
			}
			again, err := compile(append(smallFiles(t), namedFile{"own.yaml", file.String()}))
			if err != nil {
				t.Fatalf("%v:\n%s", err, file.String())
			}
			if diff := cmp.Diff(entriesOf(all), entriesOf(again.Listed())); diff != "" {
				t.Errorf("cases (-written +read):\n%s", diff)
			}
			for _, c := range again.Listed() {
				voice := instance(t, c, 1).Voice
				if heldOut := voice == "worried" || voice == "blunt"; o.TrainVoices && heldOut {
					t.Errorf("%s speaks in the voice %s", c.ID, voice)
				}
			}
		})
	}
}

// TestGeneratedTickets wants as many tickets of each category, the situations in turn, no modifier
// that only an agent with tools would notice, and a ticket in the split of its case.
func TestGeneratedTickets(t *testing.T) {
	set := loadSmall(t)
	o := cases.Options{Salt: "salt", PerDifficulty: 30,
		Families: []string{"coupon", "defective", "return-deadline", "data-request"}}
	situations := []string{"deadline-tomorrow", "deadline-days", "business-stop", "loss-in-hours", "money-running",
		"claims-urgent", "function-needed"}
	categories, seen, splits := map[string]int{}, map[string]map[string]bool{}, map[string]string{}
	for _, family := range o.Families {
		seen[family] = map[string]bool{}
	}
	for _, c := range generate(t, set, o) {
		splits[strings.Join(append([]string{c.Family}, c.Modifiers...), ".")] = c.Split
	}
	o.Tickets = 40
	for _, c := range generate(t, set, o) {
		categories[c.Category()]++
		var with []string
		base := c.Family
		for _, m := range c.Modifiers {
			switch {
			case slices.Contains(situations, m):
				with = append(with, m)
			case m == "no-order-number" || strings.HasPrefix(m, "flaky-") || strings.HasPrefix(m, "later-"):
				t.Errorf("%s has the modifier %s", c.ID, m)
			default:
				base += "." + m
			}
		}
		if len(with) > 1 || !c.Tickets {
			t.Errorf("%s has the situations %v", c.ID, with)
		}
		seen[c.Family][strings.Join(with, "")] = true
		if before, ok := splits[base]; ok && before != c.Split {
			t.Errorf("%s is in %s and in %s", base, before, c.Split)
		}
		splits[base] = c.Split
	}
	if len(categories) != 4 {
		t.Errorf("the categories are %v", categories)
	}
	for category, n := range categories {
		if want := o.Tickets / len(categories); n < want || n > want+2 {
			t.Errorf("%d tickets of the category %s, want %d: %v", n, category, want, categories)
		}
	}
	for _, family := range o.Families {
		if len(seen[family]) < 3 {
			t.Errorf("the tickets of %s have the situations %v", family, seen[family])
		}
	}
	if !seen["coupon"][""] || !seen["coupon"]["deadline-days"] {
		t.Errorf("no ticket has no situation, or none has a deadline: %v", seen["coupon"])
	}
}

// TestTicketsTellTheSituation compares the situations of tickets with what their modifiers say, and
// their subjects with those of the split.
func TestTicketsTellTheSituation(t *testing.T) {
	set := loadSmall(t)
	o := cases.Options{Salt: "salt", Tickets: 40, Families: []string{"defective", "damaged"}}
	for _, c := range generate(t, set, o) {
		got := instance(t, c, 3)
		s := got.Ticket.Situation
		has := func(m string) bool { return slices.Contains(c.Modifiers, m) }
		midnight := got.Now.Truncate(24 * time.Hour)
		deadline := time.Duration(0)
		switch {
		case has("loss-in-hours"):
			deadline = 3 * time.Hour
		case has("deadline-tomorrow"):
			deadline = midnight.AddDate(0, 0, 1).Add(7 * time.Hour).Sub(got.Now)
		case has("deadline-days"):
			deadline = midnight.AddDate(0, 0, 5).Add(12 * time.Hour).Sub(got.Now)
		}
		if s.Deadline != deadline || s.Irreversible != has("loss-in-hours") || s.BusinessStop != has("business-stop") ||
			s.MoneyHarm != has("money-running") {
			t.Errorf("%s: the situation is %+v, want the deadline %s", c.Key(), s, deadline)
		}
		if s.CoreUnusable != (c.Family == "defective" || has("function-needed")) || s.Degraded != (c.Family == "damaged") ||
			s.Compromise != has("fraud-review") {
			t.Errorf("%s: the situation is %+v", c.Key(), s)
		}
		if len(got.Ticket.Answers) != 1 || got.Ticket.Category != c.Category() {
			t.Errorf("%s: the ticket is %+v", c.Key(), got.Ticket)
		}
		subjects := map[string][]string{
			"defective true": {got.Records.Orders[0].Items[0].Name + " doesn't work any more", "No sign of life"},
			"defective false": {"My " + got.Records.Orders[0].Items[0].Name + " has failed",
				got.Records.Orders[0].Items[0].Name + ": dead"},
		}[fmt.Sprint(c.Family, " ", c.Split == "public-train")]
		if c.Family == "defective" && !slices.Contains(subjects, got.Ticket.Subject) {
			t.Errorf("%s in the split %s has the subject %q", c.Key(), c.Split, got.Ticket.Subject)
		}
	}
}

// TestFamiliesThatDoNotExist wants an error that names the known ones.
func TestFamiliesThatDoNotExist(t *testing.T) {
	_, err := loadSmall(t).Generate(cases.Options{List: "own", Language: "en", Families: []string{"poem"}})
	if err == nil || !strings.Contains(err.Error(), `no family "poem": it is one of address-change, `) {
		t.Error(err)
	}
}
