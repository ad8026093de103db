// Package rule has the rows of the tables by which both reconcilers find the reason of a condition.
package rule

import (
	"strings"
	"time"
)

// Rule is everything about one reason. A pass P over an object asks it, and S is the state that it
// gives the object.
type Rule[P Pass, S any] struct {
	Reason string
	State  S
	Stage  Stage  // in which it is asked
	When   string // it holds, in words
	// Advice says what a user can do, "" for nothing. The list of conditions in the documentation
	// shows it. It ends the message, with the pass's names in the places of words in capitals,
	// unless the finding has an advice of its own.
	Advice string
	Check  func(P) Finding
	Event  string // the type of the event when the reason is new, "" for none
	// Requeue returns how soon the result of Check may change without a change of any watched
	// object, 0 for never. Nil is never.
	Requeue func(P) time.Duration
}

// Stage is a set of questions. A pass asks one set at a time.
type Stage uint

// Pass is what rules are asked about.
type Pass interface {
	// Names are pairs of a word in capitals and what replaces it in an advice.
	Names() []string
}

// Finding is what a check has found, the zero value if its rule doesn't hold.
type Finding struct {
	What   string // has happened
	Detail string // in the words of another, which follow the advice
	Advice string // better than the rule's, "" for none
	// Advised means that What says itself what to do, in words that depend on the object, or quotes
	// a condition that does.
	Advised bool
	// HoldsStart means that nothing of a run is played meanwhile, so that startDeadlineSeconds
	// limits it.
	HoldsStart bool
}

// First returns the first rule of a stage that holds, nil if none does.
func First[P Pass, S any](rules []Rule[P, S], stage Stage, pass P) (*Rule[P, S], Finding) {
	for i := range rules {
		if rules[i].Stage&stage == 0 {
			continue
		}
		if found := rules[i].Check(pass); found.What != "" {
			return &rules[i], found
		}
	}
	return nil, Finding{}
}

// Message joins what has happened, the advice and the details.
func (r *Rule[P, S]) Message(pass P, found Finding) string {
	advice := found.Advice
	if advice == "" {
		advice = strings.NewReplacer(pass.Names()...).Replace(r.Advice)
	}
	switch {
	case advice == "" || found.Advised:
		return found.What
	case found.Detail == "":
		return found.What + " " + advice + "."
	default:
		return found.What + " " + advice + ": " + found.Detail
	}
}
