package offline

import (
	"slices"
	"testing"
)

// TestNumbers checks what each language's way of writing a value means: its kind, its value and its
// unit.
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

			"three quarters of an hour":          span(2700),
			"three-quarters of an hour":          span(2700),
			"half an hour":                       span(1800),
			"an hour and a half":                 span(5400),
			"two and a half hours":               span(9000),
			"one hundred and thirty-seven days":  span(137 * day),
			"two hundred days":                   span(200 * day),
			"one hundred and fifty-five days":    span(155 * day),
			"a hundred and four hours":           span(104 * hour),
			"one hundred and five business days": workdays(105),
			"the $82.00":                         money(82_000),
		},
		"de": {
			"1.482,00 $":                    money(1_482_000),
			"1.482 €":                       money(1_482_000),
			"1482 Euro":                     money(1_482_000),
			"12,50 €":                       money(12_500),
			"$1,482.00":                     money(1_482_000),
			"1.234.567,89 $":                money(1_234_567_890),
			"2 Stunden":                     span(2 * hour),
			"vierzehn Tage":                 span(14 * day),
			"siebenunddreißig Tage":         span(37 * day),
			"hundertsiebenunddreißig Tage":  span(137 * day),
			"einhundertfünf Tage":           span(105 * day),
			"drei viertel Stunden":          span(2700),
			"anderthalb Stunden":            span(5400),
			"39 Dollar":                     money(39_000),
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
			"1.482,00 $":                  money(1_482_000),
			"$1,482.00":                   money(1_482_000),
			"12,50 euros":                 money(12_500),
			"1 482 dólares":               money(1_482_000),
			"dos horas":                   span(2 * hour),
			"cuarenta y ocho horas":       span(48 * hour),
			"ciento treinta y siete días": span(137 * day),
			"veintiún días":               span(21 * day),
			"tres cuartos de hora":        span(2700),
			"dos horas y media":           span(9000),
			"17h30":                       at(17, 30),
			"media hora":                  span(1800),
			"3 días hábiles":              workdays(3),
			"tres días laborables":        workdays(3),
			"3 días":                      span(3 * day),
			"1,5 horas":                   span(5400),
			"6 meses":                     monthsOf(6),
			"3 de marzo de 2026":          date(20260303),
			"3 de marzo":                  date(303),
			"3/4/2026":                    date(20260403),
			"14:30":                       at(14, 30),
			"15 %":                        percent(15),
			"15 por ciento":               percent(15),
			"diecisiete":                  number(17_000),
		},
		"fr": {
			"quatre jours":                span(4 * day),
			"quatre-vingt-dix jours":      span(90 * day),
			"quatre-vingts jours":         span(80 * day),
			"soixante-quinze jours":       span(75 * day),
			"deux cent trente-sept jours": span(237 * day),
			"trois quarts d'heure":        span(2700),
			"deux heures et demie":        span(9000),
			"17h30":                       at(17, 30),
			"17 h 30":                     at(17, 30),
			"1 482,00 €":                  money(1_482_000),
			"1\u202f482,00 €":             money(1_482_000),
			"$1,482.00":                   money(1_482_000),
			"12,50 euros":                 money(12_500),
			"deux heures":                 span(2 * hour),
			"48 h":                        span(48 * hour),
			"une demi-heure":              span(1800),
			"3 jours ouvrés":              workdays(3),
			"trois jours ouvrables":       workdays(3),
			"3 jours":                     span(3 * day),
			"1,5 heure":                   span(5400),
			"6 mois":                      monthsOf(6),
			"2 ans":                       monthsOf(24),
			"3 mars 2026":                 date(20260303),
			"1er avril":                   date(401),
			"3/4/2026":                    date(20260403),
			"14:30":                       at(14, 30),
			"15 %":                        percent(15),
			"15 pour cent":                percent(15),
			"vingt et un jours":           span(21 * day),
			"seize":                       number(16_000),
		},
	}
	lexicons := loadLexicons()
	for language, cases := range tests {
		for text, want := range cases {
			got := claimsOf(text, lexicons[language])
			if len(got) != 1 || got[0].kind != want.kind || got[0].value != want.value || got[0].unit != want.unit {
				t.Errorf("%s: %q claims %+v, want kind %d, value %d, unit %d", language, text, got, want.kind,
					want.value, want.unit)
			}
		}
	}
}

// TestNumbersInCompany checks values beside other numbers.
func TestNumbersInCompany(t *testing.T) {
	tests := map[string]struct {
		language, text string
		want           []claim
	}{
		"sign of the next": {"en", "one of the two $82.00 charges", []claim{{kind: numberClaim, value: 2000},
			{kind: moneyClaim, value: 82_000}}},
		"range in words": {"en", "three to seven business days",
			[]claim{{kind: durationClaim, value: 3000, unit: businessDays},
				{kind: durationClaim, value: 7000, unit: businessDays}}},
		"range of compound": {"en", "thirty to forty-five days",
			[]claim{{kind: durationClaim, value: 30 * secondsPerDay * 1000, unit: seconds},
				{kind: durationClaim, value: 45 * secondsPerDay * 1000, unit: seconds}}},
		"no measure":    {"en", "an hour of music", nil},
		"id in English": {"en", "17h30", []claim{{kind: idClaim}}},
	}
	lexicons := loadLexicons()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []claim
			for _, c := range claimsOf(tc.text, lexicons[tc.language]) {
				got = append(got, claim{kind: c.kind, value: c.value, unit: c.unit})
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%q claims %+v, want %+v", tc.text, got, tc.want)
			}
		})
	}
}

// TestAmountsWithoutSign checks which bare numbers state an amount.
func TestAmountsWithoutSign(t *testing.T) {
	amount := claim{kind: moneyClaim, value: 8_400}
	for text, want := range map[string]bool{"8,40": true, "8,4": false, "8": false, "8,45": false, "8,40 Tage": false} {
		got := claimsOf(text, loadLexicons()["de"])
		if len(got) != 1 || got[0].equal(amount) != want || amount.equal(got[0]) != want {
			t.Errorf("%q claims %+v, want equal to 8.40: %t", text, got, want)
		}
	}
}

// TestNumbersThatAreIDs checks that digits which name a thing are not read as an amount of it.
func TestNumbersThatAreIDs(t *testing.T) {
	lexicons := loadLexicons()
	for text, want := range map[string]string{
		"INV-104233": "inv104233", "LT123456789": "lt123456789", "KI-118": "ki118", "HUB-004211": "hub004211",
		"1234567": "1234567", "PAY-1234567": "pay1234567",
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
