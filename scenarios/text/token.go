package text

import (
	"slices"
	"strings"
)

// TokenKind is the kind of a token.
type TokenKind uint8

// The kinds of tokens.
const (
	WordToken   TokenKind = iota
	NumberToken           // a decimal number; its value is in thousandths
	IDToken               // an identifier: INV-104233, KI-118, an e-mail address, a link
	DateToken             // in digits: 2026-03-14; its value is yyyymmdd
	ClockToken
	CurrencyToken
	PunctToken
)

// Token is a word, a number or a mark of a folded text.
type Token struct {
	Text    string
	Kind    TokenKind
	classes WordClass
	Value   int64 // of a date, or in thousandths of a number or a number word
	glued   bool  // the token follows the one before without a space
}

// IsWord reports whether the token is one of the given words.
func (t *Token) IsWord(words ...string) bool {
	return t.Kind == WordToken && slices.Contains(words, t.Text)
}

// Is reports whether the token is a word of one of the classes.
func (t *Token) Is(c WordClass) bool { return t.classes&c != 0 }

// among reports whether the token is one of the given marks.
func (t *Token) among(marks string) bool { return strings.Contains(marks, t.Text) }
