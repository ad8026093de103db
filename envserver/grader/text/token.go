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
	Text      string
	Stem      string
	Kind      TokenKind
	classes   WordClass
	heads     Phrases
	root      *root  // the entry of a word's stem, or nil
	hash      uint64 // the hash of a word's text
	keyHash   uint64
	prefilter prefilter
	Value     int64 // of a date, or in thousandths of a number or a number word
	glued     bool  // the token follows the one before without a space
}

// IsWord reports whether the token is one of the given words.
func (t *Token) IsWord(words ...string) bool {
	return t.Kind == WordToken && slices.Contains(words, t.Text)
}

// Is reports whether the token is a word of one of the classes.
func (t *Token) Is(c WordClass) bool { return t.classes&c != 0 }

// StemIs reports whether the token is a word whose stem is of one of the classes.
func (t *Token) StemIs(c StemClass) bool { return t.root != nil && t.root.classes&c != 0 }

// groups returns the groups of synonyms of a word, one bit each.
func (t *Token) groups() uint64 {
	if t.root == nil {
		return 0
	}
	return t.root.groups
}

// Remedy returns the remedy of a word, or "".
func (t *Token) Remedy() string {
	if t.root == nil {
		return ""
	}
	return t.root.remedy
}

// among reports whether the token is one of the given marks.
func (t *Token) among(marks string) bool { return strings.Contains(marks, t.Text) }

// Separates reports whether the token is a mark between the parts of a list.
func (t *Token) Separates() bool { return t.Kind == PunctToken && t.among(",;|/•") }

// Hash returns the hash of the token's text.
func (t *Token) Hash() uint64 {
	if t.Kind == WordToken {
		return t.hash
	}
	return Hash(HashSeed, t.Text)
}

// KeyHash returns the hash of the token's key.
func (t *Token) KeyHash() uint64 { return t.keyHash }

// HashSeed is the hash of the empty text.
const HashSeed uint64 = 14695981039346656037

// Hash continues a hash (FNV-1a) with a text.
func Hash(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// Remedial reports whether a word may be about a remedy.
func (t *Token) Remedial() bool {
	return t.Kind == WordToken && (t.Remedy() != "" || t.Is(Back) || t.StemIs(Returns))
}
