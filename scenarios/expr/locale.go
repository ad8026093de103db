package expr

import (
	"strconv"
	"strings"
	"sync"
	"time"
)

// Locale formats values in one language. Its forms follow Unicode CLDR 46, except that Spanish also
// groups numbers of four digits.
type Locale struct {
	group, decimal string
	// currency is the format of an amount, with % in place of the number.
	currency string
	months   [12]string
	weekdays [7]string // from Sunday
	// dayPattern is the format of a date, with D, M and Y for its parts.
	dayPattern string

	once     sync.Once
	language *language
}

const nbsp = "\u00a0"

// Locales are the supported languages by their ISO 639-1 code.
var Locales = map[string]*Locale{
	"en": {
		group: ",", decimal: ".", currency: "$%", dayPattern: "M D, Y",
		months: [12]string{"January", "February", "March", "April", "May", "June", "July", "August", "September",
			"October", "November", "December"},
		weekdays: [7]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"},
	},
	"de": {
		group: ".", decimal: ",", currency: "%" + nbsp + "$", dayPattern: "D. M Y",
		months: [12]string{"Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September",
			"Oktober", "November", "Dezember"},
		weekdays: [7]string{"Sonntag", "Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag"},
	},
	"es": {
		group: ".", decimal: ",", currency: "%" + nbsp + "$", dayPattern: "D de M de Y",
		months: [12]string{"enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre",
			"octubre", "noviembre", "diciembre"},
		weekdays: [7]string{"domingo", "lunes", "martes", "miércoles", "jueves", "viernes", "sábado"},
	},
	"fr": {
		group: nbsp, decimal: ",", currency: "%" + nbsp + "$", dayPattern: "D M Y",
		months: [12]string{"janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre",
			"octobre", "novembre", "décembre"},
		weekdays: [7]string{"dimanche", "lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi"},
	},
}

// Money writes cents as dollars: $1,482.00, 1.482,00 $ or 1 482,00 $.
func (l *Locale) Money(cents int64) string {
	sign := ""
	if cents < 0 {
		sign, cents = "-", -cents
	}
	frac := strconv.FormatInt(100+cents%100, 10)[1:]
	return sign + strings.Replace(l.currency, "%", l.number(cents/100)+l.decimal+frac, 1)
}

// number writes a whole number with its thousands grouped.
func (l *Locale) number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + l.group + digits[i:]
	}
	return sign + digits
}

// Day writes a date in full.
func (l *Locale) Day(t time.Time) string {
	var b strings.Builder
	for _, r := range l.dayPattern {
		switch r {
		case 'D':
			b.WriteString(strconv.Itoa(t.Day()))
		case 'M':
			b.WriteString(l.months[t.Month()-1])
		case 'Y':
			b.WriteString(strconv.Itoa(t.Year()))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func (l *Locale) weekday(t time.Time) string { return l.weekdays[t.Weekday()] }
