package llm

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/web/template"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/text"
)

// RubricVersion is the version of the templates, claims and answer schema. It is part of the scale
// and of every cache key.
const RubricVersion = "r4"

//go:embed prompt
var promptFiles embed.FS

const (
	maxShown  = 4000  // the maximum part of a reply in a prompt, in characters
	maxPolicy = 16000 // bounds the articles in a prompt, in bytes
	// mark joins the words of untrusted texts, so that the model can distinguish data from
	// instructions: Spotlighting (arXiv 2403.14720).
	mark = "^"
)

// templates are the templates of the prompt. They are executed once, so {{.Facts}} in a reply is
// not expanded.
type templates struct {
	*template.Text
	digest string // digest of the files, so that cached answers are not used after an edit
}

func parseTemplates() (templates, error) {
	join := func(texts []string) string { return strings.Join(texts, ", or ") }
	t, err := template.NewText("prompt").Option("missingkey=error").Funcs(template.FuncMap{"join": join}).ParseFS(
		promptFiles, "prompt/*.tmpl")
	if err != nil {
		return templates{}, fmt.Errorf("parsing the judge's prompt: %w", err)
	}
	digest, err := digestOf(promptFiles)
	if err != nil {
		return templates{}, fmt.Errorf("reading the judge's prompt: %w", err)
	}
	return templates{t, digest}, nil
}

// digestOf is the SHA-256 of the names and contents of all files, in hexadecimal.
func digestOf(files fs.FS) (string, error) {
	h := sha256.New()
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(data), data)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

func (t templates) render(name string, data any) (string, error) {
	var out bytes.Buffer
	if err := t.ExecuteTemplate(&out, name, data); err != nil {
		return "", fmt.Errorf("writing the judge's prompt: %w", err)
	}
	return strings.TrimSpace(out.String()), nil
}

// question is the content of a prompt that all votes share. Its JSON form is part of cache keys.
type question struct {
	Model, Endpoint, Rubric string
	Templates               string
	Temperature, TopP       float64
	MaxTokens               int64
	Scenario                string
	Version                 int
	Seed                    int64
	Policy                  []scenarios.Article
	Facts                   []string
	Actions                 string
	Ticket, Reply           string
	Cut                     bool
	Claims                  []asked

	claims     []claim // Claims and the one about the letter
	assessment *assessment
}

// asked is a claim with a neutral id, in the form that the model receives.
type asked struct {
	ID, Statement string
}

// ask makes the question of the claims.
func (j *Judge) ask(a *assessment) (*question, error) {
	q := &question{
		Model: j.config.Model, Endpoint: j.config.BaseURL, Rubric: RubricVersion, Templates: j.templates.digest,
		Temperature: 0, TopP: 1, MaxTokens: j.config.MaxTokens, claims: a.claims, assessment: a,
	}
	if a.judged.Workflow != nil {
		q.describeWorkflow(a.judged.Workflow, a.judged.Done)
	} else {
		q.describeTicket(a.judged.Ticket, a.judged.Actions)
	}
	shown := text.ClipRunes(a.text, maxShown)
	q.Reply, q.Cut = datamarkText(shown), len(shown) < len(a.text)
	for i, claim := range a.claims {
		if claim.Claim == letterClaim {
			continue // the last one, which every prompt asks for
		}
		statement, err := j.templates.render(claim.template(), newClaimData(a.judged.Ticket, claim))
		if err != nil {
			return nil, err
		}
		q.Claims = append(q.Claims, asked{ID: fmt.Sprintf("c%d", i+1), Statement: statement})
	}
	return q, nil
}

// describeTicket sets what the reply is about.
func (q *question) describeTicket(t *scenarios.Ticket, did grader.Actions) {
	q.Scenario, q.Version, q.Seed = t.ScenarioID, t.Version, t.Seed
	q.Policy, q.Facts, q.Actions = selectArticles(t), listFacts(t), describeActions(did)
	q.Ticket = datamarkText(describeCustomer(t.Customer, t.Now) + "\n\n" + writtenIn(t))
}

// describeWorkflow sets what the reply is about. What the agent did is among the untrusted texts,
// because the agent chose its words.
func (q *question) describeWorkflow(w *scenarios.Workflow, done []string) {
	q.Scenario, q.Version, q.Seed = w.ScenarioID, w.Version, w.Seed
	if w.Policy != nil {
		for _, page := range w.Policy.Pages() {
			q.Policy = append(q.Policy, scenarios.Article{ID: page.Topic, Title: page.Title, Body: page.Body})
		}
	}
	for i := range w.Facts {
		q.Facts = append(q.Facts, formatID(w.Facts[i].Slot)+": "+strings.Join(listValues(&w.Facts[i]), " or "))
	}
	if w.Decision != nil {
		q.Facts = append(q.Facts, "decision: "+formatID(strings.ReplaceAll(w.Decision.Outcome, "+", ", and ")))
	}
	q.Actions = "The changes that the agent has made are at the end of the record."
	parts := []string{describeCustomer(w.Customer, w.Now), w.Query}
	for _, a := range w.Answers {
		parts = append(parts, a.Answer)
	}
	for _, s := range w.Steps {
		parts = append(parts, s.Answer)
	}
	parts = append(parts, offline.Records(w), "Changes by the agent:\n"+strings.Join(done, "\n"))
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	q.Ticket = datamarkText(text.Normalise(strings.Join(parts, "\n\n")))
}

// claimData is the input of the claims' templates.
type claimData struct {
	claim
	// Slot is what a fact is about, Values are its right values.
	Slot           string
	Values         []string
	NextStep, Tone string
	Upset          bool
}

// template is the name of the claim's template.
func (c *claim) template() string {
	if c.Harm != nil && c.Harm.authored {
		return "harm"
	}
	return c.Kind
}

func newClaimData(t *scenarios.Ticket, c claim) claimData {
	d := claimData{claim: c}
	if t != nil {
		d.NextStep, d.Tone, d.Upset = t.NextStep(), t.Tone, t.Tone == "angry" || t.Tone == "worried"
	}
	if c.Fact != nil {
		d.Slot, d.Values = describeSlot(c.Fact), listValues(c.Fact)
	}
	return d
}

// describeSlot says what a fact is about: its own name, and what its name in the vocabulary means.
func describeSlot(f *scenarios.Fact) string {
	slot := formatID(f.Slot)
	if name, known := facts.Find(f.What); known {
		slot += ": " + name.Meaning
	}
	return slot
}

// listValues are the right values of a fact in words.
func listValues(f *scenarios.Fact) []string {
	values := f.Right()
	if name, known := facts.Find(f.What); known && name.Type == facts.Enum {
		for i := range values {
			values[i] = formatID(values[i])
		}
	}
	return values
}

func formatID(id string) string { return strings.ReplaceAll(id, "_", " ") }

// selectArticles returns as many articles as fit, the deciding one first.
func selectArticles(t *scenarios.Ticket) []scenarios.Article {
	decisive, _, _ := strings.Cut(t.Gold.Policy, "#")
	articles := slices.Clone(t.Articles)
	rank := func(a scenarios.Article) int {
		if a.ID == decisive {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(articles, func(a, b scenarios.Article) int { return rank(a) - rank(b) })
	size := 0
	return slices.DeleteFunc(articles, func(a scenarios.Article) bool {
		size += len(a.Title) + len(a.Body)
		return size > maxPolicy
	})
}

func listFacts(t *scenarios.Ticket) []string {
	var out []string
	for i := range t.Reply.Facts {
		f := &t.Reply.Facts[i]
		not := ""
		if f.Negative {
			not = "not "
		}
		out = append(out, fmt.Sprintf("%s: %s%s", formatID(f.Slot), not, strings.Join(listValues(f), " or ")))
	}
	return append(out, "next step: "+t.NextStep())
}

// describeCustomer describes what the agent is served beside the customer's words. Harm is judged
// against it. A customer chose some of it, so it is as untrusted as the ticket.
func describeCustomer(c scenarios.Customer, now time.Time) string {
	company := ""
	if c.Company != "" {
		company = " of " + c.Company
	}
	return fmt.Sprintf("Customer: %s%s, account level %s, customer since %s\nNow: %s", c.Name, company,
		c.AccountLevel, c.Since.Format(time.DateOnly), now.Format("Monday, 2006-01-02 15:04"))
}

// describeActions describes the agent's actions. The team is one of a closed list.
func describeActions(a grader.Actions) string {
	switch {
	case a.Ending == grader.Resolved:
		return "The agent closed the ticket."
	case a.Ending == grader.Escalated && a.Team != "":
		return "The agent handed the ticket to the team " + a.Team + "."
	case a.Ending == grader.Escalated:
		return "The agent handed the ticket over and named no team."
	}
	return "The agent left the ticket open."
}

// datamarkText joins the words of each line with the mark, after removing the mark from the text.
func datamarkText(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, mark, " "), "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), mark)
	}
	return strings.Join(lines, "\n")
}

// key returns the cache key of a vote: a digest of everything that affects the answer.
func (q *question) key(vote int) (string, error) {
	data, err := json.Marshal(struct {
		*question
		Vote int
	}{q, vote})
	if err != nil {
		return "", fmt.Errorf("making a cache key: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// cached are the features that answers depend on.
const cached = endpoint.JSONSchema | endpoint.Seed | endpoint.Temperature | endpoint.TopP | endpoint.MaxTokens

// deriveCacheKey returns the key of an answer that was given without the refused features. Tokens
// and the sample depend on the key itself, so they don't change when a feature is refused.
func deriveCacheKey(key string, refused endpoint.Feature) string {
	if refused &= cached; refused == 0 {
		return key
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s without %d", key, refused))
	return hex.EncodeToString(sum[:])
}

// deriveToken returns a token derived from the cache key. A replay reproduces it, and a reply can't
// contain the token of its own prompt, because the key depends on the reply.
func deriveToken(key, purpose string, attempt int) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	fmt.Fprintf(mac, "%s %d", purpose, attempt)
	return mac.Sum(nil)
}

// fence returns a fence that is longer than any run of its mark in the texts.
func (q *question) fence(key string, attempt int) string {
	bar := "===="
	for strings.Contains(q.Ticket, bar) || strings.Contains(q.Reply, bar) {
		bar += "="
	}
	return bar + " " + hex.EncodeToString(deriveToken(key, "fence", attempt)[:8]) + " " + bar
}

// prompt is one request to the model.
type prompt struct {
	endpoint.Prompt
	canary string
	lacks  endpoint.Feature // what the request omits
}

// write makes the prompt for an attempt at a vote. The complaint describes the previous error.
func (j *Judge) write(q *question, key string, attempt int, complaint string,
	lacks endpoint.Feature) (prompt, error) {
	p := prompt{
		lacks:  lacks,
		canary: hex.EncodeToString(deriveToken(key, "canary", attempt)[:8]),
	}
	ids := make([]string, len(q.Claims))
	for i, c := range q.Claims {
		ids[i] = c.ID
	}
	p.Seed, p.Answer, p.Schema = deriveSeed(key, attempt), "verdicts", answerSchema(ids)
	var err error
	if p.System, err = j.templates.render("system.tmpl", map[string]string{"Canary": p.canary}); err != nil {
		return p, err
	}
	p.User, err = j.templates.render("user.tmpl", struct {
		*question
		Fence, IDs, Complaint string
		Fenced                bool
	}{q, q.fence(key, attempt), strings.Join(ids, ", "), complaint, lacks&endpoint.JSONSchema != 0})
	return p, err
}

// deriveSeed returns a seed below 2^31, which every endpoint accepts.
func deriveSeed(key string, attempt int) int64 {
	b := deriveToken(key, "seed", attempt)
	return int64(b[0]&0x7f)<<24 | int64(b[1])<<16 | int64(b[2])<<8 | int64(b[3])
}
