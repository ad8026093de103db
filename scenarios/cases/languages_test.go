package cases_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/scenarios/cases"
)

var update = flag.Bool("update", false, "write the golden case")

// TestLanguageFaults spoils a file of the catalogue and wants the fault at the first line of a file
// that contains a text.
func TestLanguageFaults(t *testing.T) {
	const world, family = "../names/cases.yaml", "../families/return.yaml"
	const replies, list = "../names/replies-de.yaml", "../families/cases-de.yaml"
	const hygiene = "    de: [Schlafmaske Larkfield Rest, Ohrhörer-Set Larkfield Hear, Brustgurt Larkfield Pulse]\n"
	for name, tc := range map[string]struct{ file, old, spoilt, line, want string }{
		"unknown language": {family, "  de:\n", "  ge:\n", "  ge:",
			`there is no language "ge": it is one of de, en, es, fr`},
		"unknown voice": {family, "  de:\n    plain:", "  de:\n    plane:", "    plane:",
			`there is no voice "plane": it is one of plain`},
		"unknown language of words": {world, "      de: [seriennummer", "      ge: [seriennummer",
			"      ge:", `there is no language "ge"`},
		"a product too few": {world, "    de: [Larkfield Hub 1, Flutlicht", "    de: [Flutlicht", "    de: [Flutlicht",
			`products.final_sale has 3 names in "de" and 4 in "en"`},
		"no products": {world, hygiene, "", "", `products.hygiene has no names in "de": add them to names/cases.yaml`},
		"an answer without a text": {world, "        any: \"Das ist", "        plain: \"Das ist", "  order:",
			`the answer about order has no words or no text of voice "any" in "de"`},
		"an answer without words": {"../modifiers/misuse.yaml", "      de: [foto, photo, bild, aufnahme]\n", "",
			"  photo:", `the answer about photo has no words or no text of voice "any" in "de"`},
		"replies of no language": {replies, "{id: de,", "{id: ge,", "{id: ge", `there is no language "ge"`},
		"no replies":             {replies, "{id: de,", "{id: fr,", "", `there are no replies in "de": add names/replies-de.yaml`},
		"a case with an id of another language": {list, "cases:\n", "cases:\n  return-99: easy public-train\n",
			"  return-99:", `the id of this case must be "return-de-99"`},
	} {
		t.Run(name, func(t *testing.T) {
			files := read(t)
			position := `\S+\.yaml:\d+`
			for i := range files {
				if files[i].name != tc.file {
					continue
				}
				if !strings.Contains(files[i].text, tc.old) {
					t.Fatalf("%s doesn't contain %q", tc.file, tc.old)
				}
				files[i].text = strings.Replace(files[i].text, tc.old, tc.spoilt, 1)
				if before, _, found := strings.Cut(files[i].text, tc.line); found && tc.line != "" {
					position = fmt.Sprintf(`%s:%d`, regexp.QuoteMeta(tc.file), 1+strings.Count(before, "\n"))
				}
			}
			_, err := compile(files)
			want := regexp.MustCompile(`(?m)^` + position + ": " + regexp.QuoteMeta(tc.want))
			if err == nil || !want.MatchString(err.Error()) {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

// TestVoicesOfModifiers composes a family with a modifier that has no texts in the language.
func TestVoicesOfModifiers(t *testing.T) {
	files := read(t)
	for i := range files {
		if files[i].name == "../modifiers/opened.yaml" {
			files[i].text, _, _ = strings.Cut(files[i].text, "  de:\n")
		}
	}
	set, err := compile(files)
	if err == nil {
		t.Fatal("the list contains a German return of an opened item, want a fault")
	}
	if !strings.Contains(err.Error(), `no voice has texts in "de" of family return and of each modifier with texts`) {
		t.Error(err)
	}
	for c := range set.All(1, "de") {
		if c.Family == "return" && len(c.Modifiers) == 1 && c.Modifiers[0] == "opened" {
			t.Errorf("%s is composed without a text of %s", c.Key(), c.Modifiers[0])
		}
	}
}

// TestGoldenCase fixes what the customer writes and the agent has to tell in a German case.
func TestGoldenCase(t *testing.T) {
	const file = "testdata/golden-de.json"
	c, err := load(t).Compose("damaged", []string{"no-order-number", "wants-refund", "gift-card"}, "de")
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := c.Instantiate("salt", 5)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(struct {
		Query     string
		Item      string
		Questions []cases.Answer
		Facts     []cases.Statement
		Reply     string
	}{drawn.Query, drawn.Records.Orders[0].Items[0].Name, drawn.Questions, drawn.Facts, drawn.Reply}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("run with -update if that is intended: %s", diff)
	}
}
