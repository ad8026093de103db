package text

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// monthNames are the months as dates in each language name them.
var monthNames = map[string][]string{
	"en": strings.Fields("January February March April May June July August September October November December"),
	"de": strings.Fields("Januar Februar März April Mai Juni Juli August September Oktober November Dezember"),
	"es": strings.Fields("enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"),
	"fr": strings.Fields("janvier février mars avril mai juin juillet août septembre octobre novembre décembre"),
}

// forms are the ways to write a day in a language, with the year and without it.
func forms(language string, day time.Time) (full, short []string) {
	y, m, d := day.Date()
	name := monthNames[language][m-1]
	full = []string{day.Format(time.DateOnly)}
	switch language {
	case "en":
		full = append(full, fmt.Sprintf("%s %d, %d", name, d, y), fmt.Sprintf("%d %s %d", d, name, y),
			fmt.Sprintf("%d/%d/%d", m, d, y))
		short = []string{fmt.Sprintf("%s %d", name, d), fmt.Sprintf("the %d%s of %s", d, ordinal(d), name)}
	case "de":
		full = append(full, fmt.Sprintf("%d. %s %d", d, name, y), day.Format("02.01.2006"), fmt.Sprintf("%d.%d.%d", d, m,
			y))
		short = []string{fmt.Sprintf("%d. %s", d, name), fmt.Sprintf("%d.%d.", d, m)}
	case "es":
		full = append(full, fmt.Sprintf("%d de %s de %d", d, name, y), day.Format("02/01/2006"))
		short = []string{fmt.Sprintf("%d de %s", d, name)}
	case "fr":
		first := fmt.Sprint(d)
		if d == 1 {
			first = "1er"
		}
		full = append(full, fmt.Sprintf("%s %s %d", first, name, y), day.Format("02/01/2006"))
		short = []string{fmt.Sprintf("%s %s", first, name)}
	}
	return full, short
}

func ordinal(d int) string {
	switch {
	case d >= 11 && d <= 13:
		return "th"
	case d%10 == 1:
		return "st"
	case d%10 == 2:
		return "nd"
	case d%10 == 3:
		return "rd"
	}
	return "th"
}

// TestEveryDayIsRead reads each day of more than a year in every form, and wants that day, and not
// the one after it.
func TestEveryDayIsRead(t *testing.T) {
	lexicons := loadLexicons()
	for language := range monthNames {
		for day := time.Date(2027, 12, 30, 0, 0, 0, 0, time.UTC); day.Year() < 2029; day = day.AddDate(0, 0, 1) {
			full, short := forms(language, day)
			for i, text := range append(full, short...) {
				got := valuesOf("x "+text+" x", lexicons[language])
				want := int64(day.Year()*10000 + int(day.Month())*100 + day.Day())
				if i >= len(full) {
					want %= 10000
				}
				if len(got) != 1 || got[0].Kind != DateValue || got[0].Amount != want {
					t.Errorf("%s: %q states %+v, want %d", language, text, got, want)
					continue
				}
				if !got[0].Equal(DayValue(day)) || got[0].Equal(DayValue(day.AddDate(0, 0, 1))) {
					t.Errorf("%s: %q isn't %s alone", language, text, day.Format(time.DateOnly))
				}
				if days := got[0].Days(day.AddDate(0, 0, -5)); !containsDay(days, day) || i < len(full) && len(days) != 1 {
					t.Errorf("%s: %q may be %v", language, text, days)
				}
			}
		}
	}
}

func containsDay(days []time.Time, want time.Time) bool {
	for _, d := range days {
		if d.Equal(want) {
			return true
		}
	}
	return false
}

// The words of numbers below 100, as schools teach them.
func english(n int) string {
	small := strings.Fields("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen " +
		"fifteen sixteen seventeen eighteen nineteen")
	tens := strings.Fields("- - twenty thirty forty fifty sixty seventy eighty ninety")
	switch {
	case n < 20:
		return small[n]
	case n%10 == 0:
		return tens[n/10]
	}
	return tens[n/10] + "-" + small[n%10]
}

func german(n int) string {
	small := strings.Fields("null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn " +
		"fünfzehn sechzehn siebzehn achtzehn neunzehn")
	tens := strings.Fields("- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")
	switch {
	case n < 20:
		return small[n]
	case n%10 == 0:
		return tens[n/10]
	}
	return small[n%10] + "und" + tens[n/10]
}

func spanish(n int) string {
	small := strings.Fields("cero un dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince " +
		"dieciséis diecisiete dieciocho diecinueve veinte veintiún veintidós veintitrés veinticuatro veinticinco " +
		"veintiséis veintisiete veintiocho veintinueve")
	tens := strings.Fields("- - - treinta cuarenta cincuenta sesenta setenta ochenta noventa")
	switch {
	case n < 30:
		return small[n]
	case n%10 == 0:
		return tens[n/10]
	}
	return tens[n/10] + " y " + small[n%10]
}

func french(n int) string {
	small := strings.Fields("zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze " +
		"seize dix-sept dix-huit dix-neuf")
	tens := strings.Fields("- - vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt")
	rest := n % 10
	if n >= 70 && n/10%2 == 1 {
		rest += 10 // 70 to 79 and 90 to 99 go on counting
	}
	switch {
	case n < 20:
		return small[n]
	case n == 80:
		return "quatre-vingts"
	case rest == 0:
		return tens[n/10]
	case (rest == 1 || rest == 11) && n < 80:
		return tens[n/10] + " et " + small[rest]
	}
	return tens[n/10] + "-" + small[rest]
}

// TestNumbersInWords reads durations of 2 to 99 days in words.
func TestNumbersInWords(t *testing.T) {
	lexicons := loadLexicons()
	for language, form := range map[string]struct {
		words func(n int) string
		days  string
	}{"en": {english, "days"}, "de": {german, "Tage"}, "es": {spanish, "días"}, "fr": {french, "jours"}} {
		for n := 2; n < 100; n++ {
			text := form.words(n) + " " + form.days
			got := valuesOf("x "+text+" x", lexicons[language])
			want := int64(n) * SecondsPerDay * 1000
			if len(got) != 1 || got[0].Kind != DurationValue || got[0].Amount != want || got[0].Unit != Seconds {
				t.Errorf("%s: %q states %+v, want %d days", language, text, got, n)
			}
		}
	}
}

// TestShift moves days by durations, and wants what counting on a calendar gives.
func TestShift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 800).Draw(t, "from"))
		n, sign := rapid.IntRange(1, 60).Draw(t, "n"), rapid.SampledFrom([]int{1, -1}).Draw(t, "sign")
		days := Value{Kind: DurationValue, Unit: Seconds, Amount: int64(n) * SecondsPerDay * 1000}
		if got, ok := days.Shift(from, sign); !ok || got.Sub(from) != time.Duration(sign*n)*24*time.Hour {
			t.Errorf("%d days from %s on are %s", sign*n, from, got)
		}
		business := Value{Kind: DurationValue, Unit: BusinessDays, Amount: int64(n) * 1000}
		got, ok := business.Shift(from, sign)
		passed := 0
		for at := from; !at.Equal(got); {
			at = at.AddDate(0, 0, sign)
			if day := at.Weekday().String(); day != "Saturday" && day != "Sunday" {
				passed++
			}
			if passed > n {
				break
			}
		}
		if end := got.Weekday().String(); !ok || passed != n || end == "Saturday" || end == "Sunday" {
			t.Errorf("%d business days from %s on are %s, a %s", sign*n, from, got, end)
		}
		for _, other := range []Value{{Kind: DurationValue, Unit: Seconds, Amount: days.Amount + 3600_000},
			{Kind: MoneyValue, Amount: days.Amount}, {Kind: DurationValue, Unit: Seconds}} {
			if got, ok := other.Shift(from, sign); ok {
				t.Errorf("%+v moves a day to %s", other, got)
			}
		}
	})
	months := Value{Kind: DurationValue, Unit: Months, Amount: 2000}
	if got, ok := months.Shift(time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC), 1); !ok ||
		got.Format(time.DateOnly) != "2027-01-15" {
		t.Errorf("two months after November 15 is %s", got)
	}
}

// TestClocksMeet compares times with a dial, hand by hand.
func TestClocksMeet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minute := rapid.Int64Range(0, MinutesPerDay-1)
		a, b, near := minute.Draw(t, "a"), minute.Draw(t, "b"), rapid.Int64Range(0, 30).Draw(t, "near")
		want := false
		for turn := int64(-3); turn <= 3; turn++ {
			if gap := a - b + turn*12*60; gap <= near && gap >= -near {
				want = true
			}
		}
		if got := ClocksMeet(a, b, near); got != want || got != ClocksMeet(b, a, near) {
			t.Errorf("%d and %d meet within %d minutes: %t, want %t", a, b, near, got, want)
		}
	})
}

// TestEqualIsSymmetric compares values of texts in both orders.
func TestEqualIsSymmetric(t *testing.T) {
	lexicons := loadLexicons()
	texts := []string{"$5.00", "5.00", "5", "5 days", "5 business days", "120 hours", "5/6", "6/5", "5 June",
		"2026-06-05",
		"5 June 2027", "the 5th", "5:00", "17:00", "5 pm", "5 %", "LD-123456", "123456", "3456", "5 months", "5 EUR"}
	var values []Value
	for _, text := range texts {
		values = append(values, valuesOf(text, lexicons["en"])...)
	}
	for _, a := range values {
		if !a.Equal(a) {
			t.Errorf("%+v isn't itself", a)
		}
		for _, b := range values {
			if a.Equal(b) != b.Equal(a) {
				t.Errorf("%+v and %+v are equal in one order", a, b)
			}
		}
	}
}

// TestInLanguage wants each language's own text to be in it, and no longer text of another.
func TestInLanguage(t *testing.T) {
	texts := map[string]string{
		"en": "Thank you for your message. We have sent the money to your card, and it will be there in a few days. " +
			"If it is not, please write to us and we will look for it.",
		"de": "Vielen Dank für Ihre Nachricht. Wir haben das Geld auf Ihre Karte überwiesen, und es wird in ein " +
			"paar Tagen da sein. Wenn es nicht da ist, schreiben Sie uns bitte, und wir suchen es.",
		"es": "Gracias por su mensaje. Hemos enviado el dinero a su tarjeta y estará allí en unos días. Si no " +
			"es así, escríbanos por favor y lo buscaremos para usted en la cuenta que nos dio.",
		"fr": "Merci pour votre message. Nous avons envoyé l'argent sur votre carte, et il sera là dans quelques " +
			"jours. S'il n'y est pas, écrivez-nous et nous le chercherons pour vous dans les comptes.",
	}
	for _, language := range Languages() {
		for of, text := range texts {
			d := Parse(Fold(Normalise(text)), LoadLexicon(language))
			if got := d.InLanguage(); got != (of == language) {
				t.Errorf("a text in %s is in %s: %t", of, language, got)
			}
		}
		if d := Parse("ok", LoadLexicon(language)); !d.InLanguage() {
			t.Errorf("a short text isn't in %s", language)
		}
	}
}
