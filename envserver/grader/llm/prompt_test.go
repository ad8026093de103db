package llm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
)

// rubricDigests contains the digest of every version of the prompt. A changed prompt is another
// scale, which requires a new RubricVersion and a new line here.
var rubricDigests = map[string]string{
	"r1": "78f2dee7c91f49d139f81bbf58e1955aa2eebdc7f57d61be74a5fa1790c48450",
	"r2": "a5cc5eca63f3c77af20361ec95d593abe5fae37a657bbafc120d91e0ac9441a4",
	"r3": "7924ea14098e56f502c57fb637a7cbb31d4450bdb3eb93c5d70efcc8a2f59b55",
	"r4": "1a361c1caa0439bc3d7a1f037056b39324c10446c53373df05f12427fec024ab",
}

func TestRubricVersion(t *testing.T) {
	h := sha256.New()
	err := fs.WalkDir(promptFiles, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := promptFiles.ReadFile(path)
		h.Write([]byte(path + "\x00" + string(data) + "\x00"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	shape, err := json.Marshal(answerSchema([]string{"c1"}))
	if err != nil {
		t.Fatal(err)
	}
	h.Write(shape)
	if got := hex.EncodeToString(h.Sum(nil)); got != rubricDigests[RubricVersion] {
		t.Errorf("the prompt of %s changed: its digest is now %s", RubricVersion, got)
	}
}

// The schema lists the quote and the reason before the verdict.
func TestSchemaOrder(t *testing.T) {
	data, err := json.Marshal(answerSchema([]string{"c1", "c2"}))
	if err != nil {
		t.Fatal(err)
	}
	at := -1
	for _, name := range []string{`"id":{`, `"evidence_quote":{`, `"reason":{`, `"verdict":{`, `"letter":{`, `"may_be_sent":{`} {
		next := strings.Index(string(data), name)
		if next <= at {
			t.Errorf("%s is out of order in %s", name, data)
		}
		at = next
	}
}

func promptOf(t testing.TB, j *Judge, c grader.Case, attempt int) (prompt, *question) {
	t.Helper()
	q, err := j.ask(assess(j.rules, c))
	if err != nil {
		t.Fatal(err)
	}
	key, err := q.key(0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := j.write(q, key, attempt, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	return p, q
}

var update = flag.Bool("update", false, "rewrite testdata/prompt.txt")

// The golden file shows the whole prompt of a small case.
func TestGoldenPrompt(t *testing.T) {
	const path = "testdata/prompt.txt"
	p, _ := promptOf(t, directJudge(t, hangingTripper{}, nil), questionCase(), 0)
	got := p.System + "\n\n" + strings.Repeat("-", 80) + "\n\n" + p.User + "\n"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the prompt changed: run the test with -update (-want +got):\n%s", diff)
	}
}

// The prompt contains the case, but no label that the model must not see.
func TestPromptContainsOnlyTheCase(t *testing.T) {
	j := directJudge(t, hangingTripper{}, func(c *Config) { c.APIKey = testKey })
	for _, ticket := range tickets(t, 3) {
		c := grader.Case{Ticket: ticket, Reply: ticket.References.Good[0], Actions: goldActions(ticket)}
		p, q := promptOf(t, j, c, 0)
		whole := p.System + p.User
		for _, secret := range []string{testKey, "Q1", "Q5", "milli", `"` + ticket.ScenarioID + `"`,
			ticket.Gold.ReasonCode} {
			if secret != "" && strings.Contains(strings.ReplaceAll(whole, q.Ticket, ""), secret) &&
				!strings.Contains(articles(ticket), secret) {
				t.Errorf("%s: the prompt contains %q", ticket.ScenarioID, secret)
			}
		}
		for _, want := range append([]string{q.Ticket, q.Reply, q.Actions}, q.Facts...) {
			if !strings.Contains(p.User, want) {
				t.Errorf("%s: the prompt lacks %q", ticket.ScenarioID, want)
			}
		}
		if strings.Contains(p.User, p.canary) || !strings.Contains(p.System, p.canary) {
			t.Errorf("%s: the canary isn't only in the system prompt", ticket.ScenarioID)
		}
		again, _ := promptOf(t, j, c, 0)
		other, _ := promptOf(t, j, c, 1)
		if again.User != p.User || again.Seed != p.Seed || other.User == p.User || other.canary == p.canary {
			t.Errorf("%s: two attempts have the same prompt", ticket.ScenarioID)
		}
	}
}

func articles(t *scenarios.Ticket) string {
	var b strings.Builder
	for _, a := range t.Articles {
		b.WriteString(a.Body)
	}
	return b.String()
}

// A reply and a ticket are not expanded, don't leave their fences, and are not read as
// instructions.
func TestUntrustedTextStaysInItsFences(t *testing.T) {
	j := directJudge(t, hangingTripper{}, nil)
	base := goodCase(t)
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SampledFrom([]string{"{{.Canary}}", "{{range .Facts}}{{.}}{{end}}", "====", "==== 00 ====",
			strings.Repeat("=", 50), "^", "^^ ^", "# The claims", "- c1: anything", "\u200b\u202e", "\x00", "Hello",
			"\n", "```json"})
		c := base
		c.Reply = base.Reply + strings.Join(rapid.SliceOfN(part, 0, 12).Draw(t, "parts"), " ")
		ticket := *base.Ticket
		c.Ticket = &ticket
		ticket.Customer.Company += strings.Join(rapid.SliceOfN(part, 0, 12).Draw(t, "company"), " ")
		ticket.Description += strings.Join(rapid.SliceOfN(part, 0, 12).Draw(t, "description"), " ")
		q, err := j.ask(assess(j.rules, c))
		if err != nil {
			t.Fatal(err)
		}
		if len(q.claims) == 0 {
			return
		}
		fence := q.fence("key", 0)
		p, err := j.write(q, "key", 0, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(p.User, "\n"+fence+"\n"); n != 4 {
			t.Errorf("%d fences, want 4:\n%s", n, p.User)
		}
		if strings.Contains(q.Reply, " ") || strings.ContainsAny(q.Reply, "\u200b\u202e\x00") {
			t.Errorf("unmarked: %q", q.Reply)
		}
		given := c.Reply + ticket.Customer.Company + ticket.Description
		if n := strings.Count(given, "{{.Canary}}"); strings.Count(p.User, "{{.Canary}}") != n {
			t.Errorf("{{.Canary}} was expanded:\n%s", p.User)
		}
	})
}

func TestLongRepliesAreCut(t *testing.T) {
	j := directJudge(t, hangingTripper{}, nil)
	c := goodCase(t)
	c.Reply += strings.Repeat(" Über uns.", 800)
	p, q := promptOf(t, j, c, 0)
	if !q.Cut || len([]rune(q.Reply)) > maxShown || !strings.Contains(p.User, "The rest of the reply was left out") {
		t.Errorf("cut %v, %d characters", q.Cut, len([]rune(q.Reply)))
	}
	for _, claim := range q.claims {
		if claim.Kind == "to the point" {
			t.Error("the shape of an overlong reply is still a claim")
		}
	}
}

func TestDatamark(t *testing.T) {
	for text, want := range map[string]string{"": "", "a": "a", "a b": "a^b", " a \t b\n\nc ^ d": "a^b\n\nc^d"} {
		if got := datamarkText(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
