package audit

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/envserver/testkit"
)

// The scores of the ways of working in queues that are drawn from all 40 tickets, in thousandths:
// of all points, and of the best schedule's. The pass line of the task is 850, which only the order
// of urgency reaches.
var publicQueues = []QueueFigures{
	{"oracle", 843, 1000},
	{"perfect answers, most urgent first", 832, 986},
	{"perfect answers, all labels first", 686, 809},
	{"perfect answers, enterprise first", 655, 779},
	{"perfect answers, first come first served", 652, 777},
	{"perfect answers, angriest first", 636, 757},
	{"perfect answers, least urgent first", 584, 695},
	{"perfect decisions, worthless replies", 329, 394},
	{"keyword category, always medium, weak replies, resolve", 270, 320},
	{"resolve everything with boilerplate", 140, 166},
	{"labels only", 120, 144},
	{"escalate everything with boilerplate", 95, 113},
}

// table contains the public tickets at seed 0: id, level, priority, escalation, tone, and whether
// keywords indicate the right category.
const table = `B01 premium low no angry right;B02 basic low no worried right;B03 enterprise low yes neutral right;
B04 premium medium no neutral right;B05 basic medium yes neutral right;
B06 basic high no angry right;B07 enterprise high yes neutral right;B08 premium high yes calm right;
B09 enterprise urgent no neutral wrong;B10 basic urgent yes calm right;
S01 premium low no neutral wrong;S02 enterprise low yes calm wrong;S03 enterprise medium no angry right;
S04 premium medium yes neutral right;S05 enterprise medium yes neutral wrong;
S06 basic high no worried right;S07 premium high yes calm right;S08 basic urgent no neutral right;
S09 enterprise urgent no calm wrong;S10 basic urgent yes angry right;
T01 basic low no angry right;T02 premium low yes calm right;T03 premium low yes calm right;
T04 enterprise medium no neutral right;T05 basic medium yes angry right;
T06 basic high no neutral right;T07 enterprise high yes angry wrong;T08 premium urgent no calm wrong;
T09 premium urgent no neutral right;T10 basic urgent yes angry wrong;
G01 enterprise low no neutral wrong;G02 basic low yes angry right;G03 premium medium no calm right;
G04 basic medium no angry wrong;G05 premium medium yes neutral wrong;
G06 enterprise high no worried wrong;G07 basic high no calm wrong;G08 enterprise high yes worried wrong;
G09 premium urgent yes neutral wrong;G10 enterprise urgent yes calm wrong`

// row is a ticket of the table with the letter of its category.
type row struct {
	queued
	category byte
}

func readTable(t *testing.T) []row {
	t.Helper()
	var rows []row
	for line := range strings.SplitSeq(table, ";") {
		f := strings.Fields(line)
		if len(f) != 6 {
			t.Fatalf("row %q", line)
		}
		q := queued{Case: queue.Case{Priority: f[2], Escalate: f[3] == "yes"}, level: f[1], tone: f[4],
			cueRight: f[5] == "right"}
		rows = append(rows, row{q, f[0][0]})
	}
	return rows
}

// drawShift draws five rows until they are a valid queue.
func drawShift(draws *rand.Rand, rows []row) shift {
	for {
		var s shift
		var urgent, idle, escalate int
		categories := map[byte]bool{}
		for i, at := range draws.Perm(len(rows))[:queue.Size] {
			r := rows[at]
			s[i], categories[r.category] = r.queued, true
			switch r.Priority {
			case "urgent":
				urgent++
			case "low", "medium":
				idle++
			}
			if r.Escalate {
				escalate++
			}
		}
		if urgent > 0 && idle > 0 && (escalate == 2 || escalate == 3) && len(categories) >= 3 {
			return s
		}
	}
}

// TestQueueFiguresOfTheTable tests the rules of queues on the table, independently of the tickets'
// files.
func TestQueueFiguresOfTheTable(t *testing.T) {
	rows := readTable(t)
	draws := rand.New(rand.NewPCG(1, 2))
	shifts := make([]shift, 600)
	for i := range shifts {
		shifts[i] = drawShift(draws, rows)
	}
	compareQueues(t, queueFigures(shifts), publicQueues, tolerance)
}

func compareQueues(t *testing.T, got, want []QueueFigures, within int64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d ways of working, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		t.Logf("%-56s %4d %4d (%d %d)", g.Policy, g.Raw, g.Relative, w.Raw, w.Relative)
		if g.Policy != w.Policy || abs(g.Raw-w.Raw) > within || abs(g.Relative-w.Relative) > within {
			t.Errorf("%s earns %d and %d of the best, want %s: %d and %d, within %d", g.Policy, g.Raw, g.Relative,
				w.Policy, w.Raw, w.Relative, within)
		}
	}
}

func abs(n int64) int64 { return max(n, -n) }

// queueTolerance applies to the public queues: they are 100, each with tickets of one split, and
// the seed changes some answers.
const queueTolerance = 40

// TestPublicQueues compares the figures of the public queues once all tickets exist. Lint always
// checks that order matters and shortcuts don't pass.
func TestPublicQueues(t *testing.T) {
	c := testkit.Catalog(t)
	got, err := PlayQueues(c, NewCueReader(c), 0, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) == 0 {
		t.Fatal("the public catalogue makes no queue")
	}
	if n := len(c.Only(isPublic).Tickets()); n < publicTickets {
		t.Skipf("only %d of the %d public tickets exist", n, publicTickets)
	}
	compareQueues(t, got, publicQueues, queueTolerance)
}

func TestQueuesOfASmallCatalogue(t *testing.T) {
	c := small(t)
	if got, err := PlayQueues(c, NewCueReader(c), 0); err != nil || got != nil {
		t.Errorf("Queues() = %v, %v, want nothing of one ticket", got, err)
	}
}

// BenchmarkQueues plays all public queues at one seed.
func BenchmarkQueues(b *testing.B) {
	c := testkit.Catalog(b)
	b.ReportAllocs()
	for b.Loop() {
		if got, err := PlayQueues(c, NewCueReader(c), 0); err != nil ||
			!slices.ContainsFunc(got, func(f QueueFigures) bool { return f.Relative == 1000 }) {
			b.Fatal(got, err)
		}
	}
}
