package agreement

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/llm"
	"github.com/csenv/csenv/envserver/grader/prose"
	"github.com/csenv/csenv/scenarios"
)

// reader is a model that knows the label: of the answers that it can give, it gives those whose
// points are nearest to it. What still separates points and labels is what the rubric, the rules
// and the check of quotes take from any model.
type reader struct {
	rules   *prose.Judge
	judge   *llm.Judge
	label   float64
	answers []grader.Evidence // to the question that is asked next
}

func newReader(t testing.TB) *reader {
	t.Helper()
	r := &reader{rules: prose.New()}
	var err error
	r.judge, err = llm.New(llm.Config{BaseURL: "http://reader.test/v1", Model: "reader", Votes: 1,
		CacheMode: llm.CacheOff, HTTPClient: &http.Client{Transport: r}}, r.rules)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *reader) Name() string { return r.judge.Name() }

// Judge has the model answer by the label.
func (r *reader) Judge(ctx context.Context, c grader.Case) (grader.Verdict, error) {
	a, err := r.rules.Assess(c)
	if err != nil {
		return grader.Verdict{}, err
	}
	r.answers = nearest(a, int64(math.Round(r.label*1000)))
	return r.judge.Judge(ctx, c)
}

// RoundTrip answers the judge's request.
func (r *reader) RoundTrip(request *http.Request) (*http.Response, error) {
	type verdict struct {
		ID      string `json:"id"`
		Quote   string `json:"evidence_quote"`
		Reason  string `json:"reason"`
		Verdict string `json:"verdict"`
	}
	var verdicts []verdict
	for i, e := range r.answers[:len(r.answers)-1] {
		verdicts = append(verdicts, verdict{fmt.Sprintf("c%d", i+1), e.Quote, "", e.Verdict})
	}
	letter := map[string]any{"reason": "", "may_be_sent": r.answers[len(verdicts)].Verdict == grader.Met}
	content, err := json.Marshal(map[string]any{"verdicts": verdicts, "letter": letter})
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]any{"choices": []any{map[string]any{"finish_reason": "stop",
		"message": map[string]any{"role": "assistant", "content": string(content)}}}})
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)), Request: request}, err
}

// nearEnough is a distance of points from a label, half of the step of labels, in milli-points.
const nearEnough = 5

// nearest returns answers whose points are near enough to the wanted ones, or can't be brought
// nearer by one or two other answers.
func nearest(a *prose.Assessment, want int64) []grader.Evidence {
	claims := a.Claims()
	quotes := make([]string, len(claims))
	answers := make([]grader.Evidence, len(claims))
	for i, c := range claims {
		quotes[i] = evidence(a, c)
		answers[i] = grader.Evidence{Claim: c.ID, Verdict: grader.Unmet}
		if !c.Harm {
			toggle(&answers[i], quotes[i])
		}
	}
	distance := func() int64 {
		v, err := a.Grade("", answers)
		if err != nil {
			panic(err)
		}
		return max(v.PostGate-want, want-v.PostGate)
	}
	// try keeps a change of answers if it brings the points nearer.
	best := distance()
	try := func(changed ...int) bool {
		for _, i := range changed {
			toggle(&answers[i], quotes[i])
		}
		if d := distance(); d < best {
			best = d
			return true
		}
		for _, i := range changed {
			toggle(&answers[i], quotes[i])
		}
		return false
	}
	for nearer := true; nearer && best > nearEnough; {
		nearer = false
		for i := range claims {
			nearer = try(i) || nearer
		}
		for i := 0; i < len(claims) && !nearer && best > nearEnough; i++ {
			for k := 0; k < i && !claims[i].Harm && !nearer; k++ {
				nearer = try(i, k)
			}
		}
	}
	return answers
}

// toggle changes an answer. Met needs a quote, if the claim has one.
func toggle(e *grader.Evidence, quote string) {
	switch {
	case e.Verdict == grader.Met:
		e.Verdict, e.Quote = grader.Unmet, ""
	case quote != "" || e.Claim == prose.LetterClaim:
		e.Verdict, e.Quote = grader.Met, quote
	}
}

// evidence returns the first sentence that is accepted as evidence of the claim, or "".
func evidence(a *prose.Assessment, c prose.Claim) string {
	for paragraph := range strings.SplitSeq(a.Text(), "\n") {
		for end, start := 0, 0; start < len(paragraph); start = end {
			end = start + sentenceLength(paragraph[start:])
			if quote := strings.TrimSpace(paragraph[start:end]); a.Refuse(c, quote) == "" {
				return quote
			}
		}
	}
	return ""
}

var sentenceEnd = regexp.MustCompile(`[.!?]["')]?\s`)

func sentenceLength(s string) int {
	if at := sentenceEnd.FindStringIndex(s); at != nil {
		return at[1]
	}
	return len(s)
}

var update = flag.Bool("update", false, "rewrite the table of docs/judging.md")

const (
	documented = "../../docs/judging.md"
	tableBegin = "<!-- The table is written by: go test ./envserver/agreement -run TestDocumentedAgreement -update -->\n"
	tableEnd   = "<!-- End of the table -->\n"
)

// TestDocumentedAgreement compares the table of the documentation with what the rules and a perfect
// reader earn on the labelled replies to tickets.
func TestDocumentedAgreement(t *testing.T) {
	table := agreementTable(t)
	t.Log("\n" + table)
	data, err := os.ReadFile(documented)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(data), tableBegin)
	old, after, ended := strings.Cut(rest, tableEnd)
	switch {
	case !begun || !ended:
		t.Fatalf("%s has no table", documented)
	case *update:
		if err := os.WriteFile(documented, []byte(before+tableBegin+table+tableEnd+after), 0o600); err != nil {
			t.Fatal(err)
		}
	case old != table:
		t.Errorf("the table of %s is out of date: run the test with -update (-documented +measured)\n%s", documented,
			cmp.Diff(old, table))
	}
}

// agreementTable measures both judges on both halves.
func agreementTable(t *testing.T) string {
	t.Helper()
	c, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	reader := newReader(t)
	var measured []Figures
	for _, judge := range []grader.Judge{prose.New(), reader} {
		g, err := NewGrader(c, judge)
		if err != nil {
			t.Fatal(err)
		}
		for _, half := range []string{"tuning", "test"} {
			var graded []Graded
			for _, r := range ticketReplies(t, c, half) {
				reader.label = r.Label
				one, err := g.Grade(t.Context(), r)
				if err != nil || one.Error != "" {
					t.Fatal(err, one.Error)
				}
				graded = append(graded, one)
			}
			measured = append(measured, Measure(judge.Name(), graded, 0.375, 0))
		}
	}
	if s := *measured[2].All.Spearman; s < 0.94 {
		t.Errorf("a perfect reader's Spearman is %.3f on the tuning half, want 0.94", s)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "| replies to tickets: %d and %d | rules, tuning | rules, test | perfect reader, tuning | "+
		"perfect reader, test |\n|---|---|---|---|---|\n", measured[0].Replies, measured[1].Replies)
	row := func(name, format string, figure func(Figures) float64) {
		out.WriteString("| " + name)
		for _, f := range measured {
			fmt.Fprintf(&out, " | "+format, figure(f))
		}
		out.WriteString(" |\n")
	}
	row("Spearman", "%.2f", func(f Figures) float64 { return *f.All.Spearman })
	row("mean absolute error, of 0.5", "%.3f", func(f Figures) float64 { return f.All.MAE })
	row("kappa at 0.375", "%.2f", func(f Figures) float64 { return *f.All.Kappa })
	percent := func(name, class string, share func(Group) float64) {
		row(class+": "+name, "%.0f %%", func(f Figures) float64 {
			i := slices.IndexFunc(f.Classes, func(g Group) bool { return g.Name == class })
			return 100 * share(f.Classes[i])
		})
	}
	percent("loses at most 0.05", "A", func(g Group) float64 { return 1 - g.Strict })
	percent("within 0.10", "B", func(g Group) float64 { return g.Within })
	percent("within 0.10", "C", func(g Group) float64 { return g.Within })
	percent("at most 0.10 above the label", "F", func(g Group) float64 { return 1 - g.Lenient })
	percent("loses at most 0.05", "G", func(g Group) float64 { return 1 - g.Strict })
	percent("within 0.10", "H", func(g Group) float64 { return g.Within })
	return out.String()
}

// ticketReplies reads the labelled replies to tickets of a half. Rules grade those to workflows
// with any judge.
func ticketReplies(t *testing.T, c *scenarios.Catalog, half string) []Reply {
	t.Helper()
	data, err := os.ReadFile("replies/" + half + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	replies, err := ReadReplies(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(replies, func(r Reply) bool {
		_, ok := c.Ticket(r.Scenario)
		return !ok
	})
}
