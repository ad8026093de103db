package facts

import (
	"slices"
	"strings"
	"time"

	"github.com/csenv/csenv/scenarios/text"
)

// Message is a message to the customer, in which values are looked for. Nothing else of it is read.
type Message struct {
	context *Context
	doc     *text.Document
	values  []text.Value
	// words are its words and numbers without articles.
	words string
	teams []string
	// Foreign is set if the message is in another language than the customer's.
	Foreign bool
}

// NewMessage reads a message. If it isn't in the customer's language, it is read as English.
func (c *Context) NewMessage(s string) *Message {
	m := c.readMessage(s, c.lexicons[0])
	if m.Foreign = !m.doc.InLanguage(); m.Foreign && len(c.lexicons) > 1 {
		m.doc, m.values = c.parse(clean(s), c.lexicons[1])
	}
	return m
}

func (c *Context) readMessage(s string, lex *text.Lexicon) *Message {
	cleaned := clean(s)
	m := &Message{context: c, teams: teamsIn(cleaned), words: strings.Join(significantWords(cleaned), " ")}
	m.doc, m.values = c.parse(cleaned, lex)
	return m
}

// Quote reads a part of the message as the message was read.
func (m *Message) Quote(s string) *Message { return m.context.readMessage(s, m.doc.Lexicon) }

// Sentences is the number of its sentences, and of its items of lists.
func (m *Message) Sentences() int { return m.doc.CountSentences() }

// Words is the number of its words, numbers and ids.
func (m *Message) Words() int { return m.doc.CountWords() }

// IsEmpty reports whether the message has neither words nor values.
func (m *Message) IsEmpty() bool { return m.Words() == 0 }

// has reports whether the value stands in the message in some usual form of its type. Enums other
// than teams aren't looked for, because only a reader of prose could find them.
func (m *Message) has(v *value) bool {
	switch v.of.Type {
	case Enum:
		return v.of.What != "team" || slices.Contains(m.teams, v.key)
	case ID:
		return m.hasID(v.key)
	case Text:
		if v.key != "" && hasWords(m.words, v.key) {
			return true
		}
	case Amount, When, Duration, Number:
	}
	return slices.ContainsFunc(v.readings, func(r text.Value) bool {
		return slices.ContainsFunc(m.values, func(other text.Value) bool {
			return isOf(v.of.Type, other) && m.context.same(r, other)
		})
	})
}

// hasID reports whether the letters and digits of an id stand in the message, whatever separates
// them.
func (m *Message) hasID(key string) bool {
	for i := range m.doc.Tokens {
		var run strings.Builder
		for k := i; k < len(m.doc.Tokens) && run.Len() < len(key); k++ {
			part := text.LettersAndDigits(m.doc.Tokens[k].Text)
			if part == "" && k == i {
				break
			}
			run.WriteString(part)
			if k == i && len(part) >= 5 && text.SameID(part, key) {
				return true
			}
		}
		if run.String() == key && key != "" {
			return true
		}
	}
	return false
}

// States reports whether a value of a fact stands in the message in some usual form of its type.
func (m *Message) States(w Wanted) bool {
	name, known := Find(w.What)
	return known && slices.ContainsFunc(w.Values, func(s string) bool {
		v := m.context.read(name, s)
		if name.Type == Text { // Its number alone, as that of a house, doesn't name it.
			return v.key != "" && hasWords(m.words, v.key)
		}
		return m.has(&v)
	})
}

// Document is the message with its tokens.
func (m *Message) Document() *text.Document { return m.doc }

// Stray returns the first value of the message that is neither one of the facts nor one of the
// texts, as it is written, or "".
func (m *Message) Stray(of []Wanted, texts []*Message) string {
	known := valuesOf(m.context.readAll(of))
	covered := m.cover(of)
	for _, q := range m.doc.Cues() { // "un neuf" isn't nine
		covered = append(covered, q.At)
	}
	for _, t := range texts {
		known = text.AppendNew(known, t.values)
		for _, v := range t.values {
			if v.Kind == text.IDValue {
				covered = append(covered, m.spansOf(v.ID)...)
			}
		}
	}
	for i, v := range m.values {
		switch {
		case slices.ContainsFunc(covered, func(s text.Span) bool { return s.Lo <= v.At.Lo && v.At.Hi <= s.Hi }):
		case i >= len(m.doc.Values) && (v.Kind != text.DateValue || m.isDayOf(v, known)):
		case !text.Contains(known, v):
			return m.doc.Quote(v.At)
		}
	}
	return ""
}

// isDayOf reports whether a weekday's name is that of one of the known days.
func (m *Message) isDayOf(v text.Value, known []text.Value) bool {
	weekday, ok := m.doc.Lexicon.Weekday(m.doc.Tokens[v.At.Lo].Text)
	return ok && slices.ContainsFunc(known, func(k text.Value) bool {
		return slices.ContainsFunc(k.Days(m.context.now), func(day time.Time) bool { return day.Weekday() == weekday })
	})
}

// cover returns where names and ids of facts stand: their digits state no other value.
func (m *Message) cover(of []Wanted) (spans []text.Span) {
	for _, w := range of {
		if name, known := Find(w.What); known && (name.Type == ID || name.Type == Text) {
			for _, s := range w.Values {
				spans = append(spans, m.spansOf(text.LettersAndDigits(clean(s)))...)
			}
		}
	}
	return spans
}

// spansOf returns the runs of tokens with these letters and digits.
func (m *Message) spansOf(key string) (spans []text.Span) {
	for i := range m.doc.Tokens {
		run := ""
		for k := i; k < len(m.doc.Tokens) && len(run) < len(key); k++ {
			if run += text.LettersAndDigits(m.doc.Tokens[k].Text); run == "" {
				break
			}
			if run == key {
				spans = append(spans, text.Span{Lo: i, Hi: k + 1})
			}
		}
	}
	return spans
}
