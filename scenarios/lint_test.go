package scenarios

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestLintFinds(t *testing.T) {
	const ticket, flow = "tickets/T1.yaml", "workflows/W1.yaml"
	tests := map[string]struct {
		file, old, replacement string
		rule, want             string
	}{
		"wrong priority": {ticket, "value: \"{{ over ? 'high' : 'medium' }}\"", "value: low", rulePolicy,
			"priority is stated as low by rule money_wrong_over_200, the situation makes it high by " +
				"money_wrong_over_200, at seed 0"},
		"wrong rule": {ticket, "'money_wrong_over_200' :", "'money_harm' :", rulePolicy,
			"by rule money_harm"},
		"wrong on one branch only": {ticket, "'dispute_up_to_200' }}", "'delay' }}", rulePolicy, "by rule delay"},
		"wrong decision": {ticket, `required: "{{ over }}"`, "required: false", rulePolicy,
			"escalation.required is stated as false, the situation makes it true"},
		"wrong team": {ticket, "team: finance", "team: trade", rulePolicy,
			"stated as OVER_LIMIT to trade, the situation makes it OVER_LIMIT to finance"},
		"wrong article": {ticket, "POL-REF#agent-limit", "POL-SLA#1", rulePolicy,
			"escalation.policy is POL-SLA#1, the rule is in POL-REF"},
		"wrong section": {ticket, "POL-REF#agent-limit", "POL-REF#{{ seats }}0", rulePolicy,
			"names no section"},
		"wrong response time": {ticket, "sla(over ? 'high'", "sla(over ? 'urgent'", ruleSLA,
			"first_response_minutes is 60, high priority has 240"},
		"leaked fact": {ticket, "colour }} seats", "colour }} seats ({{ money(sum) }})", ruleLeak,
			"fact f1 is already in the customer's text"},
		"leaked in the history": {ticket, "}} here.", "}} here, not today.", ruleLeak, "fact f3 is already"},
		"leaked rule": {ticket, "Can we have", "money_wrong_over_200? Can we have", ruleLeak,
			`the gold token "money_wrong_over_200"`},
		"leaked team": {ticket, "Can we have", "Dear Finance team, can we have", ruleLeak,
			`the gold token "finance team"`},
		"canary": {ticket, "4000-8000", "4000-9000", ruleCanary,
			"every file of a pack has the same one"},
		"no canary":                {"kb/POL-SLA.md", "csenv-canary 0", "0", ruleCanary, "the canary is"},
		"fact that no reply tells": {ticket, ", says finance", "", ruleFacts, `the first good reply lacks fact f2, team "finance"`},
		"fact that nothing contains": {ticket, `value: "{{ money(sum) }}"`, `value: "$777.00"`, ruleFacts,
			`nothing that the agent is served or can find contains fact f1, amount_in_question "$777.00"`},
		"value of another type": {flow, `value: "{{ money(price) }}"`, `value: "soon"`, ruleFacts,
			`fact f1, refund_amount "soon", can't be stated`},
		"fact twice": {ticket, "id: f3", "id: f1", ruleIDs, `two items are fact "f1"`},
		"question of no fact": {ticket, "answered_by: [f1, f2]", "answered_by: [f2]", ruleFacts,
			"no fact answers question q1"},
		"no fact": {flow, `money(price) }}"}`, `money(price) }}", when: "!settled"}`, ruleFacts,
			"no required fact remains"},
		"goal from the start": {flow, `["replied", "settled`, `["!replied", "settled || settled`, ruleGoal,
			"the goal holds before the first action"},
		"goal that fails": {flow, "orders[0]", "orders[7]", ruleGoal, "index out of bounds"},
		"too few steps": {flow, "max_steps: 8", "max_steps: 3", ruleGoal,
			"4 steps are required, limits.max_steps allows 3"},
		"visible truth": {flow, "state:\n", "initial_visible: {order_status: delivered}\nstate:\n", ruleLeak,
			`initial_visible shows "delivered"`},
		"step twice": {flow, "{id: s3,", "{id: s1,", ruleIDs, `two items are step "s1"`},
		"placeholder": {ticket, "Can we have", "[CUSTOMER NAME], can we have", ruleBraces,
			`a text still contains a placeholder: "[CUSTOMER NAME], can`},
		"placeholder in a line": {ticket, "And when?", "And when, {agent}?", ruleBraces, `placeholder: "{agent}?"`},
		"answer twice": {ticket, "id: price, ask", "id: invoice, ask", ruleIDs,
			`two items are user_sim answer "invoice"`},
		"two answers at a time": {ticket, "ask: [when did you pay]", "ask: [pay the invoice number]", ruleScript,
			`a question that holds "invoice number" asks for invoice, and with "pay the invoice number" for paid`},
		"answer to anything": {ticket, "ask: [when did you pay]", `ask: [""]`, ruleScript,
			"answer paid is asked for by an empty phrase"},
		"not told": {ticket, `text: "It is {{ invoice }}."`, `text: "It is {{ money(price) }}."`,
			ruleScript, "answer invoice has told set, but the ticket doesn't contain [\"$"},
		"told": {ticket, `told: "{{ seats > 0 }}"`, `told: false`, ruleScript,
			"answer invoice is already in the ticket: set told"},
		"gold in a line": {ticket, "And when?", "And when does the finance team call?", ruleLeak,
			`the gold token "finance team"`},
		"gold in an answer": {ticket, "No idea.", "Ask OVER_LIMIT.", ruleLeak, `the gold token "OVER_LIMIT"`},
		"fact in a line": {ticket, "Again?", "It was {{ money(sum) }}.", ruleLeak,
			"fact f1 is already in the customer's text"},
		"constraint that few draws satisfy": {ticket, "constraints: [", `constraints: ["now.getDayOfMonth() == 1", `,
			ruleDraws, "draws on average until the constraints hold"},
		"cue that keywords don't show": {ticket, "cue: billing", "cue: shipping", ruleCue,
			"metadata.cue is shipping, a reader of keywords says [billing billing] of its wordings"},
		"category that nothing tells": {ticket, "category: {value: billing, alternates: [{value: general,",
			"category: {value: shipping, alternates: [{value: general,", ruleCue,
			"gold.category is shipping, metadata.cue billing, and no text has a keyword of shipping"},
		"fault at seed 12 only": {ticket, "since {{ day(due) }}", "since {{ 1 / (price - 4500) }}", ruleInstance,
			"division by zero, at seed 12"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			files := testPack(t, tt.file, tt.old, tt.replacement)
			c, err := loadOne(files)
			if err != nil {
				t.Fatal(err)
			}
			l := &linter{seen: map[Finding]int64{}}
			_ = l.lintCatalog(t.Context(), c, nil)
			findings := l.findings
			for _, f := range findings {
				if f.Rule == tt.rule && strings.Contains(f.String(), tt.want) {
					return
				}
			}
			t.Errorf("findings %v\nwant one of rule %s with: %s", findings, tt.rule, tt.want)
		})
	}
}

// Few workflows of a pack may change nothing.
func TestLintFindsReadingPacks(t *testing.T) {
	for action, want := range map[string]string{"initiate_refund": "",
		"check_payment": "8 of 9 workflows need no refund and no escalation: at most 45 % may"} {
		files := testPack(t, "", "", "")
		text := string(files["workflows/W1.yaml"].Data)
		for i := range 8 {
			id := fmt.Sprintf("F%d", i+1)
			copied := strings.NewReplacer("id: W1", "id: "+id, "action: initiate_refund, args",
				"action: "+action+", args").Replace(text)
			files["workflows/"+id+".yaml"] = &fstest.MapFile{Data: []byte(copied)}
		}
		l := &linter{}
		l.checkChanges(mustLoad(t, files))
		if len(l.findings) != min(len(want), 1) || want != "" && l.findings[0].Message != want {
			t.Errorf("with %s: %v, want %q", action, l.findings, want)
		}
	}
}

func TestLintFindsUnstableRendering(t *testing.T) {
	l := &linter{seen: map[Finding]int64{}, stableSeeds: comparedSeeds}
	calls := make(chan int, 1)
	calls <- 0
	checkStability(l, "tickets/T1.yaml", func(int64) (*int, error) {
		n := <-calls
		calls <- n + 1
		return &n, nil
	})
	if len(l.findings) != 1 || l.findings[0].Rule != ruleStable {
		t.Errorf("findings %v, want one of rule %s", l.findings, ruleStable)
	}
}

func TestLintFindsBraces(t *testing.T) {
	l := &linter{seen: map[Finding]int64{}}
	l.checkPlaceholders("tickets/T1.yaml", Ticket{Served: Served{Subject: "Hello {{ name }}"}})
	l.checkPlaceholders("tickets/T1.yaml", Ticket{Served: Served{Subject: "Hello name"}})
	if len(l.findings) != 1 || !strings.Contains(l.findings[0].String(), "{{ name }}") {
		t.Errorf("findings %v, want one that shows {{ name }}", l.findings)
	}
}

func TestLintReportsProgress(t *testing.T) {
	var got [][2]int
	c := mustLoad(t, testPack(t, "", "", ""))
	if _, err := c.Lint(t.Context(), func(done, total int) { got = append(got, [2]int{done, total}) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][2]int{{1, 2}, {2, 2}}, got); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

func TestLintStopsBetweenScenarios(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	checked := 0
	_, err := mustLoad(t, testPack(t, "", "", "")).Lint(ctx, func(int, int) {
		checked++
		cancel()
	})
	if checked != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d scenarios were checked after the cancellation, error %v", checked, err)
	}
}

func mustLint(t *testing.T, c *Catalog) []Finding {
	t.Helper()
	findings, err := c.Lint(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

// A fault is reported once, though each seed draws other values, and with every value of its seed.
func TestLintReportsAFaultOnce(t *testing.T) {
	l := &linter{seen: map[Finding]int64{}}
	for seed := range int64(9) {
		l.seed = seed
		for _, fact := range []string{"f1", "f2"} {
			l.reportf("tickets/T1.yaml:4", ruleFacts, "the reply lacks %s, %q", fact, strings.Repeat("$", int(seed+1)))
		}
	}
	if len(l.findings) != 2 || l.findings[1].Message != `the reply lacks f2, "$", at seed 0` {
		t.Error(l.findings)
	}
}
