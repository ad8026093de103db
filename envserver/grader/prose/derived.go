package prose

import (
	"slices"
	"time"

	"github.com/csenv/csenv/envserver/grader/text"
)

// People often answer with a value that follows from another: "by June 17" for "within 26 days". A
// value that follows from now and a known duration is not invented. If the duration belongs to a
// fact, the value states the fact.

const (
	nearMinutes = 2 // maximum difference of a time of day from the computed one
	// nearDays is the maximum difference of a day from the computed one, because some people count
	// the first day.
	nearDays = 1
	// longDays is the shortest duration that a day next to the right one still states.
	longDays = 14
)

func startOfDay(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
}

// follows reports whether the value follows from now and the values of the ticket, its facts and
// the articles.
func (p *prepared) follows(c text.Value) bool {
	switch c.Kind {
	case text.DateValue:
		return p.dayFollows(c)
	case text.ClockValue:
		return p.timeFollows(c)
	case text.DurationValue:
		return p.spanFollows(c)
	case text.MoneyValue, text.PercentValue, text.NumberValue, text.IDValue:
	}
	return false
}

// dayFollows reports whether a date is at most a day from now or from a known date, or a supported
// duration away.
func (p *prepared) dayFollows(c text.Value) bool {
	return slices.ContainsFunc(c.Days(p.ticket.Now), func(t time.Time) bool { return p.days()[dayNumber(t)] })
}

// dayNumber counts days from a fixed one.
func dayNumber(t time.Time) int64 { return startOfDay(t).Unix() / text.SecondsPerDay }

// daysThatFollow are the numbers of the days that a reply may compute from now, the known days and
// the durations of the ticket, its facts and the articles. They are computed once for all the dates
// of all replies.
func (p *prepared) daysThatFollow() map[int64]bool {
	days := map[int64]bool{}
	add := func(t time.Time, near int64) {
		for n := -near; n <= near; n++ {
			days[dayNumber(t)+n] = true
		}
	}
	today := startOfDay(p.ticket.Now)
	add(today, nearDays)
	for _, t := range p.bases {
		add(t, nearDays)
		for _, d := range p.known {
			if end, ok := d.Shift(t, 1); ok {
				add(end, 0)
			}
		}
	}
	for _, set := range p.sets() {
		for _, d := range set {
			for _, sign := range []int{1, -1} {
				if end, ok := d.Shift(today, sign); ok {
					add(end, nearDays)
				}
			}
			if m := d.Minutes(); m > 0 {
				add(p.ticket.Now.Add(time.Duration(m)*time.Minute), 0)
			}
		}
	}
	return days
}

func daysBetween(a, b time.Time) int {
	n := int(a.Sub(b).Hours() / 24)
	return max(n, -n)
}

// timeFollows reports whether a time of day is now, or a supported duration away.
func (p *prepared) timeFollows(c text.Value) bool {
	now := clockOf(p.ticket.Now)
	if text.ClocksMeet(c.Amount, now, nearMinutes) {
		return true
	}
	for _, set := range p.sets() {
		for _, d := range set {
			if m := d.Minutes(); m > 0 && (text.ClocksMeet(c.Amount, now+m, nearMinutes) ||
				text.ClocksMeet(c.Amount, now-m, nearMinutes)) {
				return true
			}
		}
	}
	return false
}

func clockOf(t time.Time) int64 { return int64(t.Hour()*60 + t.Minute()) }

// spanFollows reports whether a duration is the number of days between now and a known day.
func (p *prepared) spanFollows(c text.Value) bool {
	today := startOfDay(p.ticket.Now)
	for _, t := range p.bases {
		n := int64(daysBetween(t, today))
		if n > 0 && c.Unit == text.Seconds && c.Amount == n*text.SecondsPerDay*1000 {
			return true
		}
		if end, ok := c.Shift(today, 1); ok && c.Unit == text.BusinessDays && end.Equal(t) {
			return true
		}
	}
	return false
}

// sets returns the sets of values from which a reply may compute others.
func (p *prepared) sets() [][]text.Value {
	out := make([][]text.Value, 0, 2+len(p.shelf))
	out = append(out, p.known, p.allowed)
	for _, e := range p.shelf {
		out = append(out, e.values)
	}
	return out
}

// between reports whether a duration is the time between two moments: now, what the ticket and its
// facts say, and what the reply says with their support. A number of hours may be rounded down.
func (p *prepared) between(d *text.Document, c text.Value) bool {
	m := c.Minutes()
	if c.Kind != text.DurationValue || m <= 0 {
		return false
	}
	clocks, days := []int64{clockOf(p.ticket.Now)}, []time.Time{startOfDay(p.ticket.Now)}
	for _, set := range [][]text.Value{p.known, d.Values} {
		for _, v := range set {
			switch {
			case v.Kind == text.ClockValue && p.supports(v):
				clocks = append(clocks, v.Amount)
			case v.Kind == text.DateValue && p.supports(v):
				days = append(days, v.Days(p.ticket.Now)...)
			}
		}
	}
	for i, a := range clocks {
		for _, b := range clocks[i+1:] {
			if long := (b - a + text.MinutesPerDay) % text.MinutesPerDay; isNearDuration(long, m) ||
				isNearDuration(text.MinutesPerDay-long, m) {
				return true
			}
		}
	}
	for i, a := range days {
		for _, b := range days[i+1:] {
			if m == int64(daysBetween(a, b))*text.MinutesPerDay {
				return true
			}
		}
	}
	return false
}

// isNearDuration reports whether a person would call the minutes between two moments a time of m
// minutes.
func isNearDuration(minutes, m int64) bool {
	return max(minutes-m, m-minutes) <= nearMinutes || m%60 == 0 && minutes >= m && minutes < m+60
}
