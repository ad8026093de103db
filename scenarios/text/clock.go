package text

import "strings"

// readHourWord reads a time of day with "Uhr" or "o'clock" at token j after the number i, such as
// "16 Uhr 30".
func (r *valueReader) readHourWord(i, j int) Value {
	c := Value{Kind: ClockValue, Amount: clockMinutes(r.at(i).Value), At: Span{i, j + 1}}
	if r.at(j).Text == "o" {
		c.At.Hi++
	} else if m := r.at(j + 1); m.Kind == NumberToken && len(m.Text) == 2 && m.Value < 60_000 {
		c.Amount, c.At.Hi = c.Amount+m.Value/1000, j+2
	}
	if d, ok := r.readDayPart(c.Amount, i, c.At.Hi); ok {
		return d
	}
	return c
}

// readHour reads a time of day with an hour at token j after the number i: "à 13 h", "13 h 15", "8
// heures du soir".
func (r *valueReader) readHour(i, j int) (Value, bool) {
	hour := r.at(i).Value
	if r.lex.units[r.at(j).Text].length != 3600 || hour >= 24_000 {
		return Value{}, false
	}
	if d, ok := r.readDayPart(clockMinutes(hour), i, j+1); ok {
		return d, true
	}
	if !r.at(j).IsWord("h") || r.lex.Language == "en" || r.lex.Language == "de" {
		return Value{}, false
	}
	c := Value{Kind: ClockValue, Amount: clockMinutes(hour), At: Span{i, j + 1}}
	if m := r.at(j + 1); m.Kind == NumberToken && len(m.Text) == 2 && m.Value < 60_000 && hour%1000 == 0 {
		c.Amount, c.At.Hi = c.Amount+m.Value/1000, j+2
		return c, true
	}
	point := strings.HasSuffix(r.at(i).Text, ".00") || strings.HasSuffix(r.at(i).Text, ".30") // "20.00 h"
	return c, point || i > 0 && r.at(i-1).IsWord("a")
}

// readDayPart reads the half of the day after a time, which ends before token j: "pm", "a.m.", "in
// the evening", "de la tarde", "du soir", "abends". A quarter or half of an hour may stand before
// it: "8 y media de la tarde".
func (r *valueReader) readDayPart(minutes int64, i, j int) (Value, bool) {
	switch t := r.at(j); {
	case minutes > 24*60:
		return Value{}, false
	case t.IsWord("am", "pm") && r.lex.halves[r.at(j+1).Text] == "":
		return newClockValue(minutes, t.Text, Span{i, j + 1}), true
	case t.IsWord("a", "p") && r.at(j+2).IsWord("m"):
		return newClockValue(minutes, t.Text+"m", Span{i, j + 3}), true
	}
	if sign, k := int64(1), j+1; r.at(j).IsWord("y", "et", "menos", "moins") {
		if r.at(j).IsWord("menos", "moins") {
			sign = -1
		}
		if r.at(k).IsWord("le") {
			k++
		}
		if part := r.lex.fractions[r.at(k).Text]; part > 0 {
			minutes, j = minutes+sign*part*60/1000, k+1
		}
	}
	for k := j; k < j+4; k++ {
		half := r.lex.halves[r.at(k).Text]
		switch {
		case half == "night" && minutes < 5*60, half == "night" && minutes >= 12*60 && minutes < 13*60:
			return newClockValue(minutes, "am", Span{i, k + 1}), true
		case half == "night":
			return newClockValue(minutes, "pm", Span{i, k + 1}), true
		case half != "":
			if r.at(k+1).Text == "-" && r.at(k+2).IsWord("midi") { // "après-midi"
				k += 2
			}
			return newClockValue(minutes, half, Span{i, k + 1}), true
		case !r.at(k).IsWord("o", "clock", "in", "the", "at", "de", "la", "du", "l", "am", "por"):
			return Value{}, false
		}
	}
	return Value{}, false
}

// readSpokenTime reads "half past eight", "a quarter to 4", "halb fünf", "Viertel nach vier".
func (r *valueReader) readSpokenTime(i int) (Value, bool) {
	j, minutes := i+2, int64(0)
	switch t, side := r.at(i), r.at(i+1); {
	case t.IsWord("halb"):
		j, minutes = i+1, -30
	case t.IsWord("half") && side.IsWord("past"):
		minutes = 30
	case t.IsWord("quarter", "viertel") && side.IsWord("past", "nach"):
		minutes = 15
	case t.IsWord("quarter", "viertel") && side.IsWord("to", "vor"):
		minutes = -15
	default:
		return Value{}, false
	}
	hour := r.at(j)
	if hour.Kind > NumberToken || hour.Value < 1000 || hour.Value > 12_000 {
		return Value{}, false
	}
	minutes += clockMinutes(hour.Value)
	if c, ok := r.readDayPart(minutes, i, j+1); ok {
		return c, true
	}
	return Value{Kind: ClockValue, Amount: minutes, At: Span{i, j + 1}}, true
}

// readHourID reads "17h30", which looks like an id.
func (r *valueReader) readHourID(s string, i int) (Value, bool) {
	h, m, ok := strings.Cut(s, "h")
	if !ok || countDigits(h) != len(h) || len(h) > 2 || countDigits(m) != 2 || len(m) != 2 || h == "" ||
		parseDigits(h) > 23 || parseDigits(m) > 59 {
		return Value{}, false
	}
	hi := i + 1
	if r.at(hi).IsWord("m", "min") {
		hi++
	}
	return Value{Kind: ClockValue, Amount: 60*parseDigits(h) + parseDigits(m), At: Span{i, hi}}, true
}
