package scenarios

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/pack"
	"github.com/csenv/csenv/scenarios/params"
	"github.com/csenv/csenv/scenarios/triage"
	"github.com/csenv/csenv/scenarios/words"
)

const (
	lintedSeeds   = 20
	comparedSeeds = 50
	stableWorkers = 8
	drawnSeeds    = 200
	// maxMeanDraws bounds the mean number of draws of an instance. A scenario at the bound whose
	// other branch needs a single draw fails for 3 seeds in a million at expr.MaxTries.
	maxMeanDraws = 20
)

// Lint checks instances of every scenario: the gold against the policies, leaks and the determinism
// of rendering; and of a pack, the cues and the share of workflows that change nothing. It reports
// a finding once, at its first seed. It calls progress, which may be nil, with the numbers of
// finished scenarios and of all.
func (c *Catalog) Lint(ctx context.Context, progress func(done, total int)) ([]Finding, error) {
	l := &linter{seen: map[Finding]int64{}, stableSeeds: comparedSeeds}
	err := l.lintCatalog(ctx, c, progress)
	return l.findings, err
}

func (l *linter) lintCatalog(ctx context.Context, c *Catalog, progress func(done, total int)) error {
	canaries := c.canaries
	if c.indexed != nil {
		public, err := load([]pack.Pack{PublicPack()}, false)
		if err != nil {
			return err
		}
		canaries = slices.Concat(public.canaries, canaries)
	}
	l.checkCanaries(canaries)
	done := 0
	next := func() {
		if done++; progress != nil {
			progress(done, len(c.tickets)+len(c.workflows))
		}
	}
	for _, s := range c.tickets {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		template, err := s.template()
		if err != nil {
			return err
		}
		if t, written := template.(*writtenTicket); written {
			l.eachSeed(func(seed int64) { l.lintTicket(t, seed) })
			l.checkDraws(&t.file.Drawing, func(seed int64) (expr.Values, int, error) {
				return t.file.Draw(t.drawRequest(seed))
			})
		} else {
			l.eachSeed(func(seed int64) { l.lintCaseTicket(s, seed) })
		}
		checkStability(l, s.File, s.Instantiate)
		next()
	}
	for _, s := range c.workflows {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		template, err := s.template()
		if err != nil {
			return err
		}
		w, _ := template.(*writtenWorkflow)
		l.eachSeed(func(seed int64) { l.lintWorkflow(w, seed) })
		l.checkDraws(&w.file.Drawing, func(seed int64) (expr.Values, int, error) {
			return w.file.Draw(w.drawRequest(seed))
		})
		checkStability(l, s.File, s.Instantiate)
		next()
	}
	l.checkCues(c.tickets)
	l.checkChanges(c)
	return nil
}

func (l *linter) eachSeed(check func(seed int64)) {
	for seed := range int64(lintedSeeds) {
		check(seed)
	}
}

// checkDraws reports constraints that reject so many draws that a seed could have no instance.
func (l *linter) checkDraws(d *params.Drawing, draw func(seed int64) (expr.Values, int, error)) {
	if len(d.Constraints) == 0 {
		return
	}
	total := 0
	for seed := range int64(drawnSeeds) {
		_, tries, _ := draw(seed) // the rule about instances reports the errors
		total += tries
	}
	if mean := total / drawnSeeds; mean > maxMeanDraws {
		l.findings = append(l.findings, Finding{d.Constraints[0].Pos.String(), ruleDraws, fmt.Sprintf(
			"an instance takes %d draws on average until the constraints hold: widen the params' ranges or loosen a "+
				"constraint, at most %d are allowed", mean, maxMeanDraws)})
	}
}

var canaryForm = regexp.MustCompile(`^csenv-canary [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func (l *linter) checkCanaries(canaries []canary) {
	first := map[*openPack]string{}
	for _, c := range canaries {
		if _, ok := first[c.pack]; !ok {
			first[c.pack] = c.text
		}
		if !canaryForm.MatchString(c.text) || c.text != first[c.pack] {
			l.reportf(c.file, ruleCanary, "the canary is %q: every file of a pack has the same one, \"csenv-canary "+
				"<uuid>\"", c.text)
		}
	}
}

func (l *linter) lintTicket(s *writtenTicket, seed int64) {
	l.seed = seed
	b, err := s.buildTicket(seed)
	if err != nil {
		l.reportf(s.File, ruleInstance, "%v", err)
		return
	}
	l.lintInstance(b)
}

// lintCaseTicket checks an instance of a generated ticket, whose gold is computed.
func (l *linter) lintCaseTicket(s *TicketScenario, seed int64) {
	l.seed = seed
	t, err := s.Instantiate(seed)
	if err != nil {
		l.reportf(s.File, ruleInstance, "%s: %v", s.ID, err)
		return
	}
	l.checkPlaceholders(s.File, ownTexts(*t))
	l.checkFactValues(s.File, t.Reply.Facts)
	l.checkRequired(s.File, t.Required(), facts.NewContext(t.Language, t.Now), t.References.Good)
	if served := servedText(t); t.Gold.Escalate && words.ContainsFold(served, t.Gold.Team+" team") {
		l.reportf(s.File, ruleLeak, "%s: the customer's text names the %s team", s.ID, t.Gold.Team)
	}
}

func (l *linter) lintInstance(b *ticketBuild) {
	s := b.s
	l.checkPolicy(b)
	l.checkPlaceholders(s.File, ownTexts(b.ticket))
	l.ticketLeaks(b)
	l.checkFactValues(s.file.Reply.Pos.String(), b.ticket.Reply.Facts)
	l.checkRequired(s.file.Reply.Pos.String(), b.ticket.Required(), facts.NewContext(b.ticket.Language, b.ticket.Now),
		b.ticket.References.Good)
	for _, q := range b.ticket.Reply.Questions {
		if len(q.AnsweredBy) == 0 {
			l.reportf(s.file.Reply.Pos.String(), ruleFacts, "no fact answers question %s", q.ID)
		}
	}
	checkUniqueIDs(l, s.File, "question", b.ticket.Reply.Questions, func(q Question) string { return q.ID })
	checkUniqueIDs(l, s.File, "harm", s.harm, func(h Harm) string { return h.ID })
}

// ownTexts returns a ticket without its bad references and without copies of other texts.
func ownTexts(t Ticket) Ticket {
	t.References.Bad, t.Reply.AllowedValues = nil, nil
	return t
}

// checkPolicy compares the stated gold with the result of the policies.
func (l *linter) checkPolicy(b *ticketBuild) {
	gold, stated, at := b.ticket.Gold, b.stated, b.s.file.Gold.Pos.String()
	priority, rule := b.situation.Priority()
	if stated.Priority != priority || stated.Rule != rule {
		l.reportf(at, rulePolicy, "priority is stated as %s by rule %s, the situation makes it %s by %s",
			stated.Priority, stated.Rule, priority, rule)
	}
	if want, err := triage.SLAMinutes(priority); err != nil || int64(b.ticket.SLAMinutes) != want {
		l.reportf(b.s.file.SLA.FirstResponseMinutes.Pos.String(), ruleSLA,
			"first_response_minutes is %d, %s priority has %d", b.ticket.SLAMinutes, priority, want)
	}
	e, needed := b.situation.Escalation()
	if stated.Escalate != needed {
		l.reportf(at, rulePolicy, "escalation.required is stated as %t, the situation makes it %t", stated.Escalate,
			needed)
	}
	if !needed {
		return
	}
	if stated.Team != e.Team || stated.ReasonCode != e.ReasonCode {
		l.reportf(at, rulePolicy, "escalation is stated as %s to %s, the situation makes it %s to %s",
			stated.ReasonCode, stated.Team, e.ReasonCode, e.Team)
	}
	if article, _, _ := strings.Cut(gold.Policy, "#"); e.Article != "" && article != e.Article {
		l.reportf(at, rulePolicy, "escalation.policy is %s, the rule is in %s", gold.Policy, e.Article)
	}
	if err := b.s.shelf.hasSection(gold.Policy); err != nil {
		l.reportf(at, rulePolicy, "%v", err)
	}
}

// ticketLeaks searches for gold in the customer's texts.
func (l *linter) ticketLeaks(b *ticketBuild) {
	t := &b.ticket
	served := servedText(t)
	said := served
	if t.UserSim != nil {
		said += "\n" + t.UserSim.joinTexts()
	}
	tokens := []string{t.Gold.ReasonCode, b.stated.Rule, t.Gold.Policy}
	if t.Gold.Escalate {
		tokens = append(tokens, t.Gold.Team+" team", t.Gold.Team+" desk")
	}
	for _, token := range tokens {
		// A token of one plain word, such as the rule "delay", is everyday language and reveals
		// nothing.
		if strings.ContainsAny(token, "_#- ") && words.ContainsFold(said, token) {
			l.reportf(b.s.File, ruleLeak, "the customer's text contains the gold token %q", token)
		}
	}
	l.factLeaks(&b.instance, b.s.file.Reply.Facts, served)
	l.unserved(b, said)
	l.script(b, served)
}

// unserved searches for required facts of a fixed value that nothing contains which the agent is
// served or can find, so that nobody can know them. Values that are computed can follow from
// others, and an agent chooses from a list.
func (l *linter) unserved(b *ticketBuild, said string) {
	fixed := slices.DeleteFunc(b.ticket.Required(), func(w facts.Wanted) bool {
		i := slices.IndexFunc(b.s.file.Reply.Facts, func(f factFile) bool { return f.ID == w.ID })
		n, _ := facts.Find(w.What)
		return i < 0 || !b.s.file.Reply.Facts[i].Value.Literal() || n.Type == facts.Enum
	})
	if len(fixed) == 0 {
		return
	}
	for _, a := range b.ticket.Articles {
		said += "\n" + a.Title + "\n" + a.Body
	}
	stated, c := make([]facts.Fact, len(fixed)), facts.NewContext(b.ticket.Language, b.ticket.Now)
	for i, f := range fixed {
		stated[i] = facts.Fact{What: f.What, Value: f.Values[0]}
	}
	gold := facts.NewLibrary().Gold(c, facts.Served{}, fixed, nil, false)
	for i, finding := range gold.Compare(stated, c.NewMessage(said)).Required {
		if finding == facts.Untold {
			l.reportf(b.s.File, ruleFacts, "nothing that the agent is served or can find contains fact %s, %s %q: "+
				"add it to a text or to an article", fixed[i].ID, fixed[i].What, fixed[i].Values[0])
		}
	}
}

func (l *linter) checkFactValues(position string, facts []Fact) {
	if !slices.ContainsFunc(facts, func(f Fact) bool { return !f.Optional && !f.Judged }) {
		l.reportf(position, ruleFacts, "no required fact remains: style alone would earn the reply's points")
	}
	checkUniqueIDs(l, position, "fact", facts, func(f Fact) string { return f.ID })
	for _, f := range facts {
		if f.Value == "" {
			l.reportf(position, ruleFacts, "fact %s needs a value", f.ID)
		}
	}
}

// checkRequired checks that an agent can state every required fact, and tell it with the first good
// reply.
func (l *linter) checkRequired(position string, required []facts.Wanted, c *facts.Context, good []string) {
	if len(required) > facts.MaxStated {
		l.reportf(position, ruleFacts, "%d facts are required, at most %d are allowed: make others optional",
			len(required), facts.MaxStated)
	}
	stated := make([]facts.Fact, len(required))
	for i, f := range required {
		stated[i] = facts.Fact{What: f.What, Value: f.Values[0]}
	}
	gold := facts.NewLibrary().Gold(c, facts.Served{}, required, nil, false)
	for i, finding := range gold.Compare(stated, c.NewMessage(good[0])).Required {
		switch finding {
		case facts.Right:
		case facts.Untold:
			l.reportf(position, ruleFacts, "the first good reply lacks fact %s, %s %q", required[i].ID,
				required[i].What, required[i].Values[0])
		default:
			l.reportf(position, ruleFacts, "fact %s, %s %q, can't be stated: its value isn't one of its type, or "+
				"another fact is the same", required[i].ID, required[i].What, required[i].Values[0])
		}
	}
}

func (l *linter) lintWorkflow(s *writtenWorkflow, seed int64) {
	l.seed = seed
	w, in, err := s.buildWorkflow(seed)
	if err != nil {
		l.reportf(s.File, ruleInstance, "%v", err)
		return
	}
	l.checkPlaceholders(s.File, w.References.Good)
	l.checkPlaceholders(s.File, []any{w.Customer, w.Query, w.Visible, w.Records, w.Facts, w.Steps})
	l.checkFactValues(s.file.Metadata.Pos.String(), w.Facts)
	l.checkRequired(s.file.Metadata.Pos.String(), w.Required(), facts.NewContext(w.Language, w.Now), w.References.Good)
	l.checkWorkflowLeaks(s, w, in)
	checkUniqueIDs(l, s.File, "step", w.Steps, func(s WorkflowStep) string { return s.ID })
	checkUniqueIDs(l, s.File, "forbidden action", w.Forbidden, func(f ForbiddenAction) string { return f.ID })
	checkUniqueIDs(l, s.File, "harm", s.harm, func(h Harm) string { return h.ID })
	checkUniqueIDs(l, s.File, "order", w.Records.Orders, func(o desk.Order) string { return o.ID })
	checkUniqueIDs(l, s.File, "payment", w.Records.Payments, func(p desk.Payment) string { return p.ID })
	l.checkGoals(s, w)
	if len(w.Steps) > w.MaxSteps {
		l.reportf(s.File, ruleGoal, "%d steps are required, limits.max_steps allows %d", len(w.Steps), w.MaxSteps)
	}
}

// checkGoals checks that an agent that does nothing doesn't reach the goal.
func (l *linter) checkGoals(s *writtenWorkflow, w *Workflow) {
	reached := true
	for _, g := range w.Goal {
		holds, err := g.Holds(Moment{Records: &w.Records})
		if err != nil {
			l.reportf(s.File, ruleGoal, "%v", err)
		}
		reached = reached && holds
	}
	if reached {
		l.reportf(s.File, ruleGoal, "the goal holds before the first action: add \"replied\"")
	}
}

func (l *linter) checkWorkflowLeaks(s *writtenWorkflow, w *Workflow, in *instance) {
	l.factLeaks(in, s.file.Facts, w.Query)
	for _, status := range []string{w.Visible.OrderStatus, w.Visible.PaymentStatus} {
		if status != "" && status != "unknown" {
			l.reportf(s.File, ruleLeak, "initial_visible shows %q: a check must carry information", status)
		}
	}
}

// checkStability renders every seed of a scenario in two of many goroutines and compares the
// hashes.
func checkStability[T any](l *linter, path string, instantiate func(int64) (*T, error)) {
	const half = stableWorkers / 2
	hashes := make([][2][sha256.Size]byte, l.stableSeeds)
	var wg sync.WaitGroup
	for worker := range stableWorkers {
		wg.Go(func() {
			for seed := worker % half; seed < len(hashes); seed += half {
				hashes[seed][worker/half] = hashInstance(instantiate(int64(seed)))
			}
		})
	}
	wg.Wait()
	for seed, h := range hashes {
		if l.seed = int64(seed); h[0] != h[1] {
			l.reportf(path, ruleStable, "rendering the same seed again gives different bytes")
		}
	}
}

// hashInstance hashes an instance, or the error of its instantiation.
func hashInstance[T any](instance *T, err error) [sha256.Size]byte {
	if err != nil {
		return sha256.Sum256([]byte(err.Error()))
	}
	data, err := json.Marshal(instance)
	if err != nil {
		return sha256.Sum256([]byte(err.Error()))
	}
	return sha256.Sum256(data)
}
