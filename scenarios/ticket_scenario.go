package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/pack"
	"github.com/csenv/csenv/scenarios/params"
	"github.com/csenv/csenv/scenarios/source"
	"github.com/csenv/csenv/scenarios/triage"
)

// TicketScenario is the template of a ticket. It is immutable and safe for concurrent use.
type TicketScenario struct {
	ID         string
	Version    int
	Split      string // public-train, public-dev, public-test or private
	Difficulty string // easy, medium or hard
	Language   string // BCP-47
	// Category, Priority and Escalate are the gold at seed 0. Generated tickets have only the
	// category.
	Category string
	Priority string
	Escalate bool
	// Cue is the category that keywords indicate.
	Cue string

	// Family is the family of a generated ticket, "" for others.
	Family string `json:",omitempty"`

	// File is the path of its file within the pack, after the pack's name.
	File string
	Pack pack.Info `json:"-"`

	// template draws the tickets. That of a scenario known by the index is compiled at its first
	// call.
	template func() (ticketTemplate, error)
}

// ticketTemplate draws tickets. It is a writtenTicket or a composedTicket.
type ticketTemplate interface {
	draw(seed int64) (*DrawnTicket, error)
	variants(seed int64) ([]*Ticket, error)
}

// writtenTicket is a compiled ticket file.
type writtenTicket struct {
	*TicketScenario

	salt  string
	file  *ticketFile
	shelf shelf
	loc   *expr.Locale
	harm  []Harm
}

// Generated reports whether the ticket is a generated case. Each of its instances has a policy of
// its own, so it can't be in a queue with other tickets.
func (s *TicketScenario) Generated() bool { return s.Family != "" }

// Instantiate draws a ticket. The seed is any number; the same one always gives the same ticket. An
// error contains the file and line of an expression or a constraint that fails with this seed's
// values.
func (s *TicketScenario) Instantiate(seed int64) (*Ticket, error) {
	d, err := s.Draw(seed)
	if err != nil {
		return nil, err
	}
	return d.Complete()
}

// Draw is Instantiate without the parts that only the judgement of a reply needs.
func (s *TicketScenario) Draw(seed int64) (*DrawnTicket, error) {
	t, err := s.template()
	if err != nil {
		return nil, err
	}
	return t.draw(seed)
}

// Variants draws a ticket once in each wording that the seed permits, including the one that
// Instantiate draws. A generated ticket has one wording.
func (s *TicketScenario) Variants(seed int64) ([]*Ticket, error) {
	t, err := s.template()
	if err != nil {
		return nil, err
	}
	return t.variants(seed)
}

func (s *writtenTicket) draw(seed int64) (*DrawnTicket, error) {
	vals, _, err := s.file.Draw(s.drawRequest(seed))
	if err != nil {
		return nil, err
	}
	b, err := s.renderTicket(seed, drawnVariant, vals)
	if err != nil {
		return nil, err
	}
	return b.completeLater(), nil
}

func (s *writtenTicket) variants(seed int64) ([]*Ticket, error) {
	first, err := s.buildVariant(seed, 0)
	if err != nil {
		return nil, err
	}
	tickets := []*Ticket{&first.ticket}
	for i := 1; i < first.variants; i++ {
		b, err := s.buildVariant(seed, i)
		if err != nil {
			return nil, err
		}
		tickets = append(tickets, &b.ticket)
	}
	return tickets, nil
}

// ticketBuild is a ticket under construction, with data that only the linter uses.
type ticketBuild struct {
	instance
	s         *writtenTicket
	ticket    Ticket
	situation triage.Situation
	stated    statedGold
	// variants is the number of wordings.
	variants int
}

// statedGold is the gold in the file, which the policies must confirm.
type statedGold struct {
	Priority, Rule           string
	Escalate                 bool
	Team, ReasonCode, Policy string
}

func (s *writtenTicket) buildTicket(seed int64) (*ticketBuild, error) {
	return s.buildVariant(seed, drawnVariant)
}

// drawnVariant lets the seed choose the wording.
const drawnVariant = -1

func (s *writtenTicket) buildVariant(seed int64, variant int) (*ticketBuild, error) {
	vals, _, err := s.file.Draw(s.drawRequest(seed))
	if err != nil {
		return nil, err
	}
	b, err := s.renderTicket(seed, variant, vals)
	if err != nil {
		return nil, err
	}
	return b, b.renderRest()
}

func (s *writtenTicket) drawRequest(seed int64) params.Request {
	return params.Request{Salt: s.salt, ID: s.ID, Version: s.Version, Seed: seed, Defaults: s.shelf.defaults}
}

// renderTicket makes a ticket of its drawn variables, without the parts for the judge.
func (s *writtenTicket) renderTicket(seed int64, variant int, vals expr.Values) (*ticketBuild, error) {
	b := &ticketBuild{s: s, instance: instance{expr.Scope{Vals: vals, Loc: s.loc}}}
	f, t := s.file, &b.ticket
	t.ScenarioID, t.Version, t.Seed, t.Language, t.Tone = s.ID, s.Version, seed, s.Language, f.Sentiment.Tone
	t.Now = expr.ToNative[time.Time](vals["now"])
	t.Customer = b.renderCustomer(&f.Customer)
	b.renderStory(variant)
	t.SLAMinutes = int(b.Integer(f.SLA.FirstResponseMinutes))
	t.Articles = make([]Article, len(s.shelf.articles))
	for i := range s.shelf.articles {
		t.Articles[i] = s.shelf.renderArticle(i, &b.instance)
	}
	b.decideGold()
	t.UserSim = b.renderUserSim(f.UserSim)
	return b, b.Err
}

// renderStory renders the customer's texts: one of the variants, the history and the attachments.
func (b *ticketBuild) renderStory(variant int) {
	f, t := b.s.file, &b.ticket
	variants := expr.Filter(&b.Scope, f.Variants)
	if len(variants) == 0 {
		b.Fail(f.Gold.Pos.Errorf("no variant is left at seed %d: let one have no condition", t.Seed))
		return
	}
	b.variants = len(variants)
	if variant == drawnVariant {
		key := expr.NewStreamKey(b.s.salt, b.s.ID, b.s.Version, t.Seed)
		variant = int(key.Stream("variant").Below(uint64(len(variants)))) //nolint:gosec // below the length of a slice
	}
	v := variants[variant]
	t.Subject, t.Description = b.Text(v.Subject), b.Text(v.Description)
	t.History = expr.FilterMap(&b.Scope, f.History, func(m messageFile) Message {
		return Message{Role: m.Role, At: b.Instant(m.At), Text: b.Text(m.Text)}
	})
	t.Attachments = expr.FilterMap(&b.Scope, f.Attachments, func(a attachmentFile) Attachment {
		return Attachment{Name: b.Text(a.Name), Content: b.Text(a.Content)}
	})
}

// decideGold computes the right handling: the category from the file, priority and escalation from
// the policies.
func (b *ticketBuild) decideGold() {
	f, g := &b.s.file.Gold, &b.ticket.Gold
	g.Category = b.renderLabel(&f.Category, Categories...)
	g.CategoryAlternates = b.renderAlternates(f.Category.Alternates)
	b.situation = b.renderSituation(&b.s.file.Situation)
	g.Priority, _ = b.situation.Priority()
	g.PriorityAlternates = b.renderAlternates(f.Priority.Alternates)
	b.stated = statedGold{
		Priority: b.renderLabel(&f.Priority, Priorities...), Rule: b.Text(f.Priority.Rule),
		Escalate: b.Boolean(f.Escalation.Required),
		Team:     b.Text(f.Escalation.Team), ReasonCode: b.Text(f.Escalation.ReasonCode),
		Policy: b.Text(f.Escalation.Policy),
	}
	e, needed := b.situation.Escalation()
	if !needed {
		return
	}
	g.Escalate, g.Team, g.ReasonCode, g.Policy = true, e.Team, e.ReasonCode, b.stated.Policy
	g.TeamAlternates = b.Texts(f.Escalation.TeamAlternates)
}

func (b *ticketBuild) renderLabel(f *labelFile, allowed ...string) string {
	v := b.Text(f.Value)
	if b.Err == nil && !slices.Contains(allowed, v) {
		b.Fail(f.Value.Pos.Errorf("%q is not one of %s", v, strings.Join(allowed, ", ")))
	}
	return v
}

func (b *ticketBuild) renderAlternates(files []alternateFile) []Alternate {
	return expr.FilterMap(&b.Scope, files, func(f alternateFile) Alternate {
		return Alternate{Value: b.Text(f.Value),
			Credit: f.Credit}
	})
}

func (b *ticketBuild) renderSituation(f *situationFile) triage.Situation {
	s := triage.Situation{
		Hazard: b.Boolean(f.Hazard), AuthorityEmergency: b.Boolean(f.AuthorityEmergency),
		Compromise: b.Boolean(f.Compromise), BusinessStop: b.Boolean(f.BusinessStop),
		Irreversible: b.Boolean(f.Irreversible), CoreUnusable: b.Boolean(f.CoreUnusable),
		MoneyHarm: b.Boolean(f.MoneyHarm), Degraded: b.Boolean(f.Degraded),
		Delay: b.Boolean(f.Delay), WholeSite: b.Boolean(f.WholeSite), Pallet: b.Boolean(f.Pallet),
		WronglyTaken: b.Amount(f.WronglyTaken), Disputed: b.Amount(f.Disputed), Devices: b.Integer(f.Devices),
		Act: triage.Act{Kind: b.Text(f.Act.Kind), Amount: b.Amount(f.Act.Amount)}, Limits: b.policyLimits(),
	}
	if span := b.Text(f.Deadline); span != "" {
		d, err := expr.ParseSpan(span)
		if err != nil || d <= 0 {
			b.Fail(f.Deadline.Pos.Errorf("deadline %q: write the time that is left, such as \"2h\" or \"5d\"", span))
		}
		s.Deadline = d
	}
	if b.Err == nil && !slices.Contains(actKinds, s.Act.Kind) {
		b.Fail(f.Act.Kind.Pos.Errorf("unknown act %q%s", s.Act.Kind, source.SuggestWord(s.Act.Kind, actKinds)))
	}
	return s
}

var actKinds = strings.Split(triage.ActKinds, "|")

// policyLimits returns the policy numbers of the instance, as far as its variables contain them.
func (b *ticketBuild) policyLimits() triage.Limits {
	l := triage.StandardLimits()
	for _, drawn := range [...]struct {
		name  string
		limit *int64
	}{{"refund_limit", &l.Refund}, {"replacement_limit", &l.Replacement}, {"goodwill_limit", &l.Goodwill},
		{"incident_devices", &l.IncidentDevices}} {
		if v, ok := b.Vals[drawn.name].(types.Int); ok {
			*drawn.limit = int64(v)
		}
	}
	return l
}

// renderUserSim renders the script of a customer who answers, or returns nil. A mood without lines
// has the lines of the nearest calmer one.
func (in *instance) renderUserSim(f *userSimFile) *UserSim {
	if f == nil {
		return nil
	}
	u := &UserSim{Persona: f.Persona, MaxTurns: f.MaxTurns, StopWhen: f.StopWhen, Lines: make(map[string][]string, 4)}
	u.Answers = expr.FilterMap(&in.Scope, f.Answers, func(a simAnswerFile) SimAnswer {
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

// joinTexts returns all possible messages of the customer.
func (u *UserSim) joinTexts() string {
	var texts []string
	for _, a := range u.Answers {
		texts = append(texts, a.Text)
	}
	for _, mood := range slices.Sorted(maps.Keys(u.Lines)) {
		texts = append(texts, u.Lines[mood]...)
	}
	return strings.Join(texts, "\n")
}

// renderRest renders the parts for the judge.
func (b *ticketBuild) renderRest() error {
	b.ticket.Reply = b.renderReply()
	b.ticket.References = b.renderReferences(&b.s.file.References)
	return b.Err
}

// completeLater returns the ticket, which is completed when that is needed.
func (b *ticketBuild) completeLater() *DrawnTicket {
	return &DrawnTicket{b.ticket.Served, sync.OnceValues(func() (*Ticket, error) {
		if err := b.renderRest(); err != nil {
			return nil, err
		}
		whole := b.ticket // so that the values are garbage
		return &whole, nil
	})}
}

func (b *ticketBuild) renderReply() ReplySpec {
	f := &b.s.file.Reply
	r := ReplySpec{Facts: b.renderFacts(f.Facts), Points: f.points(), MinWords: 40, MaxWords: 180}
	if len(f.Words) == 2 {
		r.MinWords, r.MaxWords = f.Words[0], f.Words[1]
	}
	for _, step := range f.NextStep {
		r.NextSteps = append(r.NextSteps, b.canonicalValue(f.Pos, nextStep, step))
	}
	r.Questions = expr.FilterMap(&b.Scope, f.Questions, func(q questionFile) Question {
		return Question{ID: q.ID, Text: b.Text(q.Text), AnsweredBy: filterFactIDs(q.AnsweredBy, r.Facts)}
	})
	r.Harm = b.s.harm
	r.AllowedValues = b.allowedValues(&r)
	return r
}

// filterFactIDs returns the ids of facts that the instance has.
func filterFactIDs(ids []string, facts []Fact) []string {
	var out []string
	for _, id := range ids {
		if slices.ContainsFunc(facts, func(f Fact) bool { return f.ID == id }) {
			out = append(out, id)
		}
	}
	return out
}

// allowedValues lists the texts whose amounts, dates, durations and ids a reply may state.
func (b *ticketBuild) allowedValues(r *ReplySpec) []string {
	t := &b.ticket
	out := make([]string, 0, 64)
	for _, f := range r.Facts {
		out = append(out, f.Value)
	}
	out = b.TimeForms(t.Now, b.listEvidence(&b.s.file.State, out))
	out = append(out, t.Subject, t.Description)
	for _, m := range t.History {
		out = append(out, m.Text)
	}
	for _, a := range t.Attachments {
		out = append(out, a.Name, a.Content)
	}
	for _, a := range t.Articles {
		out = append(out, a.Body)
	}
	if t.UserSim != nil {
		for _, a := range t.UserSim.Answers {
			out = append(out, a.Text)
		}
	}
	return out
}

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
		switch {
		case i > 0 && ids[i-1] == id:
			c.Failf(f.KB.Pos, "article %q is listed twice: list it once, in available or in distractors", id)
			continue
		case a == nil:
			c.Failf(f.KB.Pos, "article %q is missing: there must be one kb/%s.md", id, id)
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
