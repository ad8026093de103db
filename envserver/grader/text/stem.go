package text

import "strings"

// stemOf removes a word's inflection, so that "escalated", "escalates" and "escalation" have one
// stem. It is approximate: the forms of one word must share a stem, and few other words may.
func (lex *Lexicon) stemOf(w string) string {
	if base, ok := lex.irregular[w]; ok {
		w = base
	}
	switch lex.Language {
	case "en":
		return stemEnglish(w)
	case "de":
		return stemGerman(w)
	}
	return stemRomance(w)
}

// trimSuffix strips the first of the suffixes that leaves at least rest bytes.
func trimSuffix(w string, rest int, suffixes ...string) string {
	for _, s := range suffixes {
		if len(w) >= len(s)+rest && strings.HasSuffix(w, s) {
			return w[:len(w)-len(s)]
		}
	}
	return w
}

func stemEnglish(w string) string {
	if !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") && !strings.HasSuffix(w, "is") {
		w = trimSuffix(w, 3, "ies", "s")
	}
	w = trimSuffix(w, 3, "ying", "ing", "ied", "ed", "ly")
	w = trimSuffix(w, 4, "ations", "ation", "ements", "ement", "ment")
	w = trimSuffix(w, 4, "ion")
	w = trimSuffix(w, 3, "e", "y", "i")
	w = trimSuffix(w, 4, "at")
	if n := len(w); n > 3 && w[n-1] == w[n-2] {
		w = w[:n-1]
	}
	if len(w) > 4 && strings.HasSuffix(w, "our") {
		w = w[:len(w)-2] + "r"
	}
	if len(w) > 4 && strings.HasSuffix(w, "iz") {
		w = w[:len(w)-1] + "s"
	}
	return w
}

func stemGerman(w string) string {
	w = trimSuffix(w, 4, "ungen", "ung", "ten", "tem", "ter", "tes", "ern", "en", "er", "em", "es", "te", "et", "st",
		"e", "n", "s", "t")
	if len(w) > 6 {
		w = trimSuffix(w, 4, "en", "er", "e", "t")
	}
	return w
}

func stemRomance(w string) string {
	if !strings.HasSuffix(w, "mos") {
		w = trimSuffix(w, 3, "s", "x")
	}
	w = trimSuffix(w, 4, "aciones", "acion", "iciones", "icion", "ations", "ation", "amiento", "imiento", "issement",
		"ement", "mente", "ment", "iones", "ion", "aremos", "eremos", "iremos", "erons", "irons", "amos", "emos",
		"imos", "erez", "irez", "ando", "iendo", "ados", "adas", "idos", "idas", "ado", "ada", "ido", "ida", "ent",
		"ant", "ons", "ees", "era", "ara", "ira", "ar", "er", "ir", "ez", "re", "ee", "an", "en", "es")
	w = trimSuffix(w, 4, "e", "a", "o", "i")
	return w
}
