package text

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestValuesOfOneValueAreEqual(t *testing.T) {
	tests := map[string]map[string][]string{
		"en": {
			"$1,482.00": {"$1482", "$1,482", "1482 dollars", "1,482.00 USD", "USD 1,482.00", "1482 bucks"},
			"$0.50":     {"$0.5", "0.50 dollars"},
			"48 h": {"two days", "48 hours", "48h", "2 days", "forty-eight hours", "forty eight hours",
				"2-day"},
			"1 business day":  {"one working day", "1 working day", "one-business-day"},
			"5 business days": {"five working days"},
			"15 minutes":      {"fifteen minutes", "15 min", "15-minute", "a quarter of an hour"},
			"half an hour":    {"30 minutes", "half hour", "thirty minutes"},
			"1 hour":          {"60 minutes", "within an hour"},
			"2 weeks":         {"14 days", "fourteen days"},
			"24 months":       {"2 years", "two years"},
			"14 March 2026": {"March 14", "March 14th, 2026", "the 14th of March", "2026-03-14", "14 Mar 2026",
				"Mar. 14", "3/14/2026", "14.03.2026"},
			"23:59":             {"11:59 pm", "11:59 PM"},
			"5 pm":              {"17:00", "5 p.m."},
			"20 %":              {"20%", "twenty percent", "20 percent"},
			"INV-104233":        {"inv-104233", "INV104233", "104233"},
			"2.4 GHz":           {"2.4 GHz", "2.40"},
			"help@acme.example": {"HELP@acme.example"},
		},
		"de": {
			"1.482,00 $":    {"1482 $", "1.482 Dollar", "$1,482.00", "1482,00 USD"},
			"14. März 2026": {"14.03.2026", "14.3.", "14. März", "14.3.2026"},
			"24 Stunden":    {"vierundzwanzig Stunden", "1 Tag", "innerhalb eines Tages"},
			"5 Werktage":    {"fünf Arbeitstagen", "5 Arbeitstage"},
			"14:00":         {"14 Uhr"},
			"15 Minuten":    {"innerhalb einer Viertelstunde"},
			"30 Minuten":    {"eine halbe Stunde"},
		},
		"es": {
			"14 de marzo de 2026": {"14 de marzo", "14/3/2026", "14/03/2026"},
			"48 horas":            {"dos días", "cuarenta y ocho horas"},
			"2 días hábiles":      {"dos días laborables"},
			"1.482,00 $":          {"1482 dólares"},
		},
		"fr": {
			"14 mars 2026": {"14 mars", "le 14 mars", "14/03/2026"},
			"1 avril":      {"1er avril"},
			"1 482,00 €":   {"1482 euros", "1\u202f482,00 €"},
			"48 heures":    {"deux jours", "48 h"},
			"30 minutes":   {"une demi-heure"},
		},
	}
	lexicons := loadLexicons()
	for language, values := range tests {
		for value, others := range values {
			want := valuesOf(value, lexicons[language])
			if len(want) == 0 {
				t.Errorf("%s: %q states no value", language, value)
				continue
			}
			for _, other := range others {
				if got := valuesOf(other, lexicons[language]); len(got) != 1 || !got[0].Equal(want[0]) {
					t.Errorf("%s: %q states %+v, want %+v as %q does", language, other, got, want, value)
				}
			}
		}
	}
}

func TestValuesOfDifferentValuesDiffer(t *testing.T) {
	lex := LoadLexicon("en")
	values := []string{"$14.82", "$1,482.00", "$1,482.50", "5 days", "5 business days", "5 hours", "5 months", "5",
		"5 %", "5 May", "5 June", "5 May 2026", "INV-104233", "INV-104234", "23:59"}
	for i, a := range values {
		for k, b := range values {
			same := i == k || strings.HasPrefix(a, "5 May") && strings.HasPrefix(b, "5 May")
			if got := valuesOf(a, lex)[0].Equal(valuesOf(b, lex)[0]); got != same {
				t.Errorf("%q equals %q: %v", a, b, got)
			}
		}
	}
}

func TestValuesOfRanges(t *testing.T) {
	lex := LoadLexicon("en")
	for _, text := range []string{"3 to 5 business days", "3-5 business days", "three to five working days",
		"3–5 business days"} {
		plain := Normalise(text)
		got := valuesOf(plain, lex)
		if len(got) != 2 || got[0].Amount != 3000 || got[0].Unit != BusinessDays || got[1].Amount != 5000 ||
			got[1].Unit != BusinessDays {
			t.Errorf("%q states %+v, want 3 and 5 business days", text, got)
		}
	}
}

func TestTextWithoutValues(t *testing.T) {
	lex := LoadLexicon("en")
	for _, text := range []string{"We are here 24/7 for you.", "Have a nice day!", "You may reply to this.",
		"One of our specialists helps you.", "e.g. this or that"} {
		for _, c := range valuesOf(text, lex) {
			if c.Kind != NumberValue && !c.Loose {
				t.Errorf("%q states %+v", text, c)
			}
		}
	}
}

func TestMoneyRoundTrips(t *testing.T) {
	lexicons := loadLexicons()
	rapid.Check(t, func(t *rapid.T) {
		cents := rapid.Int64Range(0, 99_999_999).Draw(t, "cents")
		for language, text := range map[string]string{"en": "$" + grouped(cents/100, ",") + "." + twoDigits(cents),
			"de": grouped(cents/100, ".") + "," + twoDigits(cents) + " $", "fr": grouped(cents/100, " ") + "," +
				twoDigits(cents) + " €"} {
			got := valuesOf(text, lexicons[language])
			if len(got) != 1 || got[0].Kind != MoneyValue || got[0].Amount != cents*10 {
				t.Errorf("%s: %q states %+v", language, text, got)
			}
		}
	})
}

func valuesOf(text string, lex *Lexicon) []Value {
	plain := Normalise(text)
	return Parse(Fold(plain), lex).Values
}

// grouped formats a whole number with its thousands grouped.
func grouped(n int64, mark string) string {
	if n < 1000 {
		return itoa(n)
	}
	rest := itoa(n%1000 + 1000)
	return grouped(n/1000, mark) + mark + rest[1:]
}

func twoDigits(cents int64) string {
	return itoa(cents%100 + 100)[1:]
}

func itoa(n int64) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}
