package scenarios

import (
	"maps"
	"slices"
	"strings"

	"github.com/csenv/csenv/scenarios/expr"
)

// userSim renders the script of a customer who writes back, nil where the scenario has none. A mood
// without lines of its own has those of the nearest calmer one.
func (in *instance) userSim(f *userSimFile) *UserSim {
	if f == nil {
		return nil
	}
	u := &UserSim{Persona: f.Persona, MaxTurns: f.MaxTurns, StopWhen: f.StopWhen, Lines: make(map[string][]string, 4)}
	u.Answers = expr.Kept(&in.Scope, f.Answers, func(a simAnswerFile) SimAnswer {
		return SimAnswer{ID: a.ID, Ask: in.Texts(a.Ask), Text: in.Text(a.Text), Known: in.Boolean(a.Known),
			Told: in.Boolean(a.Told)}
	})
	calmer := f.Lines.Calm
	for _, mood := range f.Lines.moods() {
		if len(mood.lines) > 0 {
			calmer = mood.lines
		}
		u.Lines[mood.name] = in.Texts(calmer)
	}
	return u
}

// moodLines are the lines of one mood.
type moodLines struct {
	name  string
	lines []expr.Text
}

// moods lists the moods from calm to angry.
func (f *simLinesFile) moods() []moodLines {
	return []moodLines{{"calm", f.Calm}, {"uneasy", f.Uneasy}, {"annoyed", f.Annoyed}, {"angry", f.Angry}}
}

// maxUserTurns bounds the messages of a customer, and with them what an episode has to keep.
const maxUserTurns = 10

// checkUserSim checks what can be wrong across fields, without a seed.
func checkUserSim(c *expr.Compiler, f *userSimFile) {
	checkRange(c, f.Pos, "user_sim.max_turns", f.MaxTurns, 1, maxUserTurns)
	if len(f.Lines.Calm) == 0 || len(f.Lines.Angry) == 0 {
		c.Failf(f.Lines.Pos, "user_sim.lines needs at least one line for calm and one for angry: uneasy and annoyed "+
			"may borrow theirs")
	}
	for _, a := range f.Answers {
		if len(a.Ask) == 0 {
			c.Failf(a.Pos, "user_sim answer %q can't be asked for: list the phrases of such a question under ask", a.ID)
		}
		if a.Told.Given() && a.Known.Literal() && a.Known.Text != "true" {
			c.Failf(a.Pos, "user_sim answer %q is told but not known: a customer who told it knows it", a.ID)
		}
	}
}

// text is everything that the customer may say.
func (u *UserSim) text() string {
	var texts []string
	for _, a := range u.Answers {
		texts = append(texts, a.Text)
	}
	for _, mood := range slices.Sorted(maps.Keys(u.Lines)) {
		texts = append(texts, u.Lines[mood]...)
	}
	return strings.Join(texts, "\n")
}
