package text

import (
	"slices"
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
		"ellipsis":         {"en", "Well... yes.", []string{"well .", "yes ."}},
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
			var got []string
			for _, s := range d.Sentences {
				got = append(got, joined(d.Tokens[s.Lo:s.Hi]))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("sentences (-want +got):\n%s", diff)
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

func TestClauses(t *testing.T) {
	tests := map[string]struct {
		language, text string
		want           []string
	}{
		"commas": {"en", "As I said, we will refund you.", []string{"as i said ,", "we will refund you ."}},
		"conjunctions": {"en", "I checked and we refund it because it is late.",
			[]string{"i checked", "and we refund it", "because it is late ."}},
		"brackets": {"en", "The sum (all of it) is back: good", []string{"the sum (", "all of it )", "is back :",
			"good"}},
		"dashes": {"en", "It is late - sorry, a well-known fault",
			[]string{"it is late -", "sorry ,", "a well - known fault"}},
		"German": {"de", "Wir prüfen es, weil es fehlt, und melden uns.",
			[]string{"wir prufen es ,", "weil es fehlt ,", "und melden uns ."}},
		"Spanish": {"es", "Lo revisé y le escribo.", []string{"lo revise", "y le escribo ."}},
		"French":  {"fr", "Je vérifie et je vous écris.", []string{"je verifie", "et je vous ecris ."}},
	}
	lexicons := loadLexicons()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := Parse(Fold(Normalise(tc.text)), lexicons[tc.language])
			var got []string
			for _, c := range d.spans {
				got = append(got, joined(d.Tokens[c.Lo:c.Hi]))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("clauses (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSpansAreFoundByToken compares the look-ups with a linear search.
func TestSpansAreFoundByToken(t *testing.T) {
	lex := LoadLexicon("en")
	d := Parse(Fold(Normalise("Hello Maria,\n\nthank you for the clear figures, they help. It was $5.00, or 5 days, "+
		"on 3 May. Gone.")), lex)
	d.Sentences = append(d.Sentences[:1:1], d.Sentences[2:]...)
	for i := range d.Tokens {
		wantSentence, wantClause, wantClaim := Span{i, i + 1}, Span{i, i + 1}, false
		for _, s := range d.Sentences {
			if i >= s.Lo && i < s.Hi {
				wantSentence = s
			}
		}
		for _, c := range d.spans {
			if i >= c.Lo && i < c.Hi {
				wantClause = c
			}
		}
		for _, c := range d.Values {
			wantClaim = wantClaim || i >= c.At.Lo && i < c.At.Hi
		}
		if d.SentenceOf(i) != wantSentence || d.ClauseOf(i) != wantClause || d.InValue(i) != wantClaim {
			t.Errorf("token %d: sentence %v, clause %v, claimed %v; want %v, %v, %v", i, d.SentenceOf(i), d.ClauseOf(i),
				d.InValue(i), wantSentence, wantClause, wantClaim)
		}
	}
	for _, s := range d.Sentences {
		want := 0
		for _, c := range d.Values {
			if c.At.Lo >= s.Lo && c.At.Hi <= s.Hi {
				want++
			}
		}
		if got := len(d.ValuesWithin(s)); got != want {
			t.Errorf("%d claims within %v, want %d", got, s, want)
		}
	}
}

func TestStems(t *testing.T) {
	// The words of a line share a stem, and words of different lines don't.
	tests := map[string][]string{
		"en": {"escalate escalated escalates escalating escalation", "refund refunds refunded refunding",
			"deliver delivered delivery deliveries", "pay paid pays paying", "sent send sends sending",
			"password passwords", "pass passed passing"},
		"de": {"erstattung erstatten erstattet", "prufung prufen pruft", "rechnung rechnungen", "zahlen zahlt zahlung"},
		"es": {"reembolso reembolsos", "pago pagos", "factura facturas", "camara camaras"},
		"fr": {"remboursement remboursements", "adresse adresses", "compte comptes", "lien liens"},
	}
	lexicons := loadLexicons()
	for language, lines := range tests {
		seen := map[string]string{}
		for _, line := range lines {
			words := strings.Fields(line)
			stem := lexicons[language].stemOf(words[0])
			for _, w := range words {
				if got := lexicons[language].stemOf(w); got != stem {
					t.Errorf("%s: %s has the stem %q, but %s has %q", language, words[0], stem, w, got)
				}
			}
			if other, ok := seen[stem]; ok {
				t.Errorf("%s: %s and %s share the stem %q", language, other, words[0], stem)
			}
			seen[stem] = words[0]
		}
	}
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
	if text, whole := NormaliseReply(strings.Repeat("aé ", MaxReplyRunes)); whole ||
		utf8.RuneCountInString(text) != MaxReplyRunes {
		t.Errorf("a long reply kept %d characters (whole: %v)", utf8.RuneCountInString(text), whole)
	}
}

// A document that is used again holds nothing of the text before.
func TestDocumentsAreUsedAgain(t *testing.T) {
	lex := LoadLexicon("en")
	texts := []string{
		"we refund $26.40 within 5 days. do you agree?\n\n- call 555 0100, or write", "no.", "",
		"the parcel (no. 12) is late: it left on 2026-03-14, at 9:05; \"sorry\"",
	}
	var again Document
	for _, text := range slices.Concat(texts, texts) {
		again.Parse(text, lex)
		again.Clauses()
		fresh := Parse(text, lex)
		fresh.Clauses()
		for name, same := range map[string]bool{
			"tokens":    slices.Equal(again.Tokens, fresh.Tokens),
			"sentences": slices.Equal(again.Sentences, fresh.Sentences),
			"spans":     slices.Equal(again.spans, fresh.spans),
			"clauses":   len(again.Clauses()) == len(fresh.Clauses()),
			"values":    slices.Equal(again.Values, fresh.Values),
		} {
			if !same {
				t.Errorf("%q: the %s differ", text, name)
			}
		}
		n := 0
		for token := range Tokens(text, lex) {
			if *token != fresh.Tokens[n] {
				t.Errorf("%q: token %d is %+v, want %+v", text, n, *token, fresh.Tokens[n])
			}
			n++
		}
		if n != len(fresh.Tokens) {
			t.Errorf("%q: %d tokens, want %d", text, n, len(fresh.Tokens))
		}
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

// The items of a list share its introduction, also after sentences were set aside.
func TestItemsShareTheirIntroduction(t *testing.T) {
	d := Parse(Fold("Please do this.\n\n1. Restart it.\n\n- a cable\n\n2. Wait.\n\nThen call us again today, at the office.\n\n- now"),
		loadLexicons()["en"])
	subjects := func() (got []string) {
		for i := range d.Sentences {
			s := d.Subject(i)
			if s.Hi == 0 {
				got = append(got, "")
			} else {
				got = append(got, d.Tokens[s.Lo].Text)
			}
		}
		return got
	}
	before := subjects()
	for i := range d.Sentences {
		want := -1
		for k := i - 1; k >= 0 && want < 0; k-- {
			if !d.listed(d.Sentences[k]) && d.CountWords(d.Sentences[k]) > 0 {
				want = k
			}
		}
		if got := d.introduction(i); got != want {
			t.Errorf("sentence %d is introduced by %d, want %d; subjects %q", i, got, want, before)
		}
	}
	d.SetAside(func(s Span) bool { return d.Tokens[s.Lo].Text == "please" })
	for i, got := range subjects() {
		if got == "please" {
			t.Errorf("sentence %d continues one that was set aside", i)
		}
	}
}
