package grader

import "testing"

// TestNumbers checks what each language's way of writing a value means: its kind, its value and its unit.
func TestNumbers(t *testing.T) {
	money := func(thousandths int64) claim { return claim{kind: moneyClaim, value: thousandths} }
	span := func(n int64) claim { return claim{kind: durationClaim, value: n * 1000, unit: seconds} }
	workdays := func(n int64) claim { return claim{kind: durationClaim, value: n * 1000, unit: businessDays} }
	monthsOf := func(n int64) claim { return claim{kind: durationClaim, value: n * 1000, unit: months} }
	date := func(n int64) claim { return claim{kind: dateClaim, value: n} }
	at := func(h, m int64) claim { return claim{kind: clockClaim, value: 60*h + m} }
	percent := func(n int64) claim { return claim{kind: percentClaim, value: n * 1000} }
	number := func(thousandths int64) claim { return claim{kind: numberClaim, value: thousandths} }
	const hour, day = 3600, 24 * 3600

	tests := map[string]map[string]claim{
		"en": {
			"$1,482.00":            money(1_482_000),
			"$ 1,482":              money(1_482_000),
			"1,482.50 dollars":     money(1_482_500),
			"$1.482,00":            money(1_482_000),
			"$1,234,567.89":        money(1_234_567_890),
			"$0.05":                money(50),
			"€12":                  money(12_000),
			"USD 75":               money(75_000),
			"two hours":            span(2 * hour),
			"36h":                  span(36 * hour),
			"a quarter of an hour": span(900),
			"twenty-four hours":    span(day),
			"3 business days":      workdays(3),
			"three working days":   workdays(3),
			"3 days":               span(3 * day),
			"2 weeks":              span(14 * day),
			"1.5 hours":            span(5400),
			"18 months":            monthsOf(18),
			"1 year":               monthsOf(12),
			"March 3, 2026":        date(20260303),
			"3 March":              date(303),
			"the 3rd of March":     date(303),
			"3/4/2026":             date(20260304),
			"2026-03-04":           date(20260304),
			"9:05":                 at(9, 5),
			"9:05 pm":              at(21, 5),
			"12 am":                at(0, 0),
			"12 pm":                at(12, 0),
			"7 p.m.":               at(19, 0),
			"15%":                  percent(15),
			"fifteen per cent":     percent(15),
			"15 percent":           percent(15),
			"1,482":                number(1_482_000),
			"1.482":                number(1_482),
			"seventeen":            number(17_000),
			"ninety-nine":          number(99_000),
		},
		"de": {
			"1.482,00 $":                    money(1_482_000),
			"1.482 €":                       money(1_482_000),
			"1482 Euro":                     money(1_482_000),
			"12,50 €":                       money(12_500),
			"$1,482.00":                     money(1_482_000),
			"1.234.567,89 $":                money(1_234_567_890),
			"2 Stunden":                     span(2 * hour),
			"zwei Stunden":                  span(2 * hour),
			"achtundvierzig Stunden":        span(48 * hour),
			"innerhalb einer Stunde":        span(hour),
			"innerhalb einer Viertelstunde": span(900),
			"3 Werktage":                    workdays(3),
			"drei Arbeitstagen":             workdays(3),
			"3 Tage":                        span(3 * day),
			"zwei Wochen":                   span(14 * day),
			"1,5 Stunden":                   span(5400),
			"6 Monate":                      monthsOf(6),
			"2 Jahre":                       monthsOf(24),
			"3. März 2026":                  date(20260303),
			"3.3.2026":                      date(20260303),
			"3.4.":                          date(403),
			"14 Uhr":                        at(14, 0),
			"14:30":                         at(14, 30),
			"14:30 Uhr":                     at(14, 30),
			"15 %":                          percent(15),
			"15 Prozent":                    percent(15),
			"1.482":                         number(1_482_000),
			"1,482":                         number(1_482),
			"siebzehn":                      number(17_000),
		},
		"es": {
			"1.482,00 $":            money(1_482_000),
			"$1,482.00":             money(1_482_000),
			"12,50 euros":           money(12_500),
			"1 482 dólares":         money(1_482_000),
			"dos horas":             span(2 * hour),
			"cuarenta y ocho horas": span(48 * hour),
			"media hora":            span(1800),
			"3 días hábiles":        workdays(3),
			"tres días laborables":  workdays(3),
			"3 días":                span(3 * day),
			"1,5 horas":             span(5400),
			"6 meses":               monthsOf(6),
			"3 de marzo de 2026":    date(20260303),
			"3 de marzo":            date(303),
			"3/4/2026":              date(20260403),
			"14:30":                 at(14, 30),
			"15 %":                  percent(15),
			"15 por ciento":         percent(15),
			"diecisiete":            number(17_000),
		},
		"fr": {
			"1 482,00 €":            money(1_482_000),
			"1\u202f482,00 €":       money(1_482_000),
			"$1,482.00":             money(1_482_000),
			"12,50 euros":           money(12_500),
			"deux heures":           span(2 * hour),
			"48 h":                  span(48 * hour),
			"une demi-heure":        span(1800),
			"3 jours ouvrés":        workdays(3),
			"trois jours ouvrables": workdays(3),
			"3 jours":               span(3 * day),
			"1,5 heure":             span(5400),
			"6 mois":                monthsOf(6),
			"2 ans":                 monthsOf(24),
			"3 mars 2026":           date(20260303),
			"1er avril":             date(401),
			"3/4/2026":              date(20260403),
			"14:30":                 at(14, 30),
			"15 %":                  percent(15),
			"15 pour cent":          percent(15),
			"vingt et un jours":     span(21 * day),
			"seize":                 number(16_000),
		},
	}
	lexicons := loadLexicons()
	for language, cases := range tests {
		for text, want := range cases {
			got := claimsOf(text, lexicons[language])
			if len(got) != 1 || got[0].kind != want.kind || got[0].value != want.value || got[0].unit != want.unit {
				t.Errorf("%s: %q claims %+v, want kind %d, value %d, unit %d", language, text, got, want.kind, want.value, want.unit)
			}
		}
	}
}

// TestNumbersThatAreIDs checks that digits which name a thing are not read as an amount of it.
func TestNumbersThatAreIDs(t *testing.T) {
	lexicons := loadLexicons()
	for text, want := range map[string]string{
		"INV-104233": "inv104233", "LT123456789": "lt123456789", "KI-118": "ki118", "HUB-004211": "hub004211", "1234567": "1234567", "PAY-1234567": "pay1234567",
		"a.b@acme.example": "a.b@acme.example", "CL-990121.": "cl990121", "(LD-104233)": "ld104233",
	} {
		for _, language := range languages() {
			got := claimsOf(text, lexicons[language])
			if len(got) != 1 || got[0].kind != idClaim || got[0].id != want {
				t.Errorf("%s: %q claims %+v, want the id %s", language, text, got, want)
			}
		}
	}
}
