package text

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

func TestSentences(t *testing.T) {
	tests := map[string]struct {
		language, text string
		want           []string
	}{
		"marks": {"en", "One. Two! Three? Four", []string{"one .", "two !", "three ?", "four"}},
		"abbreviations": {"en", "See e.g. Mr. Smith, approx. 3 of them.",
			[]string{"see e . g . mr . smith , approx . 3 of them ."}},
		"decimals": {"en", "It costs $1.50. Good.", []string{"it costs $ 1.50 .", "good ."}},
		"versions": {"en", "Use Zigbee 3.0. Then restart.",
			[]string{"use zigbee 3.0 .", "then restart ."}},
		"addresses": {"en", "Write to a.b@acme.example. Thanks.",
			[]string{"write to a.b@acme.example .", "thanks ."}},
		"paragraphs":    {"en", "Hello Maria\n\nall is well", []string{"hello maria \n", "all is well"}},
		"wrapped lines": {"en", "all is\nwell", []string{"all is well"}},
		"list": {"en", "Do this:\n- one thing\n- another\n1. third",
			[]string{"do this : \n", "- one thing \n", "- another \n", "1 .", "third"}},
		"contraction":      {"en", "We'll see, it isn't here.", []string{"we will see , it isn not here ."}},
		"ellipsis":         {"en", "Well... yes.", []string{"well . . .", "yes ."}},
		"German dates":     {"de", "Am 14. März kommt es. Gut.", []string{"am 14 . marz kommt es .", "gut ."}},
		"German digits":    {"de", "Am 14.3. kommt es. Gut.", []string{"am 14.3. kommt es .", "gut ."}},
		"Spanish question": {"es", "¿Qué hago? Nada.", []string{"¿ que hago ?", "nada ."}},
		"French elision": {"fr", "L'adresse n'est pas là. Merci.",
			[]string{"l adresse n est pas la .", "merci ."}},
		"French space and marks": {"fr", "Bonjour ! Ça va ?", []string{"bonjour !", "ca va ?"}},
		"nothing":                {"en", "", nil},
	}
	lexicons := loadLexicons()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := Parse(Fold(Normalise(tc.text)), lexicons[tc.language])
			if diff := cmp.Diff(strings.Join(tc.want, " "), joined(d.Tokens)); diff != "" {
				t.Errorf("tokens (-want +got):\n%s", diff)
			}
			if got := d.CountSentences(); got != len(tc.want) {
				t.Errorf("%d sentences, want %d", got, len(tc.want))
			}
		})
	}
}

func joined(tokens []Token) string {
	texts := make([]string, len(tokens))
	for i, t := range tokens {
		texts[i] = t.Text
	}
	return strings.Join(texts, " ")
}

func TestFold(t *testing.T) {
	for text, want := range map[string]string{
		"Rückerstattung": "ruckerstattung", "ÉCRIT": "ecrit", "Größe": "grosse", "cœur": "coeur", "mañana": "manana",
		"Plain": "plain", "e\u0301": "e",
		"re\u00adfund": "refund", "re\u200dfund": "refund", "ｒｅｆｕｎｄ": "refund", "“we’ll”": `"we'll"`, "3–5": "3-5",
		"a\u00a0b": "a b", "a\tb": "a b",
	} {
		if got := Fold(Normalise(text)); got != want {
			t.Errorf("%q folds to %q, want %q", text, got, want)
		}
	}
}

func TestNormalise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		once := Normalise(s)
		if !utf8.ValidString(once) {
			t.Errorf("%q became %q", s, once)
		}
		if twice := Normalise(once); twice != once {
			t.Errorf("normalising %q again gives %q", once, twice)
		}
	})
	if n := utf8.RuneCountInString(NormaliseReply(strings.Repeat("aé ", MaxReplyRunes))); n != MaxReplyRunes {
		t.Errorf("a long reply kept %d characters", n)
	}
}

// A text that is left as it is has only characters that are their own plain form.
func TestPlainTextsAreNormal(t *testing.T) {
	for c := range rune(0x250) {
		if s := "a" + string(c) + "b"; isPlain(s) && strings.Map(toPlainRune, norm.NFKC.String(strings.Map(toPlainRune, s))) != s {
			t.Errorf("%q isn't normal", s)
		}
	}
	if isPlain("\xff") || isPlain("é") || isPlain("a\tb") || !isPlain("A plain text,\nin two lines.") {
		t.Error("isPlain is wrong")
	}
}

// loadLexicons reads the lexicons of all languages.
func loadLexicons() map[string]*Lexicon {
	all := map[string]*Lexicon{}
	for _, language := range Languages() {
		all[language] = LoadLexicon(language)
	}
	return all
}

// Characters that normalisation makes longer don't make a text longer than the judge reads.
func TestBoundCountsNormalisedCharacters(t *testing.T) {
	for _, character := range []string{"x", "…", "\ufdfa"} {
		if n := utf8.RuneCountInString(NormaliseReply(strings.Repeat(character, MaxReplyRunes))); n < MaxReplyRunes ||
			n > maxNormalisedRunes {
			t.Errorf("%q: %d characters", character, n)
		}
	}
}
