package scenarios

import (
	"slices"
	"strings"

	"github.com/csenv/csenv/scenarios/source"
	"github.com/csenv/csenv/scenarios/words"
)

// script checks a customer's script against its ticket.
func (l *linter) script(b *ticketBuild, served string) {
	u, f := b.ticket.UserSim, b.s.file.UserSim
	if u == nil {
		return
	}
	checkUniqueIDs(l, f.Pos.String(), "user_sim answer", u.Answers, func(a SimAnswer) string { return a.ID })
	l.checkQuestions(f.Pos, u.Answers)
	for _, a := range f.Answers {
		if b.Holds(a.When) {
			l.checkTold(&b.instance, a, served)
		}
	}
	lines := make([]string, 0, 16)
	for _, mood := range f.Lines.moods() {
		lines = append(lines, u.Lines[mood.name]...)
	}
	l.factLeaks(&b.instance, b.s.file.Reply.Facts, strings.Join(lines, "\n"))
}

// checkQuestions searches for phrases that ask for two answers at the same time.
func (l *linter) checkQuestions(pos source.Position, answers []SimAnswer) {
	for i, a := range answers {
		for _, b := range answers[i+1:] {
			for _, phrase := range a.Ask {
				if j := slices.IndexFunc(b.Ask, func(other string) bool {
					return words.ContainsFold(other, phrase) ||
						words.ContainsFold(phrase, other)
				}); j >= 0 {
					l.reportf(pos.String(), ruleScript, "a question that holds %q asks for %s, and with %q for %s: "+
						"give the two phrases that don't contain each other", phrase, a.ID, b.Ask[j], b.ID)
				}
			}
		}
		if slices.Contains(a.Ask, "") {
			l.reportf(pos.String(), ruleScript, "answer %s is asked for by an empty phrase, which is in every question",
				a.ID)
		}
	}
}

// shortValue is the length, in bytes, up to which a text may contain a value by accident.
const shortValue = 3

// checkTold checks the key told of an answer: it must be set if and only if the ticket contains all
// values of the answer.
func (l *linter) checkTold(in *instance, a simAnswerFile, served string) {
	drawn := 0
	var missing []string
	for e := range a.Text.Expressions() {
		v := in.Format(e)
		if !words.ContainsFold(served, v) {
			missing = append(missing, v)
		}
		if len(v) > shortValue {
			drawn++
		}
	}
	switch told := in.Boolean(a.Told); {
	case told && len(missing) > 0:
		l.reportf(a.Pos.String(), ruleScript, "answer %s has told set, but the ticket doesn't contain %q", a.ID,
			missing)
	case !told && drawn > 0 && len(missing) == 0 && in.Boolean(a.Known):
		l.reportf(a.Pos.String(), ruleScript, "answer %s is already in the ticket: set told", a.ID)
	}
}
