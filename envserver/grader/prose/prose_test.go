package prose

import (
	"strings"
	"testing"
)

// TestLists writes the facts of a good reply as key words: in a list, in single words, in bullets.
func TestLists(t *testing.T) {
	facts := []string{"difference $1,482.00", "answer 1 business day", "our finance team", "case passed", "38 seats",
		"12 seats", "invoice"}
	for name, separator := range map[string]string{"commas": ", ", "semicolons": "; ", "sentences": ". ",
		"bullets": "\n- "} {
		reply := "Dear Maria, sorry.\n\n" + strings.Join(facts, separator) + "."
		if v := judgeReply(t, New(), overbilled(), reply); v.PostGate > unsupportedCap {
			t.Errorf("%s: earned %d, gates %+v", name, v.PostGate, v.Gates)
		}
	}
}

// TestCopiesWithFillers puts a word between every five of the article: neither a word that the
// article lacks nor courtesies around it hide the copy.
func TestCopiesWithFillers(t *testing.T) {
	var reply strings.Builder
	for i, word := range strings.Fields(overbilled().Articles[0].Body) {
		if i%5 == 4 {
			reply.WriteString("kindly ")
		}
		reply.WriteString(word + " ")
	}
	for name, text := range map[string]string{"alone": reply.String(),
		"with courtesies": "Dear Maria, I am so sorry about all of this. " + reply.String() + "Have a nice day, Maria!"} {
		if v := judgeReply(t, New(), overbilled(), text); !hasGate(v, "copied") {
			t.Errorf("%s: earned %d, gates %+v", name, v.PostGate, v.Gates)
		}
	}
}

// TestTextsToNobody writes about customers instead of to one.
func TestTextsToNobody(t *testing.T) {
	impersonal := "The difference is $1,482.00. Finance decides above $1,000.00 and answers within 1 business day. " +
		"Customers with such an invoice have 38 seats where 12 are used, and the case is passed on to the finance team."
	if v := judgeReply(t, New(), overbilled(), impersonal); !hasGate(v, "impersonal") {
		t.Errorf("earned %d, gates %+v", v.PostGate, v.Gates)
	}
	if v := judgeReply(t, New(), overbilled(), goodReply); hasGate(v, "impersonal") || hasGate(v, "list") {
		t.Errorf("a letter has gates %+v", v.Gates)
	}
}
