package offline

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
)

// prepared is a ticket made ready for the offline judge: everything that doesn't depend on the
// reply. It is immutable.
type prepared struct {
	ticket *scenarios.Ticket
	lex    *lexicon
	lib    *library
	facts  []fact
	// required counts the facts that share Q1.
	required int
	// keys counts the facts among them that show an answer to this very ticket.
	keys    int
	outcome []form
	gates   []gate
	// told are the claims that the ticket itself or a fact makes, allowed those that a reply may
	// make besides.
	told, allowed []claim
	// bases are the days that were told.
	bases []time.Time
	// shelf are the articles, whose claims a reply may make too.
	shelf []*extract
	// served are the runs of words of the ticket, sources those of the articles and the rubric as
	// well.
	served          gramSet
	sources         []gramSet
	servedSentences map[uint64]bool
	rubric          map[string]struct{}
	topic           wordSet
	names           wordSet
	teams           []term
	upset           bool
}

// gate is one of the scenario's forbidden statements.
type gate struct {
	scenarios.Forbidden
	remedies []remedy
	values   []form
	allowed  []claim
}

// prepare reads a ticket. Its language is the first of its tag that a lexicon knows, English
// otherwise.
func prepare(t *scenarios.Ticket, libraries map[string]*library) *prepared {
	language, _, _ := strings.Cut(strings.ToLower(t.Language), "-")
	lib := libraries[language]
	if lib == nil {
		lib = libraries["en"]
	}
	p := &prepared{ticket: t, lex: lib.lexicon, lib: lib, upset: t.Tone == "angry" || t.Tone == "worried"}
	p.readSpec(t.Reply)
	p.addDerived(t.Now)
	p.addNearDays(t.Now)
	p.readTexts(t)
	p.readBases()
	p.readRubric(t.Reply)
	p.teams = lib.terms(append([]string{t.Gold.Team}, t.Gold.TeamAlternates...))
	p.names = nameSet(t.Customer)
	return p
}

// readSpec reads the facts, the outcome and the gates.
func (p *prepared) readSpec(spec scenarios.ReplySpec) {
	for _, f := range spec.Facts {
		p.facts = append(p.facts, p.lib.fact(f))
		if !f.Optional {
			p.required++
		}
	}
	for _, text := range spec.Outcome.Accept {
		p.outcome = append(p.outcome, p.lib.form(text))
	}
	for _, f := range spec.Forbidden {
		g := gate{Forbidden: f}
		for _, v := range f.Verbs {
			g.remedies = append(g.remedies, p.lib.remedyOf(v))
		}
		for _, v := range f.Values {
			g.values = append(g.values, p.lib.form(v))
			g.allowed = appendNew(g.allowed, g.values[len(g.values)-1].claims)
		}
		p.gates = append(p.gates, g)
	}
}

// readTexts reads what was served and what may be said: claims, the topic's words, and the runs of
// words that would be copies.
func (p *prepared) readTexts(t *scenarios.Ticket) {
	p.topic, p.servedSentences = wordSet{}, map[uint64]bool{}
	p.served = gramSet{}
	served := servedTexts(t)
	for _, text := range served {
		d := p.lib.read(text)
		p.told = appendNew(p.told, d.claims)
		p.served.add(d.tokens)
		p.addTopic(d)
		p.markShown(d)
		for _, s := range d.sentences {
			p.servedSentences[hashTokens(d.tokens[s.lo:s.hi])] = true
		}
	}
	p.sources = append(p.sources, p.served)
	p.markDistinct()
	for i := range p.facts {
		for k := range p.facts[i].forms {
			p.told = appendNew(p.told, p.facts[i].forms[k].claims)
		}
	}
	p.markKeys()
	for _, a := range t.Articles {
		p.addArticle(a.Title)
		p.addArticle(a.Body)
	}
	p.allowed = append(p.deadlines(t), dayClaim(t.Now), dayClaim(t.Customer.Since))
	for _, text := range t.Reply.AllowedValues {
		if !slices.Contains(served, text) && !holdsText(t.Articles, text) {
			p.allowed = append(p.allowed, p.lib.form(text).claims...)
		}
	}
}

// addArticle adds what a reply may state of a text from the knowledge base, and may not copy.
func (p *prepared) addArticle(text string) {
	e := p.lib.extract(text)
	p.shelf = append(p.shelf, e)
	if len(e.grams) > 0 {
		p.sources = append(p.sources, e.grams)
	}
}

func holdsText(articles []scenarios.Article, text string) bool {
	return slices.ContainsFunc(articles, func(a scenarios.Article) bool { return a.Body == text })
}

// supports tells whether a reply may state the claim: the ticket tells it, or its facts, what lies
// behind it, or an article.
func (p *prepared) supports(c claim) bool {
	if containsClaim(p.told, c) || containsClaim(p.allowed, c) {
		return true
	}
	return slices.ContainsFunc(p.shelf, func(e *extract) bool { return containsClaim(e.claims, c) }) || p.follows(c)
}

// servedTexts are what the agent was given to read with the ticket.
func servedTexts(t *scenarios.Ticket) []string {
	served := append(make([]string, 0, 2+len(t.History)+2*len(t.Attachments)), t.Subject, t.Description)
	for _, m := range t.History {
		served = append(served, m.Text)
	}
	for _, a := range t.Attachments {
		served = append(served, a.Name, a.Content)
	}
	return served
}

// deadlines are the claims of the time in which the ticket has to be answered.
func (p *prepared) deadlines(t *scenarios.Ticket) []claim {
	minutes := int64(t.SLAMinutes)
	if minutes <= 0 {
		return nil
	}
	return []claim{{kind: durationClaim, unit: seconds, value: minutes * 60 * 1000}}
}

// markShown marks the facts whose value a served text holds. A day that it names is nobody's
// answer, so it doesn't state a duration.
func (p *prepared) markShown(d *document) {
	for i := range p.facts {
		f := &p.facts[i]
		f.forms = slices.DeleteFunc(f.forms, func(form form) bool {
			at := slices.ContainsFunc(d.sentences, func(s span) bool { return form.in(d, s) >= 0 })
			f.shown = f.shown || at && !form.derived
			return at && form.derived
		})
	}
}

// markDistinct marks the forms of values that can't be another fact's. What is told are the
// ticket's own claims.
func (p *prepared) markDistinct() {
	for i := range p.facts {
		for k := range p.facts[i].forms {
			form := &p.facts[i].forms[k]
			form.distinct = len(form.claims) > 0
			for _, c := range form.claims {
				form.distinct = form.distinct && !c.soft() && !containsClaim(p.told, c) && !p.claimed(c, i)
			}
		}
	}
}

// claimed tells whether a fact other than the i-th makes the claim.
func (p *prepared) claimed(c claim, i int) bool {
	for k := range p.facts {
		if k != i && slices.ContainsFunc(p.facts[k].forms, func(f form) bool { return containsClaim(f.claims, c) }) {
			return true
		}
	}
	return false
}

// addNearDays adds the names of days that are near to the facts whose value is the date: nobody
// writes one for tomorrow.
func (p *prepared) addNearDays(now time.Time) {
	for i := range p.facts {
		f := &p.facts[i]
		for _, form := range f.forms {
			if form.derived || len(form.claims) != 1 || form.claims[0].kind != dateClaim ||
				form.claims[0].value < 1_01_01 {
				continue
			}
			value := form.claims[0].value
			day := time.Date(int(value/10000), time.Month(value/100%100), int(value%100), 0, 0, 0, 0, time.UTC)
			if name := p.lex.nearDay(now, day); name != "" {
				f.forms = append(f.forms, p.lib.form(name))
			}
		}
	}
}

// markKeys marks the required facts that show an answer to this very ticket: those that the seed
// decides and the ticket doesn't tell. Where it has none, what the seed decides will do, then what
// the ticket doesn't tell, then any.
func (p *prepared) markKeys() {
	for _, key := range []func(f *fact) bool{
		func(f *fact) bool { return f.drawn && !f.shown },
		func(f *fact) bool { return f.drawn },
		func(f *fact) bool { return !f.shown },
		func(*fact) bool { return true },
	} {
		for i := range p.facts {
			f := &p.facts[i]
			f.key = !f.optional && key(f)
			if f.key {
				p.keys++
			}
		}
		if p.keys > 0 {
			return
		}
	}
}

// addTopic adds the words that tell what a served text is about.
func (p *prepared) addTopic(d *document) {
	for _, t := range d.tokens {
		if t.kind == wordToken && len(t.text) >= 4 && !t.is(Stopwords) && !t.stemIs(Courtesy) {
			p.topic[t.stem] = struct{}{}
		}
	}
}

// readRubric reads what a reply must not be made of: the rubric's texts as runs, and the words of
// facts, contexts and outcome as a list.
func (p *prepared) readRubric(spec scenarios.ReplySpec) {
	var words []uint64
	for _, text := range spec.Rubric {
		if !holdsText(p.ticket.Articles, text) {
			words = append(words, p.lib.extract(text).hashes...)
		}
	}
	rubric := gramSet{}
	rubric.addHashes(words)
	p.sources = append(p.sources, rubric)
	p.rubric = map[string]struct{}{}
	for _, f := range spec.Facts {
		p.addRubric(f.ID, f.Slot, f.Value)
		p.addRubric(f.Accept...)
		p.addRubric(f.Context...)
	}
	p.addRubric(spec.Outcome.Value)
	p.addRubric(spec.Outcome.Accept...)
}

func (p *prepared) addRubric(texts ...string) {
	for _, text := range texts {
		for _, key := range p.lib.extract(strings.ReplaceAll(text, "_", " ")).keys {
			p.rubric[key] = struct{}{}
		}
	}
}

// nameSet are the names by which the customer can be addressed.
func nameSet(c scenarios.Customer) wordSet {
	plain := normalise(c.Name)
	set := wordSet{}
	for _, w := range strings.FieldsFunc(fold(plain), func(r rune) bool { return strings.ContainsRune(" -.'", r) }) {
		if len(w) > 1 {
			set[w] = struct{}{}
		}
	}
	return set
}

// offers returns the points of the criteria in order, with their ids.
func offers(p scenarios.Points) []grader.Criterion {
	out := make([]grader.Criterion, 0, 8)
	for i, n := range []int64{p.Q1, p.Q2, p.Q3, p.Q4, p.Q5, p.Q6, p.Q7, p.Q8} {
		out = append(out, grader.Criterion{ID: "Q" + strconv.Itoa(i+1), Offered: n})
	}
	return out
}
