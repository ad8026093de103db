package scenarios

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// TicketScenario is the template of a ticket. It is immutable and safe for concurrent use.
type TicketScenario struct {
	ID         string
	Version    int
	Split      string // public-train, public-dev, public-test or private
	Difficulty string // easy, medium or hard
	Language   string // BCP-47
	// Category is the canonical gold category, that of seed 0.
	Category string
	// Cue is the category that a reader of keywords would say.
	Cue string

	// File is the path of its file within the pack, after the pack's name.
	File string
	Pack PackInfo

	salt    string
	file    *ticketFile
	shelf   shelf
	loc     *locale
	english *locale
}

// Instantiate draws a ticket. The seed is any number; the same one always gives the same ticket. An
// error names the file and line of an expression or a constraint that this seed's values break.
func (s *TicketScenario) Instantiate(seed int64) (*Ticket, error) {
	b, err := s.build(seed)
	if err != nil {
		return nil, err
	}
	return &b.ticket, nil
}

// Variants draws a ticket once in each of the wordings that its seed leaves. The one that
// Instantiate gives is among them.
func (s *TicketScenario) Variants(seed int64) ([]*Ticket, error) {
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

// ticketBuild is a ticket on its way, with what only the linter looks at.
type ticketBuild struct {
	instance
	s         *TicketScenario
	ticket    Ticket
	situation Situation
	stated    statedGold
	// variants is how many wordings there are.
	variants int
}

// statedGold is the gold that the file states, which the policies must confirm.
type statedGold struct {
	Priority, Rule           string
	Escalate                 bool
	Team, ReasonCode, Policy string
}

func (s *TicketScenario) build(seed int64) (*ticketBuild, error) {
	return s.buildVariant(seed, drawnVariant)
}

// drawnVariant leaves the wording to the seed.
const drawnVariant = -1

func (s *TicketScenario) buildVariant(seed int64, variant int) (*ticketBuild, error) {
	vals, err := s.file.values(s.salt, s.ID, s.Version, seed, s.shelf.defaults)
	if err != nil {
		return nil, err
	}
	b := &ticketBuild{s: s, instance: instance{vals: vals, loc: s.loc}}
	f, t := s.file, &b.ticket
	t.ScenarioID, t.Version, t.Seed, t.Language, t.Tone = s.ID, s.Version, seed, s.Language, f.Sentiment.Tone
	t.Now = native[time.Time](vals.byName["now"])
	t.Customer = b.customer(&f.Customer)
	b.story(variant)
	t.SLAMinutes = int(b.integer(f.SLA.FirstResponseMinutes))
	t.Articles = make([]Article, len(s.shelf.articles))
	for i := range s.shelf.articles {
		t.Articles[i] = s.shelf.article(i, &b.instance, s.english)
	}
	b.gold()
	t.UserSim = b.userSim(f.UserSim)
	t.Reply = b.reply()
	t.References = b.references(&f.References)
	if b.err != nil {
		return nil, b.err
	}
	return b, nil
}

// values draws the variables of an instance.
func (d *drawing) values(salt, id string, version int, seed int64, defaults []articleParam) (*values, error) {
	key := newStreamKey(salt, id, version, seed)
	vals := &values{byName: make(map[string]ref.Val, len(d.params)+len(defaults)+2)}
	vals.byName[drawKey] = types.String(key)
	for _, p := range defaults {
		vals.byName[p.name] = p.value
	}
	return vals, d.draw(salt, key, seed, vals)
}

func (in *instance) customer(f *customerFile) Customer {
	return Customer{Name: in.text(f.Name), Company: in.text(f.Company), AccountLevel: f.AccountLevel,
		Since: in.instant(f.Since)}
}

// story renders what the customer wrote: one of the variants, the history and the attachments.
func (b *ticketBuild) story(variant int) {
	f, t := b.s.file, &b.ticket
	variants := kept(&b.instance, f.Variants, func(v variantFile) variantFile { return v })
	if len(variants) == 0 {
		b.fail(f.Gold.Pos.errorf("no variant is left at seed %d: let one have no condition", t.Seed))
		return
	}
	b.variants = len(variants)
	if variant == drawnVariant {
		key := newStreamKey(b.s.salt, b.s.ID, b.s.Version, t.Seed)
		variant = int(key.stream("variant").below(uint64(len(variants)))) //nolint:gosec // below the length of a slice
	}
	v := variants[variant]
	t.Subject, t.Description = b.text(v.Subject), b.text(v.Description)
	t.History = kept(&b.instance, f.History, func(m messageFile) Message {
		return Message{Role: m.Role, At: b.instant(m.At), Text: b.text(m.Text)}
	})
	t.Attachments = kept(&b.instance, f.Attachments, func(a attachmentFile) Attachment {
		return Attachment{Name: b.text(a.Name), Content: b.text(a.Content)}
	})
}

// Categories lists what a ticket can be about.
func Categories() []string { return []string{"billing", "shipping", "technical", "general"} }

// Priorities lists the priorities of tickets, the lowest first.
func Priorities() []string { return []string{"low", "medium", "high", "urgent"} }

// gold computes the right handling: the category is the file's, priority and escalation are the
// policies'.
func (b *ticketBuild) gold() {
	f, g := &b.s.file.Gold, &b.ticket.Gold
	g.Category = b.label(&f.Category, Categories()...)
	g.CategoryAlternates = b.alternates(f.Category.Alternates)
	b.situation = b.situate(&b.s.file.Situation)
	g.Priority, _ = b.situation.Priority()
	g.PriorityAlternates = b.alternates(f.Priority.Alternates)
	b.stated = statedGold{
		Priority: b.label(&f.Priority, Priorities()...), Rule: b.text(f.Priority.Rule),
		Escalate: b.boolean(f.Escalation.Required),
		Team:     b.text(f.Escalation.Team), ReasonCode: b.text(f.Escalation.ReasonCode),
		Policy: b.text(f.Escalation.Policy),
	}
	e, needed := b.situation.Escalation()
	if !needed {
		return
	}
	g.Escalate, g.Team, g.ReasonCode, g.Policy = true, e.Team, e.ReasonCode, b.stated.Policy
	g.TeamAlternates = b.texts(f.Escalation.TeamAlternates)
}

func (b *ticketBuild) label(f *labelFile, allowed ...string) string {
	v := b.text(f.Value)
	if b.err == nil && !slices.Contains(allowed, v) {
		b.fail(f.Value.pos.errorf("%q is not one of %s", v, strings.Join(allowed, ", ")))
	}
	return v
}

func (b *ticketBuild) alternates(files []alternateFile) []Alternate {
	return kept(&b.instance, files, func(f alternateFile) Alternate {
		return Alternate{Value: b.text(f.Value),
			Credit: f.Credit}
	})
}

func (b *ticketBuild) situate(f *situationFile) Situation {
	s := Situation{
		Hazard: b.boolean(f.Hazard), AuthorityEmergency: b.boolean(f.AuthorityEmergency),
		Compromise: b.boolean(f.Compromise), BusinessStop: b.boolean(f.BusinessStop),
		Irreversible: b.boolean(f.Irreversible), CoreUnusable: b.boolean(f.CoreUnusable),
		MoneyHarm: b.boolean(f.MoneyHarm), Degraded: b.boolean(f.Degraded),
		Delay: b.boolean(f.Delay), WholeSite: b.boolean(f.WholeSite), Pallet: b.boolean(f.Pallet),
		WronglyTaken: b.amount(f.WronglyTaken), Disputed: b.amount(f.Disputed), Devices: b.integer(f.Devices),
		Act: Act{Kind: b.text(f.Act.Kind), Amount: b.amount(f.Act.Amount)}, Limits: b.limits(),
	}
	if span := b.text(f.Deadline); span != "" {
		d, err := parseSpan(span)
		if err != nil || d <= 0 {
			b.fail(f.Deadline.pos.errorf("deadline %q: write the time that is left, such as \"2h\" or \"5d\"", span))
		}
		s.Deadline = d
	}
	if kinds := strings.Split(actKinds, "|"); b.err == nil && !slices.Contains(kinds, s.Act.Kind) {
		b.fail(f.Act.Kind.pos.errorf("unknown act %q%s", s.Act.Kind, suggest(s.Act.Kind, kinds)))
	}
	return s
}

// limits are the policy numbers of the instance, where its variables carry them.
func (b *ticketBuild) limits() Limits {
	l := standardLimits()
	for name, limit := range map[string]*int64{
		"refund_limit": &l.Refund, "replacement_limit": &l.Replacement, "goodwill_limit": &l.Goodwill,
		"incident_devices": &l.IncidentDevices,
	} {
		if v, ok := b.vals.byName[name].(types.Int); ok {
			*limit = int64(v)
		}
	}
	return l
}

func (b *ticketBuild) reply() ReplySpec {
	f := &b.s.file.Reply
	r := ReplySpec{Facts: b.facts(f.Facts), Points: f.points(), MinWords: 40, MaxWords: 180}
	if len(f.Words) == 2 {
		r.MinWords, r.MaxWords = f.Words[0], f.Words[1]
	}
	r.Outcome = Outcome{Value: b.text(f.Outcome.Value), Accept: b.texts(f.Outcome.Accept),
		Facts: present(f.Outcome.Facts, r.Facts)}
	r.Questions = kept(&b.instance, f.Questions, func(q questionFile) Question {
		return Question{ID: q.ID, Text: b.text(q.Text), AnsweredBy: present(q.AnsweredBy, r.Facts)}
	})
	r.Forbidden = kept(&b.instance, f.Forbidden, func(g forbiddenFile) Forbidden {
		return Forbidden{ID: g.ID, Kind: g.Kind, Verbs: g.Verbs, Values: b.texts(g.Values), Cap: g.Cap}
	})
	r.AllowedValues = b.allowedValues(&r)
	r.Rubric = rubric(r.Facts, b.ticket.Articles)
	return r
}

func (in *instance) facts(files []factFile) []Fact {
	return kept(in, files, func(f factFile) Fact {
		return Fact{
			ID: f.ID, Slot: f.Slot, Value: in.text(f.Value), Accept: in.texts(f.Accept), Context: in.texts(f.Context),
			Negative: f.Polarity == "neg", Optional: f.Optional, Drawn: !f.Value.literal(),
		}
	})
}

// present keeps the ids of facts that the instance has.
func present(ids []string, facts []Fact) []string {
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
		out = append(append(out, f.Value), f.Accept...)
	}
	out = append(out, r.Outcome.Accept...)
	for _, g := range r.Forbidden {
		if g.Kind == "amount_not_in" {
			out = append(out, g.Values...)
		}
	}
	out = b.timeForms(t.Now, b.evidence(&b.s.file.State, out))
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

// rubric lists what a reply must not copy wholesale.
func rubric(facts []Fact, articles []Article) []string {
	var out []string
	for _, f := range facts {
		out = append(append(out, f.ID, f.Slot), f.Context...)
	}
	for _, a := range articles {
		out = append(out, a.Body)
	}
	return out
}

func (in *instance) references(f *referencesFile) References {
	r := References{
		Good: kept(in, f.Good, func(g goodFile) string { return in.text(g.Text) }),
		Bad: kept(in, f.Bad, func(g badFile) BadReference {
			return BadReference{Text: in.text(g.Text), Max: g.Max,
				Why: g.Why}
		}),
	}
	if len(r.Good) == 0 {
		in.fail(f.Pos.errorf("no good reference is left: every branch needs one"))
	}
	return r
}

// totalPoints is what a reply can earn, in milli-points.
const totalPoints = 500

// points are the file's, or those of the reply judge's rubric.
func (f *replyFile) points() Points {
	if p := f.Points; p != nil {
		return Points{p.Q1, p.Q2, p.Q3, p.Q4, p.Q5, p.Q6, p.Q7, p.Q8}
	}
	return Points{Q1: 160, Q2: 100, Q3: 60, Q4: 40, Q5: 40, Q6: 40, Q7: 30, Q8: 30}
}

// ticket compiles a ticket file, nil after a fault.
func (l *loader) ticket(p parsed[ticketFile]) *TicketScenario {
	f, m := p.value, p.value.Metadata
	s := &TicketScenario{
		ID: m.ID, Version: m.Version, Split: m.Split, Difficulty: m.Difficulty, Language: f.Language, Cue: m.Cue,
		File: p.file, Pack: p.pack.info, salt: p.pack.salt, file: f, loc: l.locales[f.Language],
		english: l.locales["en"],
	}
	c := l.compiler(p.pack, f.Language)
	s.shelf = shelfOf(p.pack, c.compiler, f)
	f.compileParams(c)
	compileAll(c.compiler, valueOf(f))
	checkTicket(c.compiler, s)
	c.checkCost(m.Pos)
	l.errs = append(l.errs, c.errs...)
	if len(c.errs) > 0 {
		return nil
	}
	t := tryOut(l, s.Instantiate)
	if t == nil {
		return nil
	}
	s.Category = t.Gold.Category
	return s
}

// triedSeeds are instantiated while loading, so that most faults of values come up before any
// episode is played.
const triedSeeds = 4

// tryOut instantiates a scenario by a few seeds and returns the instance of seed 0, nil after a
// fault.
func tryOut[T any](l *loader, instantiate func(int64) (*T, error)) *T {
	var canonical *T
	for seed := range int64(triedSeeds) {
		t, err := instantiate(seed)
		if err != nil {
			l.errs = append(l.errs, err)
			return nil
		}
		if seed == 0 {
			canonical = t
		}
	}
	return canonical
}

func (l *loader) compiler(pack *openPack, language string) *paramCompiler {
	return &paramCompiler{compiler: newCompiler(l.languages[language], l.locales[language]), pack: pack}
}

// shelfOf gathers the articles of a ticket and declares their params, but for those that the ticket
// sets itself.
func shelfOf(pack *openPack, c *compiler, f *ticketFile) shelf {
	var s shelf
	own := map[string]bool{}
	for _, e := range f.Params {
		own[e.Name] = true
	}
	ids := slices.Concat(f.KB.Available, f.KB.Distractors)
	slices.Sort(ids)
	for i, id := range ids {
		a := pack.article(id)
		if a == nil || i > 0 && ids[i-1] == id {
			c.failf(f.KB.Pos, "article %q is listed twice or missing: there must be one kb/%s.md", id, id)
			continue
		}
		s.articles = append(s.articles, a)
		c.spend(a.cost)
		s.varied = append(s.varied, slices.ContainsFunc(a.params, func(p articleParam) bool { return own[p.name] }))
		for _, p := range a.params {
			s.declare(c, f.KB.Pos, p, own)
		}
	}
	return s
}

func (s *shelf) declare(c *compiler, pos position, p articleParam, own map[string]bool) {
	i := slices.IndexFunc(s.defaults, func(d articleParam) bool { return d.name == p.name })
	switch {
	case own[p.name]:
	case i < 0:
		s.defaults = append(s.defaults, p)
		c.declare(p.name, cel.IntType)
	case s.defaults[i].value != p.value:
		c.failf(pos, "two articles have a param %q of different values: set it in the scenario's params", p.name)
	}
}

// checkTicket checks what can be wrong across fields, without a seed.
func checkTicket(c *compiler, s *TicketScenario) {
	f := s.file
	if len(f.Variants) == 0 {
		c.failf(f.Metadata.Pos, "variants needs at least one")
	}
	checkReply(c, &f.Reply)
	if f.UserSim != nil {
		checkUserSim(c, f.UserSim)
	}
	checkRange(c, f.Metadata.Pos, "sentiment.intensity", int64(f.Sentiment.Intensity), 0, 3)
	for _, a := range slices.Concat(f.Gold.Category.Alternates, f.Gold.Priority.Alternates) {
		checkRange(c, a.Value.pos, "credit", a.Credit, 1, 999)
	}
	checkReferences(c, &f.References)
	if p := f.Gold.Escalation.Policy; p.given() && p.literal() {
		if err := s.shelf.hasSection(p.text); err != nil {
			c.failf(p.pos, "%v", err)
		}
	}
}

func checkReply(c *compiler, f *replyFile) {
	p := f.points()
	if sum := p.Q1 + p.Q2 + p.Q3 + p.Q4 + p.Q5 + p.Q6 + p.Q7 + p.Q8; sum != totalPoints {
		c.failf(f.Points.Pos, "the points sum to %d: they must sum to %d", sum, totalPoints)
	}
	if f.Words != nil && (len(f.Words) != 2 || f.Words[0] < 1 || f.Words[1] < f.Words[0]) {
		c.failf(f.Pos, "length_words is [fewest, most]")
	}
	ids := factIDs(f.Facts)
	checkNames(c, f.Outcome.Pos, "outcome.facts", f.Outcome.Facts, ids)
	for _, q := range f.Questions {
		checkNames(c, q.Pos, "answered_by", q.AnsweredBy, ids)
	}
	for _, g := range f.Forbidden {
		if (g.Kind == "commitment") != (len(g.Verbs) > 0) || (g.Kind != "commitment") != (len(g.Values) > 0) {
			c.failf(g.Pos,
				"forbidden %q: a commitment has verbs and no values, the other kinds have values and no verbs", g.ID)
		}
		checkRange(c, g.Pos, "cap", g.Cap, 0, totalPoints)
	}
}

func factIDs(files []factFile) []string {
	ids := make([]string, len(files))
	for i, f := range files {
		ids[i] = f.ID
	}
	return ids
}

func checkNames(c *compiler, pos position, key string, names, known []string) {
	for _, n := range names {
		if !slices.Contains(known, n) {
			c.failf(pos, "%s names %q, which is not there%s", key, n, suggest(n, known))
		}
	}
}

func checkRange[T cmp.Ordered](c *compiler, pos position, key string, v, lo, hi T) {
	if v < lo || v > hi {
		c.failf(pos, "%s must be from %v to %v, got %v", key, lo, hi, v)
	}
}

func checkReferences(c *compiler, f *referencesFile) {
	for _, b := range f.Bad {
		checkRange(c, b.Text.pos, "max", b.Max, 0, totalPoints)
	}
}
