package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// paragraph is the text of the token for a break between paragraphs or list items.
const paragraph = "\n"

// scanner cuts a folded text into tokens.
type scanner struct {
	text string
	lex  *Lexicon
	pos  int
	tok  Token
}

// next reads the next token into tok and reports whether there was one.
func (s *scanner) next() bool {
	glued := s.pos > 0
	if s.skipSpace() {
		glued = false
		if s.brokenLine() {
			s.tok = Token{Text: paragraph, Kind: PunctToken}
			return true
		}
	}
	if s.pos >= len(s.text) {
		return false
	}
	s.tok = s.scan()
	s.tok.glued = glued
	s.tok.prefilter = prefilterOf(s.tok.Text, s.tok.Key())
	return true
}

// skipSpace moves to the next visible character and reports whether it moved.
func (s *scanner) skipSpace() bool {
	from := s.pos
	for s.pos < len(s.text) && (s.text[s.pos] == ' ' || s.text[s.pos] == '\n') {
		s.pos++
	}
	return s.pos > from
}

// brokenLine reports whether the spaces just skipped are a paragraph's end: a blank line, or a line
// that starts a list item. Other line ends only wrap.
func (s *scanner) brokenLine() bool {
	back := s.pos
	lines := 0
	for back > 0 && (s.text[back-1] == ' ' || s.text[back-1] == '\n') {
		back--
		if s.text[back] == '\n' {
			lines++
		}
	}
	return lines > 1 || lines == 1 && s.pos < len(s.text) && s.listItem()
}

// listItem reports whether a bullet or an item's number starts here.
func (s *scanner) listItem() bool {
	rest := s.text[s.pos:]
	if strings.HasPrefix(rest, "- ") || strings.HasPrefix(rest, "* ") || strings.HasPrefix(rest, "•") {
		return true
	}
	n := digits(rest)
	return n > 0 && n < 3 && (strings.HasPrefix(rest[n:], ". ") || strings.HasPrefix(rest[n:], ") "))
}

// scan reads one token at pos.
func (s *scanner) scan() Token {
	c := s.text[s.pos]
	switch {
	case c >= '0' && c <= '9':
		return s.scanNumeric()
	case c >= 'a' && c <= 'z', c >= utf8.RuneSelf:
		return s.scanWord()
	}
	return s.mark(1)
}

// mark reads n bytes of punctuation.
func (s *scanner) mark(n int) Token {
	text := s.text[s.pos : s.pos+n]
	s.pos += n
	if text == "$" || text == "€" || text == "£" {
		return Token{Text: text, Kind: CurrencyToken}
	}
	return Token{Text: text, Kind: PunctToken}
}

// scanWord reads a word, an id or an address that starts with a letter.
func (s *scanner) scanWord() Token {
	if r, size := utf8.DecodeRuneInString(s.text[s.pos:]); !unicode.IsLetter(r) {
		return s.mark(size)
	}
	if n := addressLength(s.text[s.pos:]); n > 0 {
		return s.take(n, IDToken)
	}
	n := Letters(s.text[s.pos:])
	if m := idLength(s.text[s.pos:]); m > n {
		return s.take(m, IDToken)
	}
	from := s.pos
	if s.apostrophe(n) {
		n++
	}
	t := s.take(n, WordToken)
	t.Text = strings.TrimSuffix(t.Text, "'")
	t = s.lex.expand(t, from > 0 && s.text[from-1] == '\'')
	s.lex.look(&t)
	t.hash = hashWord(t.Text)
	return t
}

// apostrophe reports whether the word of n bytes is cut by an apostrophe that binds to it, as in
// "l'article" or "don't".
func (s *scanner) apostrophe(n int) bool {
	at := s.pos + n
	return at+1 < len(s.text) && s.text[at] == '\'' && Letters(s.text[at+1:]) > 0
}

func (s *scanner) take(n int, kind TokenKind) Token {
	t := Token{Text: s.text[s.pos : s.pos+n], Kind: kind}
	s.pos += n
	return t
}

// scanNumeric reads a date, a time, an id or a number that starts with a digit.
func (s *scanner) scanNumeric() Token {
	rest := s.text[s.pos:]
	for _, form := range []struct {
		length func(string) int
		kind   TokenKind
	}{{s.dateLength, DateToken}, {clockLength, ClockToken}, {addressLength, IDToken}, {digitIDLength, IDToken}} {
		if n := form.length(rest); n > 0 {
			return s.take(n, form.kind)
		}
	}
	n, value := s.lex.readNumber(rest)
	t := s.take(n, NumberToken)
	t.Value = value
	return t
}

// Letters counts the bytes of the letters that s starts with.
func Letters(s string) int {
	for i, r := range s {
		if r >= 'a' && r <= 'z' {
			continue
		}
		if r < utf8.RuneSelf || !unicode.IsLetter(r) {
			return i
		}
	}
	return len(s)
}

// digits counts the ASCII digits that s starts with.
func digits(s string) int {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}

// maxAddress is how long an e-mail address or link may be. Looking further would read a text
// without spaces over and over.
const maxAddress = 256

// addressLength returns the length of the e-mail address or link that s starts with, or 0.
func addressLength(s string) int {
	s = s[:min(len(s), maxAddress)]
	end := strings.IndexFunc(s, func(r rune) bool { return strings.ContainsRune(" \n,;()<>\"[]{}!?", r) })
	if end < 0 {
		end = len(s)
	}
	run := strings.TrimRight(s[:end], ".:'*")
	at := strings.IndexByte(run, '@')
	switch {
	case at > 0 && strings.IndexByte(run[at:], '.') > 1, strings.HasPrefix(run, "http") &&
		strings.Contains(run, "://"), strings.HasPrefix(run, "www."):
		return len(run)
	case strings.HasSuffix(run, ".example"), strings.Contains(run, ".example/"):
		return len(run)
	}
	return 0
}

// idLength returns the length of the id that s starts with: letters and digits, in groups that "-",
// "_", "#" or "/" may join, at least one of them a digit. It returns 0 when there is none.
func idLength(s string) int {
	end, hasDigit := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z':
			end = i + 1
		case c >= '0' && c <= '9':
			end, hasDigit = i+1, true
		case (c == '-' || c == '_' || c == '#') && end == i:
		default:
			return idEnd(end, hasDigit)
		}
	}
	return idEnd(end, hasDigit)
}

func idEnd(end int, hasDigit bool) int {
	if !hasDigit {
		return 0
	}
	return end
}

// digitIDLength is idLength for an id that starts with a digit. "48h", "5pm", "14th" and "30-day"
// are numbers with a unit, so letters must be followed by more digits. A run of seven or more
// digits is an id as well.
func digitIDLength(s string) int {
	n := idLength(s)
	d := digits(s)
	if n == d {
		if d >= 7 {
			return d
		}
		return 0
	}
	run := s[d:n]
	last := run[len(run)-1]
	hasLetter := strings.ContainsFunc(run, unicode.IsLetter)
	if last >= '0' && last <= '9' && (hasLetter || strings.Count(run, "-") == 1 && d+len(run) > 6) {
		return n
	}
	return 0
}

// dateLength returns the length of a date in digits (2026-03-14, 14.03.2026, 3/14/2026, and in
// German 14.3.) that text starts with, or 0.
func (s *scanner) dateLength(text string) int {
	n := dateLength(text, s.lex.Language == "de")
	if n == 0 {
		n = slashLength(text)
	}
	if n > 0 && digitDate(text[:n], s.lex.monthFirst) == 0 {
		return 0
	}
	return n
}

// slashLength returns the length of a day and a month (14/3) that s starts with, or 0. "24/7" is
// none.
func slashLength(s string) int {
	a := digits(s)
	if a == 0 || a > 2 || a >= len(s) || s[a] != '/' || strings.HasPrefix(s, "24/7") {
		return 0
	}
	b := digits(s[a+1:])
	n := a + 1 + b
	if b == 0 || b > 2 || n < len(s) && (s[n] == '/' || s[n] == '-' || Letters(s[n:]) > 0) {
		return 0
	}
	return n
}

func dateLength(s string, yearless bool) int {
	a := digits(s)
	if a == 0 || a >= len(s) || !strings.ContainsRune("-./", rune(s[a])) {
		return 0
	}
	sep := s[a]
	b := digits(s[a+1:])
	if b == 0 || b > 2 || a+1+b >= len(s) || s[a+1+b] != sep {
		return 0
	}
	c := digits(s[a+b+2:])
	n := a + b + c + 2
	if a == 4 && c > 0 && c <= 2 || a <= 2 && (c == 4 || c == 2) {
		return n
	}
	if yearless && a <= 2 && c == 0 && sep == '.' {
		return a + b + 2
	}
	return 0
}

// clockLength returns the length of a time of day (9:05, 23:59) that s starts with, or 0.
func clockLength(s string) int {
	a := digits(s)
	if a == 0 || a > 2 || a >= len(s) || s[a] != ':' {
		return 0
	}
	if b := digits(s[a+1:]); b != 2 {
		return 0
	}
	return a + 3
}
