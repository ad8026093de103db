package scenarios

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/pack"
	"github.com/csenv/csenv/scenarios/source"
	"github.com/csenv/csenv/scenarios/words"
)

type linter struct {
	findings []Finding
	// seen has the first seed of each fault, with its values and without.
	seen map[Finding]int64
	seed int64
	// stableSeeds is the number of seeds that are rendered twice and compared.
	stableSeeds int
}

// Finding is a fault of a catalogue that does not prevent it from loading.
type Finding struct {
	// Position is file:line of the faulty part of the scenario, or only the file.
	Position string
	Rule     string
	Message  string
}

// String returns "position: message (rule)".
func (f Finding) String() string { return fmt.Sprintf("%s: %s (%s)", f.Position, f.Message, f.Rule) }

// The rules of Lint.
const (
	ruleInstance = "instance"  // every seed gives an instance
	ruleDraws    = "draws"     // the constraints accept enough draws, so that no seed fails
	rulePolicy   = "policy"    // the policies confirm the stated gold
	ruleSLA      = "sla"       // the time of the first response matches the priority
	ruleBraces   = "braces"    // no {{ or other placeholder remains in a text
	ruleLeak     = "leak"      // the observation reveals no gold
	ruleCanary   = "canary"    // every data file has the pack's canary
	ruleStable   = "stable"    // the same seed gives the same bytes
	ruleIDs      = "ids"       // ids are unique within an instance
	ruleGoal     = "goal"      // doing nothing reaches no goal
	ruleFacts    = "facts"     // a reply has facts to state, and they answer its questions
	ruleCue      = "cue"       // the wordings support the cue
	ruleReadOnly = "read-only" // few workflows of a pack are resolved without changing anything
	ruleScript   = "script"    // no question matches two of a customer's answers, and the answers agree with the ticket
)

// drawnValue matches what differs between the instances of one fault.
var drawnValue = regexp.MustCompile(`"[^"]*"|[0-9]+`)

// reportf records a fault once, even if several seeds have it with other values.
func (l *linter) reportf(position, rule, format string, args ...any) {
	f := Finding{Position: position, Rule: rule, Message: fmt.Sprintf(format, args...)}
	fault := f
	fault.Message = drawnValue.ReplaceAllString(f.Message, "")
	first, known := l.seen[fault]
	if _, same := l.seen[f]; same || known && first != l.seed {
		return
	}
	l.seen[f], l.seen[fault] = l.seed, l.seed
	f.Message = fmt.Sprintf("%s, at seed %d", f.Message, l.seed)
	l.findings = append(l.findings, f)
}

func checkUniqueIDs[T any](l *linter, position, kind string, items []T, id func(T) string) {
	seen := map[string]bool{}
	for _, item := range items {
		if seen[id(item)] {
			l.reportf(position, ruleIDs, "two items are %s %q", kind, id(item))
		}
		seen[id(item)] = true
	}
}

// servedText returns the customer's texts before the agent's first message, with the attachments.
func servedText(t *Ticket) string {
	texts := append(make([]string, 0, 8), t.Subject, t.Description)
	for _, m := range t.History {
		texts = append(texts, m.Text)
	}
	for _, a := range t.Attachments {
		texts = append(texts, a.Name, a.Content)
	}
	return strings.Join(texts, "\n")
}

// factLeaks searches for facts that an agent must find out but that the customer has already
// stated.
func (l *linter) factLeaks(in *instance, files []factFile, served string) {
	for _, f := range files {
		if !in.Holds(f.When) || in.Boolean(f.Shown) {
			continue
		}
		// The words for what an agent decides or advises, and small numbers, are everyday language.
		if n, _ := facts.Find(in.Text(f.What)); n.Type == facts.Enum && n.What != "team" || n.What == "count" {
			continue
		}
		if v := in.Text(f.Value); words.ContainsFold(served, v) {
			l.reportf(f.Pos.String(), ruleLeak, "fact %s is already in the customer's text: set shown, or let "+
				"the agent find it out", f.ID)
		}
	}
}

// checkPlaceholders searches for placeholders in every text of an instance except the bad
// references, which may contain one.
func (l *linter) checkPlaceholders(path string, instance any) {
	data, err := json.Marshal(instance)
	if err != nil {
		l.reportf(path, ruleBraces, "encoding the instance: %v", err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	for token, err := dec.Token(); err == nil; token, err = dec.Token() {
		if s, ok := token.(string); ok {
			if at := placeholders.FindStringIndex(s); at != nil {
				l.reportf(path, ruleBraces, "a text still contains a placeholder: %.60q", s[at[0]:])
			}
		}
	}
}

// placeholders are remainders of a template, blanks of a form, and values that Go could not format.
// No text may contain them.
var placeholders = regexp.MustCompile(`\{\{|\}\}|\{[a-z_]+\}|\[[A-Z][A-Z _]{2,}\]|%!|<nil>`)

// maxReadOnly is the maximum percentage of workflows that look-ups and an answer alone may resolve.
// Above it a fixed sequence of look-ups would pass too often.
const maxReadOnly = 45

// minWorkflows is the number of workflows from which that percentage is meaningful.
const minWorkflows = 8

// checkCues checks that keywords indicate the cue in at least half of the wordings of each ticket,
// and that something besides tells of another right category.
func (l *linter) checkCues(tickets []*TicketScenario) {
	for _, s := range tickets {
		if s.Generated() {
			continue // it declares no cue
		}
		wordings, err := s.Variants(0)
		if err != nil {
			continue // a finding of the rule instance
		}
		var read []string
		right, hints := 0, 0
		for _, t := range wordings {
			hints += countHits(servedText(t), lexicons()[t.Language[:2]][t.Gold.Category])
			read = append(read, ReadKeywords(t))
			if read[len(read)-1] == s.Cue {
				right++
			}
		}
		if 2*right < len(wordings) {
			l.findings = append(l.findings, Finding{Position: s.File, Rule: ruleCue,
				Message: fmt.Sprintf("metadata.cue is %s, a reader of keywords says %v of its wordings: reword them, "+
					"or correct the cue", s.Cue, read)})
		}
		if gold := wordings[0].Gold.Category; gold != s.Cue && gold != "general" && hints == 0 {
			l.findings = append(l.findings, Finding{Position: s.File, Rule: ruleCue,
				Message: fmt.Sprintf("gold.category is %s, metadata.cue %s, and no text has a keyword of %[1]s: "+
					"correct the category, or say in the ticket what it follows from", gold, s.Cue)})
		}
	}
}

// checkChanges finds packs in which too many workflows change nothing.
func (l *linter) checkChanges(c *Catalog) {
	workflows, reading := map[pack.Info]int{}, map[pack.Info]int{}
	for _, s := range c.Workflows() {
		w, err := s.Instantiate(0)
		if err != nil {
			continue // a finding of the rule instance
		}
		workflows[s.Pack]++
		if !slices.ContainsFunc(w.Steps, func(s WorkflowStep) bool {
			return s.Action == desk.Refunding || s.Action == desk.Escalating
		}) {
			reading[s.Pack]++
		}
	}
	for _, p := range c.Packs() {
		if n := workflows[p]; n >= minWorkflows && 100*reading[p] > maxReadOnly*n {
			l.findings = append(l.findings, Finding{Position: p.Folder, Rule: ruleReadOnly,
				Message: fmt.Sprintf("%d of %d workflows need no refund and no escalation: at most %d %% may",
					reading[p], n, maxReadOnly)})
		}
	}
}

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

//go:embed keywords.txt
var keywordsFile string

// lexicons returns the beginnings of words that indicate a category, by language and category.
var lexicons = sync.OnceValue(func() map[string]map[string][]string {
	all := map[string]map[string][]string{}
	for line := range strings.Lines(keywordsFile) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		key, words, _ := strings.Cut(strings.TrimSpace(line), ": ")
		language, category, _ := strings.Cut(key, " ")
		if all[language] == nil {
			all[language] = map[string][]string{}
		}
		all[language][category] = strings.Split(words, ", ")
	}
	return all
})

// ReadKeywords returns the category most of whose keywords occur in the subject and the description
// of a ticket. A word of the subject counts twice. Ties go to the first category.
func ReadKeywords(t *Ticket) string {
	words := lexicons()[t.Language[:2]]
	counts := make([]int, len(Categories))
	for i, c := range Categories {
		counts[i] = 2*countHits(t.Subject, words[c]) + countHits(t.Description, words[c])
	}
	best := slices.Max(counts)
	if best == 0 {
		return "general"
	}
	return Categories[slices.Index(counts, best)]
}

// countHits counts the words of a text that begin with a keyword. Keywords of up to three letters
// match only themselves and their plural.
func countHits(text string, keywords []string) int {
	n := 0
	separates := func(r rune) bool { return !unicode.IsLetter(r) && r != '-' }
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), separates) {
		if slices.ContainsFunc(keywords, func(k string) bool {
			return strings.HasPrefix(word, k) && (len(k) > 3 || len(word) <= len(k)+1)
		}) {
			n++
		}
	}
	return n
}
