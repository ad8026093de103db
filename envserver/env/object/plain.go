package object

import "unicode/utf8"

// maxPlain bounds the depth of a plain object: a message, its action, a payload, facts, a fact.
const maxPlain = 5

// scanner reads plain objects, which nearly every client sends: their names and texts have no
// escapes, their numbers no exponents, and their other members are null, plain objects or lists of
// all these. It gives up on any other text, whether that is JSON or not.
type scanner struct {
	raw []byte
	at  int
}

// parsePlain reads the members of a plain object, or returns nil.
func parsePlain(raw []byte, repeats Repeats) Object {
	s, r := scanner{raw: raw}, reader{raw: raw, repeats: repeats, members: make(Object, 0, 4)}
	if !s.whole(&r) {
		return nil
	}
	return r.members
}

// IsPlain reports whether a text is a plain object, which is JSON whose names may repeat. The check
// is several times as fast as a general one.
func IsPlain(raw []byte) bool {
	s := scanner{raw: raw}
	return s.whole(nil)
}

// whole reads an object, whose members it stores in r unless that is nil, and nothing after it.
func (s *scanner) whole(r *reader) bool {
	if !s.next('{') || !s.object(maxPlain, r) {
		return false
	}
	s.skipBlanks()
	return s.at == len(s.raw)
}

func (s *scanner) skipBlanks() {
	for s.at < len(s.raw) {
		switch s.raw[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// next skips blanks, and the character if it follows them.
func (s *scanner) next(c byte) bool {
	s.skipBlanks()
	if s.at == len(s.raw) || s.raw[s.at] != c {
		return false
	}
	s.at++
	return true
}

// object reads the rest of an object, whose members it stores in r unless that is nil.
func (s *scanner) object(depth int, r *reader) bool {
	if s.next('}') {
		return true
	}
	for depth > 0 {
		name, ok := s.text()
		if !ok || !s.next(':') {
			return false
		}
		s.skipBlanks()
		from := s.at
		if !s.value(depth - 1) {
			return false
		}
		if r != nil && r.set(string(name), s.raw[from:s.at:s.at]) != nil {
			return false
		}
		if !s.next(',') {
			return s.next('}')
		}
	}
	return false
}

func (s *scanner) value(depth int) bool {
	if s.at == len(s.raw) {
		return false
	}
	switch s.raw[s.at] {
	case '"':
		_, ok := s.text()
		return ok
	case '{':
		s.at++
		return s.object(depth, nil)
	case '[':
		s.at++
		return s.list(depth)
	case 'n':
		from := s.at
		s.at = min(from+len("null"), len(s.raw))
		return string(s.raw[from:s.at]) == "null"
	default:
		return s.number()
	}
}

// list reads the rest of a list.
func (s *scanner) list(depth int) bool {
	if s.next(']') {
		return true
	}
	for depth > 0 {
		s.skipBlanks()
		if !s.value(depth - 1) {
			return false
		}
		if !s.next(',') {
			return s.next(']')
		}
	}
	return false
}

// text reads a text and returns what is between its quotes.
func (s *scanner) text() (inside []byte, ok bool) {
	if !s.next('"') {
		return nil, false
	}
	from, ascii := s.at, true
	for ; s.at < len(s.raw); s.at++ {
		switch c := s.raw[s.at]; {
		case c == '"':
			inside = s.raw[from:s.at]
			s.at++
			return inside, ascii || utf8.Valid(inside)
		case c < ' ' || c == '\\':
			return nil, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false
}

func (s *scanner) number() bool {
	from := s.at
	n := s.digits()
	if n == 0 || n > 1 && s.raw[from] == '0' {
		return false
	}
	if s.at < len(s.raw) && s.raw[s.at] == '.' {
		s.at++
		return s.digits() > 0
	}
	return true
}

// digits skips digits and returns their number.
func (s *scanner) digits() int {
	from := s.at
	for s.at < len(s.raw) && '0' <= s.raw[s.at] && s.raw[s.at] <= '9' {
		s.at++
	}
	return s.at - from
}
