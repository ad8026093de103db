package text

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// paragraph is the text of the token for a break between paragraphs or list items.
const paragraph = "\n"

// scanner splits a folded text into tokens.
type scanner struct {
	text string
	lex  *Lexicon
	pos  int
	tok  Token
}

// next reads the next token into tok and reports whether there was one.
func (s *scanner) next() bool {
	from := s.pos
	for s.pos < len(s.text) && (s.text[s.pos] == ' ' || s.text[s.pos] == '\n') {
		s.pos++
	}
	if s.endsParagraph(from) {
		s.tok = Token{Text: paragraph, Kind: PunctToken}
		return true
	}
	if s.pos >= len(s.text) {
		return false
	}
	glued := s.pos == from && s.pos > 0
	s.tok = s.scan()
	s.tok.glued = glued
	return true
}

// endsParagraph reports whether the white space from the position on holds a blank line, or a line
// end before a list item. Other line ends only wrap.
func (s *scanner) endsParagraph(from int) bool {
	lines := strings.Count(s.text[from:s.pos], "\n")
	return lines > 1 || lines == 1 && s.listItem()
}

// listItem reports whether a bullet or an item's number starts here.
func (s *scanner) listItem() bool {
	rest := s.text[s.pos:]
	if strings.HasPrefix(rest, "- ") || strings.HasPrefix(rest, "* ") || strings.HasPrefix(rest, "•") {
		return true
	}
	n := countDigits(rest)
	return n > 0 && n < 3 && (strings.HasPrefix(rest[n:], ". ") || strings.HasPrefix(rest[n:], ") "))
}

func (s *scanner) scan() Token {
	c := s.text[s.pos]
	switch {
	case c >= '0' && c <= '9':
		return s.scanNumeric()
	case c == '.' && s.startsFraction():
		n, value := s.lex.readNumber("0" + s.text[s.pos:])
		return s.take(n-1, NumberToken, value)
	case c == 't' && s.pos > 0 && countDigits(s.text[s.pos-1:]) > 0 && clockLength(s.text[s.pos+1:]) > 0:
		s.pos++ // "2026-04-07T18:00:00Z"
		return s.scanNumeric()
	case c >= 'a' && c <= 'z', c >= utf8.RuneSelf:
		return s.scanWord()
	}
	return s.mark(1)
}

// startsFraction reports whether a number without digits before its point starts here: "$.80".
func (s *scanner) startsFraction() bool {
	rest := s.text[s.pos+1:]
	n := countDigits(rest)
	return n > 0 && n < 3 && (n == len(rest) || strings.IndexByte(" \n,;)", rest[n]) >= 0) &&
		(s.pos == 0 || strings.IndexByte(" $(", s.text[s.pos-1]) >= 0)
}

func (s *scanner) mark(n int) Token {
	t := s.take(n, PunctToken, 0)
	if t.Text == "$" || t.Text == "€" || t.Text == "£" {
		t.Kind = CurrencyToken
	}
	return t
}

// scanWord reads a word, an id or an address that starts with a letter.
func (s *scanner) scanWord() Token {
	if r, size := utf8.DecodeRuneInString(s.text[s.pos:]); !unicode.IsLetter(r) {
		return s.mark(size)
	}
	from, rest := s.pos, s.text[s.pos:]
	n := CountLetters(rest)
	if n == 3 && n < len(rest) && (strings.HasPrefix(rest, "usd") || strings.HasPrefix(rest, "eur")) &&
		countDigits(rest[n:]) > 0 { // "USD135"
		return s.word(s.take(n, WordToken, 0))
	}
	if n < len(rest) && rest[n] == '-' {
		if m, date := s.lex.readNamedDate(rest); m > 0 {
			return s.take(m, DateToken, date)
		}
	}
	// Letters alone are neither an address nor an id.
	if n < len(rest) && strings.IndexByte(addressEnds, rest[n]) < 0 {
		if m := addressLength(rest); m > 0 {
			return s.take(m, IDToken, 0)
		}
		if m := idLength(rest); m > n {
			return s.take(m, IDToken, 0)
		}
	}
	// An apostrophe belongs to the word before it in "l'article" and "don't".
	if at := from + n; at+1 < len(s.text) && s.text[at] == '\'' && CountLetters(s.text[at+1:]) > 0 {
		n++
	}
	t := s.take(n, WordToken, 0)
	t.Text = strings.TrimSuffix(t.Text, "'")
	t = s.lex.expand(t, from > 0 && s.text[from-1] == '\'')
	return s.word(t)
}

// word adds what the lexicon knows of a word.
func (s *scanner) word(t Token) Token {
	if w := s.lex.words[t.Text]; w != nil {
		t.classes, t.Value = w.classes, w.value
	}
	return t
}

// expand expands the ending of a contraction, so that "can't" contains "not".
func (lex *Lexicon) expand(t Token, glued bool) Token {
	if full, ok := lex.expansions[t.Text]; ok && glued {
		t.Text = full
	}
	return t
}

func (s *scanner) take(n int, kind TokenKind, value int64) Token {
	t := Token{Text: s.text[s.pos : s.pos+n], Kind: kind, Value: value}
	s.pos += n
	return t
}

// scanNumeric reads a date, a time, an id or a number that starts with a digit.
func (s *scanner) scanNumeric() Token {
	rest := s.text[s.pos:]
	before := strings.TrimRight(s.text[:s.pos], " ")
	money := strings.HasSuffix(before, "$") || strings.HasSuffix(before, "€") // "$14.04." at a sentence's end
	if n, date := s.lex.readDate(rest); n > 0 && !money {
		return s.take(n, DateToken, date)
	}
	if n := clockLength(rest); n > 0 {
		return s.take(n, ClockToken, 0)
	}
	if n, date := s.lex.readNamedDate(rest); n > 0 {
		return s.take(n, DateToken, date)
	}
	if n := cmp.Or(addressLength(rest), digitIDLength(rest)); n > 0 {
		return s.take(n, IDToken, 0)
	}
	n, value := s.lex.readNumber(rest)
	return s.take(n, NumberToken, value)
}

// CountLetters counts the bytes of the letters that s starts with.
func CountLetters(s string) int {
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

func countDigits(s string) int {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}

// maxAddress is the maximum length of an e-mail address or link, so that scanning a text without
// spaces takes linear time.
const maxAddress = 256

// addressEnds are the characters that end an e-mail address, a link or an id.
const addressEnds = " \n,;()<>\"[]{}!?"

// addressLength returns the length of the e-mail address or link that s starts with, or 0.
func addressLength(s string) int {
	s = s[:min(len(s), maxAddress)]
	end := strings.IndexAny(s, addressEnds)
	if end < 0 {
		end = len(s)
	}
	run := strings.TrimRight(s[:end], ".:'*")
	at := strings.IndexByte(run, '@')
	switch {
	case at > 0 && strings.IndexByte(run[at:], '.') > 1, strings.HasPrefix(run, "www."),
		strings.HasPrefix(run, "http") && strings.Contains(run, "://"),
		strings.HasSuffix(run, ".example"), strings.Contains(run, ".example/"):
		return len(run)
	}
	return 0
}

// idLength returns the length of the id that s starts with: letters and digits, at least one of
// them a digit, in groups that "-", "_" or "#" may join. It returns 0 if s doesn't start with an
// id.
func idLength(s string) int {
	end, hasDigit := 0, false
	for i := 0; i < len(s); i++ {
		c := s[i]
		digit := c >= '0' && c <= '9'
		if digit || c >= 'a' && c <= 'z' {
			end, hasDigit = i+1, hasDigit || digit
		} else if c != '-' && c != '_' && c != '#' || end != i {
			break
		}
	}
	if !hasDigit {
		return 0
	}
	return end
}

// digitIDLength is idLength for an id that starts with a digit: a run of seven or more digits, or
// one in which digits follow the letters, unlike "48h", "5pm", "14th" and "30-day".
func digitIDLength(s string) int {
	n := idLength(s)
	d := countDigits(s)
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

// clockLength returns the length of a time of day (9:05, 23:59) that s starts with, or 0.
func clockLength(s string) int {
	a := countDigits(s)
	if a == 0 || a > 2 || a >= len(s) || s[a] != ':' || countDigits(s[a+1:]) != 2 {
		return 0
	}
	return a + 3
}
