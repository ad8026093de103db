package scenarios

import (
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/scenarios/pack"
)

// testPack returns the pack in testdata/pack, with one text replaced in one of its files.
func testPack(t testing.TB, file, old, replacement string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	err := fs.WalkDir(os.DirFS("testdata/pack"), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile("testdata/pack/" + name)
		files[name] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if file != "" {
		before := string(files[file].Data)
		if !strings.Contains(before, old) {
			t.Fatalf("%s does not hold %q", file, old)
		}
		files[file] = &fstest.MapFile{Data: []byte(strings.Replace(before, old, replacement, 1))}
	}
	return files
}

func mustLoad(t testing.TB, fsys fs.FS) *Catalog {
	t.Helper()
	c, err := loadOne(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustTicket(t testing.TB, c *Catalog, seed int64) *Ticket {
	t.Helper()
	s, ok := c.Ticket("T1")
	if !ok {
		t.Fatal("no ticket T1")
	}
	ticket, err := s.Instantiate(seed)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

func mustWorkflow(t testing.TB, c *Catalog, seed int64) *Workflow {
	t.Helper()
	s, ok := c.Workflow("W1")
	if !ok {
		t.Fatal("no workflow W1")
	}
	w, err := s.Instantiate(seed)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestPublicCatalogue(t *testing.T) {
	c, err := LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	again, err := LoadPublic()
	if err != nil || again != c {
		t.Errorf("Public() again = %p, %v; want the same catalogue %p", again, err, c)
	}
	for _, f := range mustLint(t, c) {
		t.Error(f)
	}
	categories, classes := map[string]int{}, map[string]int{}
	for i, s := range c.Tickets() {
		categories[s.Category]++
		if i > 0 && s.ID <= c.Tickets()[i-1].ID {
			t.Errorf("%s is listed after %s", s.ID, c.Tickets()[i-1].ID)
		}
	}
	for _, s := range c.Workflows() {
		classes[s.Task()]++
	}
	if len(categories) != 4 || len(classes) != 3 {
		t.Errorf("categories %v and tasks %v: want four and three", categories, classes)
	}
}

func TestTestPackIsClean(t *testing.T) {
	if diff := cmp.Diff([]Finding(nil), mustLint(t, mustLoad(t, testPack(t, "", "", "")))); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestLoadFaults(t *testing.T) {
	const ticket, flow, article = "tickets/T1.yaml", "workflows/W1.yaml", "kb/POL-REF.md"
	tests := map[string]struct {
		file, old, replacement string
		want                   string
	}{
		"unknown key": {ticket, "sentiment:", "sentimnt:",
			`tickets/T1.yaml:28: unknown key "sentimnt": did you mean "sentiment"?`},
		"unknown key, none near": {ticket, "sla: {first", "sla: {whatever: 1, first",
			`unknown key "whatever": known are first_response_minutes`},
		"missing key": {ticket, "  difficulty: easy\n", "", `tickets/T1.yaml:4: missing key "difficulty"`},
		"key twice": {ticket, "  version: 1", "  version: 1\n  version: 2",
			`tickets/T1.yaml:6: key "version" is given twice`},
		"enum": {ticket, "account_level: basic", "account_level: bsic",
			`tickets/T1.yaml:26: "bsic" is not one of basic, premium, enterprise: did you mean "basic"?`},
		"text wanted": {ticket, "id: T1", "id: 7", `tickets/T1.yaml:4: want text, got "7"`},
		"float credit": {ticket, "credit: 500", "credit: 0.5",
			"points, credits and caps are thousandths (0.5 is 500)"},
		"whole number wanted": {ticket, "credit: 500", "credit: half", `want a whole number, got "half"`},
		"hexadecimal":         {ticket, "credit: 500", "credit: 0x1F", `want a decimal whole number, got "0x1F"`},
		"list wanted": {ticket, "ask: [when did you pay]", "ask: {a: b}",
			"want a list, got a mapping"},
		"mapping wanted": {ticket, "sentiment: {tone: calm, intensity: 0}", "sentiment: calm",
			`want a mapping with the keys tone, intensity, got "calm"`},
		"bool wanted": {flow, "terminal: true", "terminal: 1", `want true or false, got "1"`},
		"anchor":      {ticket, "sentiment: {", "sentiment: &a {", "anchors and aliases are not allowed"},
		"two documents": {ticket, "language: en", "---\nlanguage: en",
			"a second document: keep one per file"},
		"broken second document": {ticket, "language: en", "---\nlanguage: [",
			"tickets/T1.yaml:11: reading YAML: did not find expected"},
		"not YAML": {ticket, "language: en", "language: [", "reading YAML"},
		"file and id": {ticket, "id: T1", "id: T2",
			`tickets/T1.yaml:4: id "T2" must be the file's name, "T1"`},
		"version": {ticket, "version: 1", "version: 0", "version must be at least 1"},
		"null":    {ticket, `subject: "Seats"`, `subject: ~`, "got nothing"},
		"points": {ticket, "  questions:", "  points: {Q1: 161, Q2: 100, Q3: 60, Q4: 40, Q5: 40, " +
			"Q6: 40, Q7: 30, Q8: 30}\n  questions:", "the points sum to 501: they must sum to 500"},
		"credit out of range": {ticket, "credit: 500", "credit: 1000",
			"tickets/T1.yaml:52: credit must be from 1 to 999, got 1000"},
		"words of a fact":  {ticket, "slot: team, ", "slot: team, context: [pass], ", `unknown key "context"`},
		"max out of range": {ticket, "max: 100", "max: 501", "max must be from 0 to 500"},
		"answer of no fact": {ticket, "answered_by: [f1, f2]", "answered_by: [f1, f9]",
			`answered_by names "f9", which doesn't exist: did you mean "f1"?`},
		"article missing": {ticket, "available: [POL-REF]", "available: [POL-REF, POL-XXX]",
			`article "POL-XXX" is missing: there must be one kb/POL-XXX.md`},
		"article twice": {ticket, "available: [POL-REF]", "available: [POL-REF, POL-REF]",
			`article "POL-REF" is listed twice`},
		"section missing": {ticket, "POL-REF#agent-limit", "POL-REF#7", `policy "POL-REF#7" names no section`},
		"words": {ticket, "  questions:", "  length_words: [9]\n  questions:",
			"length_words is [fewest, most]"},
		"fact without a name": {ticket, "what: team, ", "",
			"fact f2 (team) needs either what, a name of the vocabulary such as team, or judged: true"},
		"fact with both": {ticket, "what: team, ", "what: team, judged: true, ", "fact f2 (team) needs either what"},
		"unknown name":   {ticket, "what: team, ", "what: taem, ", `"taem" isn't a name of the vocabulary: did you mean "team"?`},
		"unknown value":  {ticket, "value: finance, ", "value: finanse, ", `"finanse" isn't a value of team: did you mean "finance"?`},
		"unknown step":   {ticket, "[refunded]", "[refund]", `"refund" isn't a value of next_step: did you mean "refunded"?`},
		"fact of a case": {"workflows/W1.yaml", `what: "{{ settled ? 'refund_amount' : 'held_amount' }}", `, "",
			"workflows/W1.yaml:36: fact f1 (amount) needs either what"},
		"also of a judged": {ticket, "judged: true, ", "judged: true, also: [x], ", "fact f3 is judged: also belongs to"},
		"braces unclosed": {ticket, "since {{ day(due) }}.", "since {{ day(due).",
			"tickets/T1.yaml:33: {{ without its }}"},
		"braces unopened":      {ticket, "since {{ day(due) }}", "since day(due) }}", "}} without its {{"},
		"braces in plain text": {ticket, "slot: sum,", `slot: "{{ sum }}",`, "this text is used unchanged"},
		"braces in expression": {ticket, `when: "over"}`, `when: "{{ over }}"}`, "this is an expression already"},
		"braces within braces": {ticket, "{{ day(due) }}", "{{ 'day {{ due }}' }}",
			"tickets/T1.yaml:33: {{ within {{ }}: join the pieces with +"},
		"unknown variable": {ticket, "since {{ day(due) }}", "since {{ day(dua) }}",
			`tickets/T1.yaml:33: expression "day(dua)": undeclared reference to 'dua': did you mean "due"?`},
		"later variable": {ticket, `seats: {int: [2, 9]}`, `seats: {expr: "price / 2"}`,
			"undeclared reference to 'price'"},
		"empty expression": {ticket, "{{ day(due) }}", "{{ }}", "an empty expression"},
		"type of text": {ticket, "{{ day(due) }}", "{{ over }}",
			`expression "over" is bool, which has no unique form as text`},
		"type of bool": {ticket, `required: "{{ over }}"`, `required: "{{ seats }}"`,
			`expression "seats" is int, want true or false`},
		"type of condition": {ticket, `when: "over"}`, `when: "seats"}`, `expression "seats" is int, want bool`},
		"type of time": {ticket, `since: "{{ date(now, '-400d') }}"`, `since: yesterday`,
			"a time is written as"},
		"mixed time": {ticket, `since: "{{ date(now, '-400d') }}"`, `since: "on {{ now }}"`,
			"want one expression that is a time"},
		"money as number": {flow, `amount: "1.00"`, "amount: 1", `want money, got "1"`},
		"money without cents": {flow, `amount: "1.00"`, `amount: "1"`,
			`money is text with two decimals, such as "49.00", got "1"`},
		"money as float": {flow, `amount: "1.00"`, "amount: 1.00",
			"quote a text that YAML reads as something else"},
		"param without kind": {ticket, "seats: {int: [2, 9]}", "seats: {step: 2}", `param "seats" has no kind`},
		"param of two kinds": {ticket, "seats: {int: [2, 9]}", "seats: {int: [2, 9], money: [a]}",
			`param "seats" has both int and money`},
		"param name": {ticket, "  colour:", "  Colour:", "a param is named in lower case"},
		"param range": {ticket, "int: [2, 9]", "int: [9, 2]",
			`tickets/T1.yaml:14: param "seats": the range must go upwards in whole steps above 0`},
		"param of no values": {ticket, "colour: {pick: [red, blue]}", "colour: {pick: []}",
			`param "colour" has no values`},
		"param of one end": {ticket, "int: [2, 9]", "int: [9]", "int requires [lowest, highest]"},
		"money step": {ticket, `step: "0.50"`, `step: "0.70"`,
			"the range must go upwards in whole steps"},
		"money range": {ticket, `["30.00", "60.00"]`, `["30.00"]`,
			"money requires [lowest, highest] and a step"},
		"date step": {ticket, `step: "1d"`, `step: "1y"`,
			"a length of time is a whole number with m, h, d or w"},
		"id pattern": {ticket, "INV-{digits:6}", "INV-{digit:6}",
			"write groups as {digits:6} or {letters:2}"},
		"names missing": {ticket, "{person: en}", "{person: xx}", "there is no names/xx.yaml"},
		"list missing":  {ticket, "en/company", "en/companies", `names/en.yaml has no list "companies"`},
		"branch of one": {ticket, "branch: [true, false]", "branch: [true]",
			"a branch has at least 2 values"},
		"branch of two types": {ticket, "branch: [true, false]", "branch: [true, 1]",
			"the values must be of one type"},
		"pair without branch": {ticket, "seats: {int: [2, 9]}", "seats: {int: [2, 9], pair: x}",
			"only a branch has a pair"},
		"template as literal": {ticket, "[red, blue]", `[red, "{{ seats }}"]`,
			"use expr for a choice that depends on other params"},
		"now": {flow, "2026-03-14T09", "14 March", "a time is written as"},
		"unsatisfiable": {ticket, "constraints: [", `constraints: ["seats > 20", `,
			`tickets/T1.yaml:22: constraint "seats > 20", seed 0: no draw satisfied the constraints in 500 tries`},
		"unsatisfiable behind another": {ticket, "constraints: [", `constraints: ["seats > 8", "seats > 20", `,
			`constraint "seats > 20", seed 0: no draw satisfied the constraints in 500 tries`},
		"division by zero": {ticket, `expr: "seats * price"`, `expr: "price / (seats - seats)"`,
			"division by zero"},
		"unknown act": {ticket, "kind: refund", "kind: refnd",
			`unknown act "refnd": did you mean "refund"?`},
		"deadline": {ticket, "'3d'", "'3 days'", `deadline "3 days": write the time that is left`},
		"category": {ticket, "category: {value: billing", "category: {value: bills",
			`"bills" is not one of billing, shipping, technical, general`},
		"priority of a branch": {ticket, "value: \"{{ over ? 'high'", "value: \"{{ over ? 'higher'",
			`"higher" is not one of low, medium, high, urgent`},
		"variants that take turns": {ticket, "    when: \"over\"\nhistory", "    when: \"!over\"\nhistory", ""},
		"state key":                {ticket, "  notes: [", "  note: [", `unknown key "note": did you mean "notes"?`},
		"list as text":             {ticket, "since {{ day(due) }}", "since {{ [1] }}", "has no unique form as text"},
		"no cue":                   {ticket, "  cue: billing\n", "", `tickets/T1.yaml:4: missing key "cue"`},
		"cue": {ticket, "cue: billing", "cue: biling",
			`tickets/T1.yaml:8: "biling" is not one of billing, shipping, technical, general: did you mean "billing"?`},
		"persona": {ticket, "persona: terse", "persona: terser",
			`"terser" is not one of terse, chatty, formal, anxious: did you mean "terse"?`},
		"turns": {ticket, "max_turns: 3", "max_turns: 0",
			"user_sim.max_turns must be from 1 to 10, got 0"},
		"stop": {ticket, "stop_when: [outcome_stated]", "stop_when: [outcome]",
			`"outcome" is not one of outcome_stated, facts_stated`},
		"no calm line": {ticket, `calm: ["Thank you, {{ colour }} it is."]`, "calm: []",
			"user_sim.lines needs at least one line for calm and one for angry"},
		"no angry line": {ticket, `    angry: ["And when?"]` + "\n", "",
			`tickets/T1.yaml:70: missing key "angry"`},
		"mood": {ticket, "annoyed: [", "anoyed: [",
			`unknown key "anoyed": did you mean "annoyed"?`},
		"answer to nothing": {ticket, "ask: [when did you pay]", "ask: []",
			`user_sim answer "paid" can't be asked for`},
		"told but unknown": {ticket, `known: true, told`, `known: false, told`,
			`user_sim answer "invoice" has told set but not known`},
		"known left out":  {ticket, `"No idea.", known: false`, `"No idea."`, `missing key "known"`},
		"article heading": {article, "# Refunds", "Refunds", `kb/POL-REF.md: want front matter`},
		"article variable": {article, "{{ window_days }}", "{{ window_day }}",
			`kb/POL-REF.md:9: expression "window_day": undeclared reference to 'window_day': ` +
				`did you mean "window_days"?`},
		"article param":        {article, "{int: 30}", "{}", "a param of an article is"},
		"article front matter": {article, "version: 1\n", "", `missing key "version"`},
		"step before its turn": {flow, "requires: [s0, s2]", "requires: [s0, s4]",
			`requires of step s3 names "s4", which doesn't exist`},
		"no terminal step": {flow, "terminal: true", "terminal: false", "seed 0 has 0 terminal steps"},
		"terminal action": {flow, "ask: true, answer", "terminal: true, answer",
			"an asking step has an answer"},
		"asking action": {flow, "action: respond_user, ask", "action: check_payment, ask",
			"only respond_user asks"},
		"about of a look-up": {flow, "id: s1, action", "id: s1, about: [order], action",
			"about belongs to an asking step"},
		"minutes of an action": {flow, "max_steps: 8", "max_steps: 8, step_minutes: {check_payment: 1}",
			`missing key "respond_user"`},
		"minutes that run back": {flow, "max_steps: 8", "max_steps: 8, step_minutes: {check_order_status: 1, " +
			"check_payment: -1, initiate_refund: 3, escalate_issue: 2, respond_user: 4}",
			"limits.step_minutes.check_payment must be from 0 to 120"},
		"no query": {flow, `query: "I was charged twice for {{ order_id }}."`,
			`query: [{text: "Hello.", when: "!settled && settled"}]`, "no query is left"},
		"argument form": {flow, "payment_id: any", "payment_id: some",
			"an argument is any, {eq: value} or {in: [values]}"},
		"goal of no bool": {flow, `goal: ["replied"`, `goal: ["size(refunds)"`,
			`expression "size(refunds)" is int, want bool`},
		"param hides a record": {flow, "  price: {money", "  orders: {int: [1, 2]}\n  price: {money",
			`param "orders" hides a variable of predicates`},
		"fault's call": {flow, "call: 1", "call: 0", "tool_faults.call must be from 1 to 100"},
		"no good reference": {flow, `good: ["{{ money(price) }} charged."]`, "good: []",
			"no good reference is left"},
		"names without people": {"names/en.yaml", "[Strauß, Łuk]", "[]",
			"people needs at least one given and one family name"},
		"names of the wrong shape": {"names/en.yaml", "people: {given: [Ana, Bø, \"Zoë\"]", "people: {given: Ana",
			`want a list, got "Ana"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := loadOne(testPack(t, tt.file, tt.old, tt.replacement))
			if tt.want == "" {
				if err != nil {
					t.Fatalf("Load: %v, want no fault", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Load: %v\nwant it to contain: %s", err, tt.want)
			}
		})
	}
}

func TestLoadReportsAllFaultsTogether(t *testing.T) {
	files := testPack(t, "tickets/T1.yaml", "intensity: 0", "intensity: 9, mood: bad")
	files["tickets/notes.txt"] = &fstest.MapFile{Data: []byte("x")}
	files["workflows/W1.yaml"] = &fstest.MapFile{Data: []byte(strings.Replace(string(files["workflows/W1.yaml"].Data),
		"price + usd(1)", "prise + usd(1)", 1))}
	_, err := loadOne(files)
	for _, want := range []string{"tickets/T1.yaml:28: unknown key",
		"tickets/notes.txt: unexpected here: tickets holds files named <id>.yaml", "workflows/W1.yaml:", "'prise'"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load: %v\nwant it to contain: %s", err, want)
		}
	}
}

func TestTwoArticlesOfOneParam(t *testing.T) {
	files := testPack(t, "kb/POL-SLA.md", "---\n# First", "params: {window_days: {int: 14}}\n---\n# First")
	if _, err := loadOne(files); err == nil || !strings.Contains(err.Error(),
		`two articles have a param "window_days" of different values`) {
		t.Errorf("Load: %v, want the clash of window_days", err)
	}
}

func TestDigest(t *testing.T) {
	base := mustLoad(t, testPack(t, "", "", "")).Digest()
	if !strings.HasPrefix(base, "sha256:") || len(base) != len("sha256:")+64 {
		t.Errorf("digest %q, want sha256:<64 hexadecimal digits>", base)
	}
	tests := map[string]struct {
		file, old, replacement string
		same                   bool
	}{
		"comment": {"tickets/T1.yaml", "language: en", "# a remark\nlanguage: en", true},
		"layout": {"tickets/T1.yaml", "sentiment: {tone: calm, intensity: 0}",
			"sentiment:\n  intensity: 0\n  tone: calm", true},
		"authors": {"tickets/T1.yaml", "  difficulty: easy", "  authors: [somebody]\n  difficulty: easy",
			true},
		"reference":         {"tickets/T1.yaml", "Passed on.", "Handed on.", true},
		"shown":             {"tickets/T1.yaml", `shown: "{{ over }}"`, "shown: true", true},
		"cue":               {"tickets/T1.yaml", "cue: billing", "cue: general", true},
		"customer's line":   {"tickets/T1.yaml", "Again?", "Once more?", false},
		"reason":            {"workflows/W1.yaml", "more than one charge", "twice", true},
		"text":              {"tickets/T1.yaml", "Can we have", "May we have", false},
		"fact":              {"tickets/T1.yaml", "slot: sum", "slot: total", false},
		"version":           {"tickets/T1.yaml", "version: 1", "version: 2", false},
		"type of a literal": {"workflows/W1.yaml", "quantity: 1", "quantity: 2", false},
		"goal":              {"workflows/W1.yaml", "size(refunds) == 1", "size(refunds) <= 1", false},
		"article":           {"kb/POL-REF.md", "An agent may", "An agent can", false},
		"article param":     {"kb/POL-REF.md", "{int: 30}", "{int: 31}", false},
		"article canary":    {"kb/POL-REF.md", "canary 0", "canary 1", true},
		"name":              {"names/en.yaml", "Ana", "Ada", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := mustLoad(t, testPack(t, tt.file, tt.old, tt.replacement)).Digest()
			if (got == base) != tt.same {
				t.Errorf("digest equal = %t, want %t", got == base, tt.same)
			}
		})
	}
}

// No file makes loading panic, and a loaded catalogue is deterministic.
func FuzzLoad(f *testing.F) {
	base := testPack(f, "", "", "")
	names := slices.Sorted(maps.Keys(base))
	for i, name := range names {
		f.Add(uint8(i), base[name].Data)
	}
	f.Fuzz(func(t *testing.T, file uint8, data []byte) {
		files := maps.Clone(base)
		files[names[int(file)%len(names)]] = &fstest.MapFile{Data: data}
		c, err := loadOne(files)
		if err != nil {
			return
		}
		for _, s := range c.Tickets() {
			for seed := range int64(8) {
				first := hashInstance(s.Instantiate(seed))
				if first != hashInstance(s.Instantiate(seed)) {
					t.Fatalf("seed %d gives two different tickets", seed)
				}
			}
		}
	})
}

// loadOne loads a single pack.
func loadOne(fsys fs.FS) (*Catalog, error) { return LoadPacks(pack.Pack{FS: fsys}) }
