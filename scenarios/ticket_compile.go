package scenarios

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/params"
	"github.com/csenv/csenv/scenarios/source"
)

// loadTicket compiles a ticket file and tries it out. It returns nil after a fault.
func (d *document) loadTicket() *TicketScenario {
	s := d.compileTicket()
	if s == nil {
		return nil
	}
	t := tryOut(d, s.Instantiate)
	if t == nil {
		return nil
	}
	s.Category, s.Priority, s.Escalate = t.Gold.Category, t.Gold.Priority, t.Gold.Escalate
	return s.TicketScenario
}

// compileTicket compiles a ticket file. It returns nil after a fault.
func (d *document) compileTicket() *writtenTicket {
	f := new(ticketFile)
	m := &f.Metadata
	if !d.decode(f, &m.baseMetadata) {
		return nil
	}
	s := &writtenTicket{
		TicketScenario: &TicketScenario{ID: m.ID, Version: m.Version, Split: m.Split, Difficulty: m.Difficulty,
			Language: f.Language, Cue: m.Cue, File: d.Path, Pack: d.pack.info},
		salt: d.pack.salt, file: f, loc: expr.Locales[f.Language], harm: newHarms(f.Reply.Harm),
	}
	s.template = func() (ticketTemplate, error) { return s, nil }
	c := &params.Compiler{Compiler: expr.NewCompiler(s.loc), Lists: d.pack.names.find}
	s.shelf = shelfOf(d.pack, c.Compiler, f)
	f.CompileParams(c)
	expr.CompileAll(c.Compiler, source.ValueOf(f))
	checkTicket(c.Compiler, s)
	c.CheckCost(m.Pos)
	d.errs = append(d.errs, c.Errs...)
	if len(c.Errs) > 0 {
		return nil
	}
	return s
}

// triedSeeds is the number of seeds that are instantiated while loading, to detect most faulty
// values before an episode is played.
const triedSeeds = 4

// tryOut instantiates a scenario with a few seeds and returns the instance of seed 0, or nil after
// a fault.
func tryOut[T any](d *document, instantiate func(int64) (*T, error)) *T {
	var canonical *T
	for seed := range int64(triedSeeds) {
		t, err := instantiate(seed)
		if err != nil {
			d.errs = append(d.errs, err)
			return nil
		}
		if seed == 0 {
			canonical = t
		}
	}
	return canonical
}

// shelfOf collects the articles of a ticket and declares their params, except those that the ticket
// sets itself.
func shelfOf(pack *openPack, c *expr.Compiler, f *ticketFile) shelf {
	s := shelf{defaults: make(expr.Values, 2*len(f.Params)+16), own: map[string]bool{}}
	own := map[string]bool{}
	for _, e := range f.Params {
		own[e.Name] = true
	}
	ids := slices.Concat(f.KB.Available, f.KB.Distractors)
	slices.Sort(ids)
	for i, id := range ids {
		a := pack.articles.find(id)
		if a == nil || i > 0 && ids[i-1] == id {
			c.Failf(f.KB.Pos, "article %q is listed twice or missing: there must be one kb/%s.md", id, id)
			continue
		}
		s.articles = append(s.articles, a)
		c.Spend(a.cost)
		for _, p := range a.params {
			s.declareParam(c, f.KB.Pos, p, own)
		}
	}
	return s
}

func (s *shelf) declareParam(c *expr.Compiler, pos source.Position, p articleParam, own map[string]bool) {
	other, taken := s.defaults[p.name]
	switch {
	case own[p.name]:
		s.own[p.name] = true
	case !taken:
		s.defaults[p.name] = p.value
		c.Declare(p.name, cel.IntType)
	case other != p.value:
		c.Failf(pos, "two articles have a param %q of different values: set it in the scenario's params", p.name)
	}
}

// checkTicket checks the fields against each other, without a seed.
func checkTicket(c *expr.Compiler, s *writtenTicket) {
	f := s.file
	if len(f.Variants) == 0 {
		c.Failf(f.Metadata.Pos, "variants needs at least one")
	}
	checkReply(c, &f.Reply)
	if f.UserSim != nil {
		checkUserSim(c, f.UserSim)
	}
	checkRange(c, f.Metadata.Pos, "sentiment.intensity", int64(f.Sentiment.Intensity), 0, 3)
	for _, a := range slices.Concat(f.Gold.Category.Alternates, f.Gold.Priority.Alternates) {
		checkRange(c, a.Value.Pos, "credit", a.Credit, 1, 999)
	}
	checkReferences(c, &f.References)
	if p := f.Gold.Escalation.Policy; p.Given() && p.Literal() {
		if err := s.shelf.hasSection(p.Text); err != nil {
			c.Failf(p.Pos, "%v", err)
		}
	}
}

// checkUserSim checks the fields against each other, without a seed.
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
			c.Failf(a.Pos, "user_sim answer %q has told set but not known: the customer has stated the answer, "+
				"so set known", a.ID)
		}
	}
}

func checkReply(c *expr.Compiler, f *replyFile) {
	p := f.points()
	if sum := p.Q1 + p.Q2 + p.Q3 + p.Q4 + p.Q5 + p.Q6 + p.Q7 + p.Q8; sum != totalPoints {
		c.Failf(f.Points.Pos, "the points sum to %d: they must sum to %d", sum, totalPoints)
	}
	if f.Words != nil && (len(f.Words) != 2 || f.Words[0] < 1 || f.Words[1] < f.Words[0]) {
		c.Failf(f.Pos, "length_words is [fewest, most]")
	}
	checkFacts(c, f.Facts)
	ids := factIDs(f.Facts)
	for _, q := range f.Questions {
		checkNames(c, q.Pos, "answered_by", q.AnsweredBy, ids)
	}
}

func newHarms(files []harmFile) []Harm {
	if len(files) == 0 {
		return nil
	}
	out := make([]Harm, len(files))
	for i, f := range files {
		out[i] = Harm(f)
	}
	return out
}

func factIDs(files []factFile) []string {
	ids := make([]string, len(files))
	for i, f := range files {
		ids[i] = f.ID
	}
	return ids
}

func checkNames(c *expr.Compiler, pos source.Position, key string, names, known []string) {
	for _, n := range names {
		if !slices.Contains(known, n) {
			c.Failf(pos, "%s names %q, which doesn't exist%s", key, n, source.SuggestWord(n, known))
		}
	}
}

func checkRange[T cmp.Ordered](c *expr.Compiler, pos source.Position, key string, v, lo, hi T) {
	if v < lo || v > hi {
		c.Failf(pos, "%s must be from %v to %v, got %v", key, lo, hi, v)
	}
}

func checkReferences(c *expr.Compiler, f *referencesFile) {
	for _, b := range f.Bad {
		checkRange(c, b.Text.Pos, "max", b.Max, 0, totalPoints)
	}
}

// checkFacts checks that every fact says what it states.
func checkFacts(c *expr.Compiler, files []factFile) {
	for _, f := range files {
		switch {
		case f.Judged == f.What.Given():
			c.Failf(f.Pos, "fact %s (%s) needs either what, a name of the vocabulary such as team, or judged: true if "+
				"only a model can read it: docs/facts.md lists the names", f.ID, f.Slot)
		case f.Judged && len(f.Also) > 0:
			c.Failf(f.Pos, "fact %s is judged: also belongs to a fact with what", f.ID)
		}
	}
}

// hasSection checks a reference to a section of an article, such as POL-REF#3.
func (s *shelf) hasSection(ref string) error {
	id, section, ok := strings.Cut(ref, "#")
	for _, a := range s.articles {
		if a.id == id && ok && a.sections[section] {
			return nil
		}
	}
	return fmt.Errorf("policy %s names no section of the scenario's articles: write an article's id, # and the "+
		"number of one of its \"## n. Heading\" lines", strconv.Quote(ref))
}

// totalPoints is the maximum of a reply, in milli-points.
const totalPoints = 500

// points returns the file's points, or those of the reply judge's rubric.
func (f *replyFile) points() Points {
	if p := f.Points; p != nil {
		return Points{p.Q1, p.Q2, p.Q3, p.Q4, p.Q5, p.Q6, p.Q7, p.Q8}
	}
	return standardPoints()
}

func standardPoints() Points {
	return Points{Q1: 160, Q2: 100, Q3: 60, Q4: 40, Q5: 40, Q6: 40, Q7: 30, Q8: 30}
}
