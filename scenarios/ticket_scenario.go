package scenarios

import (
	"maps"
	"slices"
	"strings"
	"time"

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

	// Family is that of a generated ticket, "" for others.
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

// Variants draws a ticket once in each wording that the seed permits, including that of
// Instantiate. A generated ticket has one wording.
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

// instance renders the parts that tickets and workflows share.
type instance struct{ expr.Scope }

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

func (in *instance) renderCustomer(f *customerFile) Customer {
	return Customer{Name: in.Text(f.Name), Company: in.Text(f.Company), AccountLevel: f.AccountLevel,
		Since: in.Instant(f.Since)}
}

// renderStory renders the customer's texts: one of the variants, the history and the attachments.
func (b *ticketBuild) renderStory(variant int) {
	f, t := b.s.file, &b.ticket
	variants := expr.FilterMap(&b.Scope, f.Variants, func(v variantFile) variantFile { return v })
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
// has those of the nearest calmer one.
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

// moodLines are the lines of one mood.
type moodLines struct {
	name  string
	lines []expr.Text
}

// moods lists the moods from calm to angry.
func (f *simLinesFile) moods() []moodLines {
	return []moodLines{{"calm", f.Calm}, {"uneasy", f.Uneasy}, {"annoyed", f.Annoyed}, {"angry", f.Angry}}
}

// maxUserTurns bounds the messages of a customer, and so the memory of an episode.
const maxUserTurns = 10

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
