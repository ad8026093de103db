package offline

import (
	"time"
)

// People answer with what follows from a value rather than with the value: "by June 17" for "within
// 26 days", "by 10:15" for "in half an hour", "two days off" for a date. What follows from now and
// a duration that the ticket, its facts or an article give is no invention, and where the duration
// is a fact's, the day or the time states the fact.

const (
	// nearMinutes is how far a time of day may be from the one that follows.
	nearMinutes = 5
	// nearDays is how far a day may be from the one that follows: people count the first day, or
	// don't.
	nearDays = 1
	// longDays is from how many days on a day beside the one that follows still states the
	// duration.
	longDays = 14
	// maxDerivedDays bounds the durations that days are counted from.
	maxDerivedDays = 1100
	minutesPerDay  = 24 * 60
)

// day is the date of a time, at midnight.
func day(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
}

// days returns the days that a date claim may mean: all three of the years around now where it
// names none.
func (c claim) days(now time.Time) []time.Time {
	if c.kind != dateClaim || c.value < 100 {
		return nil
	}
	year, month, dom := int(c.value/10000), time.Month(c.value/100%100), int(c.value%100)
	if year > 0 {
		return []time.Time{time.Date(year, month, dom, 0, 0, 0, 0, time.UTC)}
	}
	out := make([]time.Time, 0, 3)
	for y := now.Year() - 1; y <= now.Year()+1; y++ {
		out = append(out, time.Date(y, month, dom, 0, 0, 0, 0, time.UTC))
	}
	return out
}

// shift moves a day by a duration of whole days or months, forwards or backwards. It fails for
// other claims and for spans beyond years.
func (c claim) shift(from time.Time, sign int) (time.Time, bool) {
	n := int(c.value / 1000)
	switch {
	case c.kind != durationClaim || n <= 0 || c.value/1000 > maxDerivedDays*secondsPerDay:
	case c.unit == months && n <= maxDerivedDays/30:
		return from.AddDate(0, sign*n, 0), true
	case c.unit == businessDays && n <= maxDerivedDays/7*5:
		for n > 0 {
			from = from.AddDate(0, 0, sign)
			if w := from.Weekday(); w != time.Saturday && w != time.Sunday {
				n--
			}
		}
		return from, true
	case c.unit == seconds && n%secondsPerDay == 0:
		return from.AddDate(0, 0, sign*n/secondsPerDay), true
	}
	return time.Time{}, false
}

// minutes is the length of a duration of less than two days, 0 for any other claim.
func (c claim) minutes() int64 {
	if c.kind != durationClaim || c.unit != seconds || c.value > 2*secondsPerDay*1000 {
		return 0
	}
	return c.value / 60_000
}

// follows tells whether the claim follows from now and what the ticket, its facts and the articles
// say.
func (p *prepared) follows(c claim) bool {
	switch c.kind {
	case dateClaim:
		return p.dayFollows(c)
	case clockClaim:
		return p.timeFollows(c)
	case durationClaim:
		return p.spanFollows(c)
	case moneyClaim, percentClaim, numberClaim, idClaim:
	}
	return false
}

// dayFollows tells whether a date is beside now or a date that was told, or a supported duration
// away from one.
func (p *prepared) dayFollows(c claim) bool {
	for _, target := range c.days(p.ticket.Now) {
		today := day(p.ticket.Now)
		if apart(target, today) <= nearDays || p.beside(target) {
			return true
		}
		for _, set := range p.known() {
			for _, d := range set {
				if d.kind == durationClaim && p.away(target, today, d) {
					return true
				}
			}
		}
	}
	return false
}

// beside tells whether a day is beside one that was told, or a told duration after one.
func (p *prepared) beside(target time.Time) bool {
	for _, t := range p.bases {
		if apart(target, t) <= nearDays {
			return true
		}
		for _, d := range p.told {
			if end, ok := d.shift(t, 1); ok && apart(target, end) == 0 {
				return true
			}
		}
	}
	return false
}

// away tells whether a day is the duration away from now, to the day or nearly so.
func (p *prepared) away(target, today time.Time, d claim) bool {
	for _, sign := range []int{1, -1} {
		if end, ok := d.shift(today, sign); ok && apart(target, end) <= nearDays {
			return true
		}
	}
	m := d.minutes()
	return m > 0 && apart(target, day(p.ticket.Now.Add(time.Duration(m)*time.Minute))) == 0
}

// apart is the number of days between two days.
func apart(a, b time.Time) int {
	n := int(a.Sub(b).Hours() / 24)
	return max(n, -n)
}

// timeFollows tells whether a time of day is now, or a supported duration away.
func (p *prepared) timeFollows(c claim) bool {
	now := clockOf(p.ticket.Now)
	if clocksMeet(c.value, now, nearMinutes) {
		return true
	}
	for _, set := range p.known() {
		for _, d := range set {
			if m := d.minutes(); m > 0 && (clocksMeet(c.value, now+m, nearMinutes) ||
				clocksMeet(c.value, now-m, nearMinutes)) {
				return true
			}
		}
	}
	return false
}

// clockOf is a time of day in minutes.
func clockOf(t time.Time) int64 {
	return int64(t.Hour()*60 + t.Minute())
}

// clocksMeet tells whether two times are near, on a dial of twelve hours.
func clocksMeet(a, b, near int64) bool {
	const dial = minutesPerDay / 2
	gap := ((a-b)%dial + dial) % dial
	return min(gap, dial-gap) <= near
}

// spanFollows tells whether a duration is the number of days, or of minutes, between now and what
// was told.
func (p *prepared) spanFollows(c claim) bool {
	today := day(p.ticket.Now)
	for _, t := range p.bases {
		n := int64(apart(t, today))
		if n > 0 && c.unit == seconds && c.value == n*secondsPerDay*1000 {
			return true
		}
		if end, ok := c.shift(today, 1); ok && c.unit == businessDays && end.Equal(t) {
			return true
		}
	}
	return false
}

// known are the sets of claims that a reply may count with.
func (p *prepared) known() [][]claim {
	out := make([][]claim, 0, 2+len(p.shelf))
	out = append(out, p.told, p.allowed)
	for _, e := range p.shelf {
		out = append(out, e.claims)
	}
	return out
}

// readBases collects the days that were told, with that of every message.
func (p *prepared) readBases() {
	for _, m := range p.ticket.History {
		p.bases = append(p.bases, day(m.At))
	}
	p.bases = append(p.bases, day(p.ticket.Now).AddDate(0, 0, 1))
	for _, c := range p.told {
		p.bases = append(p.bases, c.days(p.ticket.Now)...)
	}
}

// addDerived adds to the facts whose value is a duration from now the day or the time at which it
// ends.
func (p *prepared) addDerived(now time.Time) {
	for i := range p.facts {
		f := &p.facts[i]
		for _, form := range f.forms {
			if len(form.claims) == 1 && form.claims[0].kind == durationClaim {
				f.forms = append(f.forms, p.endings(form.claims[0], now)...)
			}
		}
	}
}

// endings are the forms of when a duration that begins now is over.
func (p *prepared) endings(c claim, now time.Time) []form {
	if m := c.minutes(); m > 0 && m < minutesPerDay {
		at := claim{kind: clockClaim, value: (clockOf(now) + m) % minutesPerDay, slack: nearMinutes}
		return []form{{claims: []claim{at}, derived: true}}
	}
	end, ok := c.shift(day(now), 1)
	if !ok {
		return nil
	}
	ends := []time.Time{end}
	if apart(end, day(now)) >= longDays {
		ends = append(ends, end.AddDate(0, 0, 1), end.AddDate(0, 0, -1))
	}
	out := make([]form, 0, len(ends)+1)
	for _, e := range ends {
		out = append(out, form{claims: []claim{dayClaim(e)}, derived: true})
	}
	if name := p.lex.nearDay(now, end); name != "" {
		f := p.lib.form(name)
		f.derived = true
		out = append(out, f)
	}
	return out
}
