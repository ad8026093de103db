package prose

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/text"
	"github.com/csenv/csenv/scenarios"
)

// prepared is a ticket prepared for the offline judge: everything that doesn't depend on the reply.
// It is immutable.
type prepared struct {
	ticket         *scenarios.Ticket
	lex            *text.Lexicon
	lib            *library
	facts          []fact
	required       int // the number of facts that share Q1
	discriminating int // the number of required facts that show an answer to this ticket
	outcome        []form
	gates          []gate
	harms          []harmful
	generated      bool // a generated case
	// known are the values that the ticket or a fact states, allowed the other values that a reply
	// may state.
	known, allowed []text.Value
	bases          []time.Time           // the known days
	days           func() map[int64]bool // those that follow, by number
	shelf          []*extract            // the articles, whose values a reply may state too
	// sources are the ticket, the articles and the rubric.
	sources         []source
	servedSentences hashSet
	rubric          hashSet
	topic           hashSet
	words           hashSet // the words and values that characterise the ticket
	names           wordSet
	teams           []text.Term
	upset           bool
	// written are the folded texts that the writer of a reply could read, vocabulary the sets of
	// their words.
	written    func() []string
	vocabulary func() []hashSet
}

// gate is one of the scenario's forbidden statements.
type gate struct {
	scenarios.Forbidden
	remedies []remedy
	values   []form
	allowed  []text.Value
	from     []text.Value
}

// prepareTicket reads a ticket in the language of its tag, or in English.
func prepareTicket(t *scenarios.Ticket, all libraries) *prepared {
	language, _, _ := strings.Cut(strings.ToLower(t.Language), "-")
	find := all[language]
	if find == nil {
		find = all["en"]
	}
	lib := find()
	p := &prepared{ticket: t, lex: lib.Lexicon, lib: lib, generated: t.Decision != nil,
		upset: t.Tone == "angry" || t.Tone == "worried"}
	p.readSpec(t.Reply)
	p.addDerived(t.Now)
	p.addNearDays(t.Now)
	p.readTexts(t)
	p.readBases()
	p.days = sync.OnceValue(p.daysThatFollow)
	p.readRubric(t.Reply)
	p.teams = lib.terms(append([]string{t.Gold.Team}, t.Gold.TeamAlternates...)...)
	p.names = nameSet(t.Customer)
	shared := make([]string, 0, 2*len(t.Articles))
	for _, a := range t.Articles {
		shared = append(shared, a.Title, a.Body)
	}
	p.setReadable(shared, []string{t.Customer.Name, t.Customer.Company}, t.Reply.Facts, t.References.Good)
	return p
}

// readBases collects the known days, and those of all messages.
func (p *prepared) readBases() {
	for _, m := range p.ticket.History {
		p.bases = append(p.bases, startOfDay(m.At))
	}
	p.bases = append(p.bases, startOfDay(p.ticket.Now).AddDate(0, 0, 1))
	for _, c := range p.known {
		p.bases = append(p.bases, c.Days(p.ticket.Now)...)
	}
}

// addDerived adds, to each fact whose value is a duration from now, the day or the time at which it
// ends.
func (p *prepared) addDerived(now time.Time) {
	for i := range p.facts {
		f := &p.facts[i]
		for _, form := range f.forms {
			if len(form.values) == 1 && form.values[0].Kind == text.DurationValue {
				f.forms = append(f.forms, p.endings(form.values[0], now)...)
			}
		}
	}
}

// endings returns the forms that state the end of a duration that begins now.
func (p *prepared) endings(c text.Value, now time.Time) []form {
	if m := c.Minutes(); m > 0 && m < text.MinutesPerDay {
		at := text.Value{Kind: text.ClockValue, Amount: (clockOf(now) + m) % text.MinutesPerDay, Slack: nearMinutes}
		return []form{{values: []text.Value{at}, derived: true}}
	}
	end, ok := c.Shift(startOfDay(now), 1)
	if !ok {
		return nil
	}
	ends := []time.Time{end}
	if daysBetween(end, startOfDay(now)) >= longDays {
		ends = append(ends, end.AddDate(0, 0, 1), end.AddDate(0, 0, -1))
	}
	out := make([]form, 0, len(ends)+1)
	for _, e := range ends {
		out = append(out, form{values: []text.Value{text.DayValue(e)}, derived: true})
	}
	if name := p.lex.NearDay(now, end); name != "" {
		f := p.lib.form(name)
		f.derived = true
		out = append(out, f)
	}
	return out
}

// readSpec reads the facts, the outcome and the gates.
func (p *prepared) readSpec(spec scenarios.ReplySpec) {
	for _, f := range spec.Facts {
		p.facts = append(p.facts, p.lib.fact(f))
		if !f.Optional {
			p.required++
		}
	}
	p.outcome = p.lib.listForms(spec.Outcome.Accept...)
	for _, f := range spec.Forbidden {
		g := gate{Forbidden: f}
		for _, v := range f.Verbs {
			g.remedies = append(g.remedies, p.lib.remedyOf(v))
		}
		if f.From != "" {
			g.from = p.lib.form(f.From).values
		}
		for _, v := range f.Values {
			g.values = append(g.values, p.lib.form(v))
			g.allowed = text.AppendNew(g.allowed, g.values[len(g.values)-1].values)
		}
		p.gates = append(p.gates, g)
	}
	for i := range spec.Harm {
		p.harms = append(p.harms, p.lib.harmful(&spec.Harm[i]))
	}
}

// remedyOf reads a forbidden verb. English names of remedies apply in every language.
func (l *library) remedyOf(verb string) remedy {
	t := l.term(verb)
	if len(t.Stems) == 1 {
		if name := l.RemedyOf(t.Stems[0]); name != "" {
			return remedy{name: name}
		}
		if slices.Contains(remedyNames(), t.Text) {
			return remedy{name: t.Text}
		}
	}
	return remedy{term: t}
}

// remedyNames lists the remedies for which every lexicon has words.
func remedyNames() []string {
	return []string{"refund", "credit", "replace", "waive", "compensate", "discount", "guarantee"}
}

// readTexts reads the served texts and the permitted ones: values, the topic's words, and the runs
// of words that count as copies.
func (p *prepared) readTexts(t *scenarios.Ticket) {
	served, length := t.ServedTexts(), 0
	for _, wording := range served {
		length += len(wording)
	}
	p.topic, p.words = newHashSet(length/lettersOfNew), newHashSet(length/lettersOfNew)
	p.servedSentences = newHashSet(length / lettersOfSentence)
	p.sources = append(p.sources, newSource(length/lettersOfWord))
	for _, wording := range served {
		p.lib.scan(wording, p.readServed)
	}
	p.markDistinct()
	for i := range p.facts {
		for k := range p.facts[i].forms {
			p.known = text.AppendNew(p.known, p.facts[i].forms[k].values)
		}
	}
	p.markDiscriminating()
	for _, a := range t.Articles {
		p.addArticle(a.Title)
		p.addArticle(a.Body)
	}
	if t.SLAMinutes > 0 {
		sla := text.Value{Kind: text.DurationValue, Unit: text.Seconds, Amount: int64(t.SLAMinutes) * 60 * 1000}
		p.allowed = append(p.allowed, sla)
	}
	p.allowed = append(p.allowed, text.DayValue(t.Now), text.DayValue(t.Customer.Since))
	for _, wording := range t.Reply.AllowedValues {
		if !slices.Contains(served, wording) && !holdsText(t.Articles, wording) {
			p.allowed = append(p.allowed, p.lib.form(wording).values...)
		}
	}
}

// The usual number of bytes of a served text for each word, each different word that characterises
// it, and each sentence.
const lettersOfWord, lettersOfNew, lettersOfSentence = 6, 14, 60

func (p *prepared) readServed(d *text.Document) {
	p.known = text.AppendNew(p.known, d.Values)
	hashes := make([]uint64, 0, len(d.Tokens))
	for i := range d.Tokens {
		t := &d.Tokens[i]
		if t.Kind == text.WordToken {
			hashes = append(hashes, t.Hash())
		}
		if isCharacteristic(t) {
			p.words.add(t.KeyHash())
		}
	}
	p.sources[0].add(hashes)
	p.addTopic(d)
	p.markVisible(d)
	for _, s := range d.Sentences {
		p.servedSentences.add(hashTokens(d.Tokens[s.Lo:s.Hi]))
	}
}

// addArticle adds a text from the knowledge base: a reply may state its values, but not copy it.
func (p *prepared) addArticle(wording string) {
	e := p.lib.article(wording)
	p.shelf = append(p.shelf, e)
	p.sources = append(p.sources, e.source())
}

func holdsText(articles []scenarios.Article, wording string) bool {
	return slices.ContainsFunc(articles, func(a scenarios.Article) bool { return a.Body == wording })
}

// supports reports whether a reply may state the value: the ticket, a fact or an article states it,
// or it follows from them.
func (p *prepared) supports(c text.Value) bool {
	if text.Contains(p.known, c) || text.Contains(p.allowed, c) {
		return true
	}
	return slices.ContainsFunc(p.shelf, func(e *extract) bool { return text.Contains(e.values, c) }) || p.follows(c)
}

// markVisible marks the facts whose value is in a text that the agent was given. Derived forms in
// such a text are removed, because they don't state the fact.
func (p *prepared) markVisible(d *text.Document) {
	for i := range p.facts {
		f := &p.facts[i]
		f.forms = slices.DeleteFunc(f.forms, func(form form) bool {
			at := slices.ContainsFunc(d.Sentences, func(s text.Span) bool { return form.in(d, s) >= 0 })
			f.visible = f.visible || at && !form.derived
			return at && form.derived
		})
	}
}

// markDistinct marks the forms whose values neither another fact nor the ticket states. The known
// values are still the ticket's alone.
func (p *prepared) markDistinct() {
	for i := range p.facts {
		for k := range p.facts[i].forms {
			form := &p.facts[i].forms[k]
			form.distinct = len(form.values) > 0 || p.facts[i].seeded && !p.facts[i].visible
			for _, c := range form.values {
				form.distinct = form.distinct && !c.Soft() && !text.Contains(p.known, c) && !p.statedElsewhere(c, i)
			}
		}
	}
}

// statedElsewhere reports whether a fact other than the i-th states the value.
func (p *prepared) statedElsewhere(c text.Value, i int) bool {
	for k := range p.facts {
		if k != i && slices.ContainsFunc(p.facts[k].forms, func(f form) bool { return text.Contains(f.values, c) }) {
			return true
		}
	}
	return false
}

// addNearDays adds weekdays to the facts whose value is a date in the coming week.
func (p *prepared) addNearDays(now time.Time) {
	for i := range p.facts {
		f := &p.facts[i]
		for _, form := range f.forms {
			if form.derived || len(form.values) != 1 || form.values[0].Kind != text.DateValue ||
				form.values[0].Amount < 1_01_01 {
				continue
			}
			value := form.values[0].Amount
			day := time.Date(int(value/10000), time.Month(value/100%100), int(value%100), 0, 0, 0, 0, time.UTC)
			if name := p.lex.NearDay(now, day); name != "" {
				f.forms = append(f.forms, p.lib.form(name))
			}
		}
	}
}

// markDiscriminating marks the required facts that show an answer to this ticket: those that depend
// on the seed and aren't visible in it. If there are none, those that depend on the seed; then
// those that aren't visible; then all.
func (p *prepared) markDiscriminating() {
	for _, key := range []func(f *fact) bool{
		func(f *fact) bool { return f.seeded && !f.visible },
		func(f *fact) bool { return f.seeded },
		func(f *fact) bool { return !f.visible },
		func(*fact) bool { return true },
	} {
		for i := range p.facts {
			f := &p.facts[i]
			f.discriminating = !f.optional && key(f)
			if f.discriminating {
				p.discriminating++
			}
		}
		if p.discriminating > 0 {
			return
		}
	}
}

// addTopic adds the words that characterise a text.
func (p *prepared) addTopic(d *text.Document) {
	for i := range d.Tokens {
		t := &d.Tokens[i]
		if t.Kind == text.WordToken && len(t.Text) >= 4 && !t.Is(text.Stopwords) && !t.StemIs(text.Courtesy) {
			p.topic.add(t.KeyHash())
		}
	}
}

// readRubric reads the texts that a reply must not be copied from, and the words of facts, contexts
// and outcome, which it must not list.
func (p *prepared) readRubric(spec scenarios.ReplySpec) {
	texts := slices.DeleteFunc(slices.Clone(spec.Rubric),
		func(wording string) bool { return holdsText(p.ticket.Articles, wording) })
	p.sources = append(p.sources, loadOrCompute(p.lib.rubrics, joinTexts(texts), func(string) source {
		var words []uint64
		for _, wording := range texts {
			words = append(words, p.lib.extract(wording).hashes...)
		}
		rubric := newSource(len(words))
		rubric.add(words)
		return rubric
	}))
	p.rubric = newHashSet(wordsOfFact * (1 + len(spec.Facts)))
	for _, f := range spec.Facts {
		p.addRubric(f.ID, f.Slot)
		p.addRubric(f.Value)
		p.addRubric(f.Accept...)
		p.addRubric(f.Context...)
	}
	p.addRubric(spec.Outcome.Value)
	p.addRubric(spec.Outcome.Accept...)
}

// wordsOfFact is the usual number of different words of a fact with its forms and its context.
const wordsOfFact = 16

func (p *prepared) addRubric(texts ...string) {
	p.rubric.add(loadList(p.lib.keyLists, texts, func(all []uint64, wording string) []uint64 {
		return append(all, p.lib.extract(strings.ReplaceAll(wording, "_", " ")).keys...)
	})...)
}

// nameSet returns the names with which the customer can be addressed.
func nameSet(c scenarios.Customer) wordSet {
	set := wordSet{}
	separates := func(r rune) bool { return strings.ContainsRune(" -.'", r) }
	for w := range strings.FieldsFuncSeq(text.Fold(text.Normalise(c.Name)), separates) {
		if len(w) > 1 {
			set[w] = struct{}{}
		}
	}
	return set
}

// newCriteria returns the points of the criteria in order, with their ids.
func newCriteria(p scenarios.Points) []grader.Criterion {
	out := make([]grader.Criterion, 0, 8)
	for i, n := range []int64{p.Q1, p.Q2, p.Q3, p.Q4, p.Q5, p.Q6, p.Q7, p.Q8} {
		out = append(out, grader.Criterion{ID: "Q" + strconv.Itoa(i+1), Offered: n})
	}
	return out
}
