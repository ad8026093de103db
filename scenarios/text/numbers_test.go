package text

import (
	"slices"
	"testing"
)

// TestNumbers checks the kind, the value and the unit of values in each language's notation.
func TestNumbers(t *testing.T) {
	money := func(thousandths int64) Value { return Value{Kind: MoneyValue, Amount: thousandths} }
	span := func(n int64) Value { return Value{Kind: DurationValue, Amount: n * 1000, Unit: Seconds} }
	workdays := func(n int64) Value { return Value{Kind: DurationValue, Amount: n * 1000, Unit: BusinessDays} }
	monthsOf := func(n int64) Value { return Value{Kind: DurationValue, Amount: n * 1000, Unit: Months} }
	date := func(n int64) Value { return Value{Kind: DateValue, Amount: n} }
	at := func(h, m int64) Value { return Value{Kind: ClockValue, Amount: 60*h + m} }
	percent := func(n int64) Value { return Value{Kind: PercentValue, Amount: n * 1000} }
	number := func(thousandths int64) Value { return Value{Kind: NumberValue, Amount: thousandths} }
	const hour, day = 3600, 24 * 3600

	tests := map[string]map[string]Value{
		"en": {
			"$1,482.00":                  money(1_482_000),
			"$ 1,482":                    money(1_482_000),
			"1,482.50 dollars":           money(1_482_500),
			"91 dollars 50":              money(91_500),
			"ninety-seven dollars sixty": money(97_600),
			"97 dollars and sixty cents": money(97_600),
			"$1.482,00":                  money(1_482_000),
			"$1,234,567.89":              money(1_234_567_890),
			"$0.05":                      money(50),
			"€12":                        money(12_000),
			"USD 75":                     money(75_000),
			"two hours":                  span(2 * hour),
			"36h":                        span(36 * hour),
			"a quarter of an hour":       span(900),
			"twenty-four hours":          span(day),
			"3 business days":            workdays(3),
			"three working days":         workdays(3),
			"3 days":                     span(3 * day),
			"2 weeks":                    span(14 * day),
			"1.5 hours":                  span(5400),
			"18 months":                  monthsOf(18),
			"1 year":                     monthsOf(12),
			"March 3, 2026":              date(20260303),
			"3 March":                    date(303),
			"the 3rd of March":           date(303),
			"3/4/2026":                   date(20260304),
			"2026-03-04":                 date(20260304),
			"9:05":                       at(9, 5),
			"9:05 pm":                    at(21, 5),
			"12 am":                      at(0, 0),
			"12 pm":                      at(12, 0),
			"7 p.m.":                     at(19, 0),
			"15%":                        percent(15),
			"fifteen per cent":           percent(15),
			"15 percent":                 percent(15),
			"1,482":                      number(1_482_000),
			"1.482":                      number(1_482),
			"seventeen":                  number(17_000),
			"ninety-nine":                number(99_000),

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
			got := valuesOf(text, lexicons[language])
			if len(got) != 1 || got[0].Kind != want.Kind || got[0].Amount != want.Amount || got[0].Unit != want.Unit {
				t.Errorf("%s: %q states %+v, want kind %d, value %d, unit %d", language, text, got, want.Kind,
					want.Amount, want.Unit)
			}
		}
	}
}

// TestNumbersNextToOthers checks values next to other numbers.
func TestNumbersNextToOthers(t *testing.T) {
	tests := map[string]struct {
		language, text string
		want           []Value
	}{
		"sign of the next": {"en", "one of the two $82.00 charges", []Value{{Kind: NumberValue, Amount: 2000},
			{Kind: MoneyValue, Amount: 82_000}}},
		"range in words": {"en", "three to seven business days",
			[]Value{{Kind: DurationValue, Amount: 3000, Unit: BusinessDays},
				{Kind: DurationValue, Amount: 7000, Unit: BusinessDays}}},
		"range of compound": {"en", "thirty to forty-five days",
			[]Value{{Kind: DurationValue, Amount: 30 * SecondsPerDay * 1000, Unit: Seconds},
				{Kind: DurationValue, Amount: 45 * SecondsPerDay * 1000, Unit: Seconds}}},
		"article":         {"en", "an hour of music", []Value{{Kind: DurationValue, Amount: 3_600_000, Unit: Seconds}}},
		"no measure":      {"en", "a second parcel", nil},
		"time in English": {"en", "17h30", []Value{{Kind: ClockValue, Amount: 1050}}},
	}
	lexicons := loadLexicons()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []Value
			for _, c := range valuesOf(tc.text, lexicons[tc.language]) {
				got = append(got, Value{Kind: c.Kind, Amount: c.Amount, Unit: c.Unit})
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%q states %+v, want %+v", tc.text, got, tc.want)
			}
		})
	}
}

// TestAmountsWithoutSign checks which bare numbers state an amount.
func TestAmountsWithoutSign(t *testing.T) {
	amount := Value{Kind: MoneyValue, Amount: 8_400}
	for text, want := range map[string]bool{"8,40": true, "8,4": false, "8": false, "8,45": false, "8,40 Tage": false} {
		got := valuesOf(text, LoadLexicon("de"))
		if len(got) != 1 || got[0].Equal(amount) != want || amount.Equal(got[0]) != want {
			t.Errorf("%q states %+v, want equal to 8.40: %t", text, got, want)
		}
	}
}

// TestNumbersThatAreIDs checks that digits of a name are not read as an amount.
func TestNumbersThatAreIDs(t *testing.T) {
	lexicons := loadLexicons()
	for text, want := range map[string]string{
		"INV-104233": "inv104233", "LT123456789": "lt123456789", "KI-118": "ki118", "HUB-004211": "hub004211",
		"1234567": "1234567", "PAY-1234567": "pay1234567",
		"a.b@acme.example": "a.b@acme.example", "CL-990121.": "cl990121", "(LD-104233)": "ld104233",
	} {
		for _, language := range Languages() {
			got := valuesOf(text, lexicons[language])
			if len(got) != 1 || got[0].Kind != IDValue || got[0].ID != LettersAndDigits(want) {
				t.Errorf("%s: %q states %+v, want the id %s", language, text, got, want)
			}
		}
	}
}
