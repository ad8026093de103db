package text

import (
	"slices"
	"strings"
)

// TokenKind is the kind of a token.
type TokenKind uint8

// The kinds of tokens.
const (
	WordToken TokenKind = iota
	// NumberToken is a decimal number; its value is in thousandths.
	NumberToken
	// IDToken is an identifier: INV-104233, KI-118, an e-mail address, a link.
	IDToken
	// DateToken and ClockToken are in digits: 2026-03-14, 23:59.
	DateToken
	ClockToken
	CurrencyToken
	PunctToken
)

// Token is a word, a number or a mark of a folded text.
type Token struct {
	Text    string
	Stem    string
	Kind    TokenKind
	classes WordClass
	heads   Phrases
	// root is the entry of a word's stem, or nil.
	root *root
	// hash is the hash of a word's text.
	hash      uint64
	prefilter prefilter
	// Value is the value of a number, or of a word that writes one, in thousandths.
	Value int64
	// glued tokens follow the one before without a space.
	glued bool
}

// IsWord reports whether the token is one of the given words.
func (t *Token) IsWord(words ...string) bool {
	return t.Kind == WordToken && slices.Contains(words, t.Text)
}

// Is reports whether the token is a word of one of the classes.
func (t *Token) Is(c WordClass) bool { return t.classes&c != 0 }

// StemIs reports whether the token is a word whose stem is of one of the classes.
func (t *Token) StemIs(c StemClass) bool { return t.root != nil && t.root.classes&c != 0 }

// groups returns the groups of synonyms that a word belongs to, a bit each.
func (t *Token) groups() uint64 {
	if t.root == nil {
		return 0
	}
	return t.root.groups
}

// Remedy returns the remedy that a word stands for, or "".
func (t *Token) Remedy() string {
	if t.root == nil {
		return ""
	}
	return t.root.remedy
}

// among reports whether the token is one of the given marks.
func (t *Token) among(marks string) bool { return strings.Contains(marks, t.Text) }

// Hash returns the hash of the token's text.
func (t *Token) Hash() uint64 {
	if t.Kind == WordToken {
		return t.hash
	}
	return hashWord(t.Text)
}

// hashWord is FNV-1a.
func hashWord(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// Remedial reports whether a word may be about a remedy.
func (t *Token) Remedial() bool {
	return t.Kind == WordToken && (t.Remedy() != "" || t.Is(Back) || t.StemIs(Returns))
}
