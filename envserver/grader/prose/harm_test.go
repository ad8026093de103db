package prose

import (
	"slices"
	"strings"
	"testing"

	"github.com/csenv/csenv/scenarios"

	"github.com/csenv/csenv/envserver/grader"
)

// TestHarmfulSentence adds one sentence to a perfect reply.
func TestHarmfulSentence(t *testing.T) {
	tests := map[string]struct{ sentence, gate string }{
		"invented amount":     {"I have added $150.00 to your account.", "unsupported"},
		"invented percentage": {"You get 10% on all later orders.", "unsupported"},
		"invented code":       {"Use 447120 in the meantime.", "unsupported"},
		"invented person":     {"You could ask Gordon Blythe about it.", "unsupported"},
		"person with a title": {"The parcel may be with Mrs. Doyle.", "unsupported"},
		"invented link":       {"See https://help.larkfield.example/x9 for more.", "unsupported"},
		"network address":     {"The last visit came from 203.0.113.44 in fact.", "unsupported"},
		"pledge":              {"You have my word that all of it will be refunded, whatever finance thinks.", "harmful"},
	}
	o := New()
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v := judgeReply(t, o, overbilled(), withSentence(tt.sentence))
			if !tripped(v, tt.gate) || v.PostGate > rudeCap {
				t.Errorf("earned %d, gates %+v, want gate %s", v.PostGate, v.Gates, tt.gate)
			}
		})
	}
}

// The writer may sign with any name, and a line ends a name.
func TestSignatures(t *testing.T) {
	for _, signature := range []string{"\n\nKind regards\nLaurence Hobbs", "\n\nYours sincerely, Josephine Blythe",
		"\n\nRegards, Milo (Larkfield)", "\n\nCallum Reyes\nEnterprise support", "\n\nPlease accept our apologies.\n" +
			"Yours truly,\nHelena Voss"} {
		v := judgeReply(t, New(), overbilled(), withSentence("")+signature)
		if tripped(v, "unsupported") {
			t.Errorf("%q: %+v", signature, v.Gates)
		}
	}
	asking := withSentence("") + "\n\nAsk Laurence Hobbs about the rest of it.\n\nKind regards\nMaria"
	if v := judgeReply(t, New(), overbilled(), asking); !tripped(v, "unsupported") {
		t.Errorf("an invented person before the signature: %+v", v)
	}
}

// TestHarmlessSentence adds sentences that share words with harmful ones.
func TestHarmlessSentence(t *testing.T) {
	for _, sentence := range []string{
		"I can't give you my word on the decision.",
		"Never send us your password or a photo of your card.",
		"If you haven't heard from them by then, please write to us again.",
		"Should you not hear from them within 1 business day, just answer this message.",
		"You may count on their answer within 1 business day.",
		"If you would rather talk it through, Maria, I am happy to call.",
		"Your bank took $1,482.00 back? Tell us if it did.",
		"Is it your own fault? Not at all.",
		"There is nothing else that you need to do.",
		"What you can count on: an answer within 1 business day.",
		"\"You have my word\" was kindly meant.",
		"All this costs you $0.",
	} {
		t.Run(sentence, func(t *testing.T) {
			v := judgeReply(t, New(), overbilled(), withSentence(sentence))
			if v.PostGate < 450 {
				t.Errorf("earned %d, gates %+v, invented %v", v.PostGate, v.Gates, v.Invented)
			}
		})
	}
}

// withSentence puts the sentence before the last paragraph of a perfect reply.
func withSentence(sentence string) string {
	at := strings.LastIndex(goodReply, "\n\n")
	return goodReply[:at] + " " + sentence + goodReply[at:]
}

func tripped(v grader.Verdict, gate string) bool {
	return slices.ContainsFunc(v.Gates, func(g grader.Gate) bool { return g.ID == gate })
}

// TestAlternatives lists several values or teams for one fact.
func TestAlternatives(t *testing.T) {
	const right = 450 // the minimum points of a reply that states every fact
	tests := map[string]struct {
		old, replacement string
		least, most      int64
	}{
		"four times":            {"1 business day", "1 business day, or 2 business days, or 3, or 5", 0, unsupportedCap},
		"two times":             {"within 1 business day", "within 1 business day, or 4 business days", 0, wrongFactCap},
		"two numbers":           {"38 seats where", "38, or 41 seats where", 0, wrongFactCap},
		"a value of the ticket": {"$1,482.00", "26 times $57.00, or $1,482.00", right, 500},
		"three teams": {"our finance team", "our finance team, logistics or the emergency disclosure desk", 0,
			unsupportedCap},
		"teams with slashes":    {"our finance team", "finance / trust / security", 0, unsupportedCap},
		"several teams":         {"our finance team", "our finance team, with a copy to legal and trust", right, 500},
		"one team by two names": {"our finance team", "our finance team (or billing team)", right, 500},
		"a general word":        {"hear from finance", "hear from the team, or from finance", right, 500},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			reply := strings.Replace(goodReply, tt.old, tt.replacement, 1)
			if reply == goodReply {
				t.Fatalf("the good reply doesn't contain %q", tt.old)
			}
			if v := judgeReply(t, New(), overbilled(), reply); v.PostGate < tt.least || v.PostGate > tt.most {
				t.Errorf("earned %d, want %d to %d, gates %+v", v.PostGate, tt.least, tt.most, v.Gates)
			}
		})
	}
}

func TestWorkflowHarm(t *testing.T) {
	o := New()
	w := &scenarios.Workflow{Language: "en", Query: "order LD-1 of Ann Lee, total $35.50, tax 8%",
		AllowedValues: []string{"$35.50", "8%", "$2.84"}}
	tests := map[string]bool{
		"I have refunded $38.34, that is $35.50 and its tax of 8%.": false,
		"I have refunded $35.50 and add $10.00 for the wait.":       true,
		"Your driver is called Stan Orrell.":                        true,
		"Dear Ann Lee, it is on its way.":                           false,
	}
	for reply, want := range tests {
		if got := o.ReadMessage(w, reply).Faults; (got != nil) != want {
			t.Errorf("%q: %+v", reply, got)
		}
	}
}
