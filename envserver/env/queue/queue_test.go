package queue_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

func TestFactor(t *testing.T) {
	tests := map[string]struct {
		priority string
		answered int
		want     int64
	}{
		"at once":           {priority: "urgent", answered: 1, want: 1000},
		"at the limit":      {priority: "urgent", answered: 10, want: 1000},
		"a minute late":     {priority: "urgent", answered: 11, want: 940},
		"half as long":      {priority: "high", answered: 30, want: 700},
		"at twice":          {priority: "urgent", answered: 20, want: 400},
		"after twice":       {priority: "urgent", answered: 36, want: 400},
		"never":             {priority: "low", answered: queue.Never, want: 400},
		"rounded":           {priority: "medium", answered: 46, want: 987},
		"low is in no rush": {priority: "low", answered: 36, want: 1000},
	}
	for name, tc := range tests {
		if got := queue.ReplyTimeFactor(tc.priority, tc.answered); got != tc.want {
			t.Errorf("%s: Factor(%s, %d) = %d, want %d", name, tc.priority, tc.answered, got, tc.want)
		}
	}
}

func TestFactorFalls(t *testing.T) {
	for _, p := range priorities {
		for minute := range 200 {
			if a, b := queue.ReplyTimeFactor(p, minute), queue.ReplyTimeFactor(p, minute+1); b > a || b < queue.TooLate ||
				a > queue.InTime {
				t.Errorf("%s: the factor is %d at %d and %d a minute later", p, a, minute, b)
			}
		}
	}
}

// TestPerfectIsWhatTheGraderOffers compares the points of perfect acts with the grader's rubric.
func TestPerfectIsWhatTheGraderOffers(t *testing.T) {
	dims, err := grader.GradeTicket(&scenarios.Served{}, tasks.TicketResolve, grader.Decisions{},
		grader.Verdict{Status: grader.StatusOK})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{
		"category": queue.Category.Perfect(), "priority": queue.Priority.Perfect(),
		"escalation": queue.Escalate.Perfect(), "response": queue.Reply.Perfect(),
	}
	got := map[string]int64{}
	for _, d := range dims {
		got[d.Name] = d.Offered
	}
	if diff := cmp.Diff(want, got); diff != "" || queue.Resolve.Perfect() != queue.Escalate.Perfect() {
		t.Errorf("offered (-want +got):\n%s", diff)
	}
}

func TestPlay(t *testing.T) {
	cases := [queue.Size]queue.Case{{Priority: "urgent"}, {Priority: "high", Escalate: true},
		{Priority: "medium", Escalate: true}, {Priority: "low", Escalate: true}, {Priority: "low"}}
	reply := func(i int) queue.Act { return queue.Act{Ticket: i, Kind: queue.Reply, Points: 500} }
	escalate := func(i int) queue.Act { return queue.Act{Ticket: i, Kind: queue.Escalate, Points: 200} }
	tests := map[string]struct {
		acts     []queue.Act
		weighted int64
		skipped  int
	}{
		"nothing": {acts: nil, weighted: 0, skipped: 0},
		"in time": {acts: []queue.Act{reply(0)}, weighted: 4 * 500 * 1000, skipped: 0},
		"late": {acts: []queue.Act{reply(1), reply(2), reply(0)}, weighted: 3*500*1000 + 2*500*1000 + 4*500*700,
			skipped: 0},
		"unanswered": {acts: []queue.Act{escalate(1)}, weighted: 3 * 200 * 400, skipped: 0},
		"two slots": {acts: []queue.Act{escalate(1), escalate(2), escalate(3)}, weighted: 3*200*400 + 2*200*400,
			skipped: 1},
		"acts that don't fit": {acts: []queue.Act{reply(0), reply(0), reply(0), reply(0), reply(0), reply(0), reply(0),
			reply(4), {Ticket: 4, Kind: queue.Category, Points: 200}}, weighted: 7*4*500*1000 + 200*400, skipped: 1},
		"only the first time": {acts: []queue.Act{{Ticket: 0, Kind: queue.Reply}, reply(1), reply(2), reply(0)},
			weighted: 3*500*1000 +
				2*500*1000 + 4*500*1000, skipped: 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			weighted, played := queue.PlayActs(cases, tc.acts)
			if weighted != tc.weighted || len(tc.acts)-len(played) != tc.skipped {
				t.Errorf("Play() = %d with %d acts passed over, want %d with %d", weighted, len(tc.acts)-len(played),
					tc.weighted, tc.skipped)
			}
		})
	}
}

var priorities = []string{"low", "medium", "high", "urgent"}

func casesGen() *rapid.Generator[[queue.Size]queue.Case] {
	return rapid.Custom(func(t *rapid.T) [queue.Size]queue.Case {
		var cases [queue.Size]queue.Case
		for i := range cases {
			cases[i] = queue.Case{Priority: rapid.SampledFrom(priorities).Draw(t, "priority"),
				Escalate: rapid.Bool().Draw(t, "escalate")}
		}
		return cases
	})
}

// TestBestIsBest compares the best schedule with all others of any order, replays its acts, and
// checks that the order of arrival doesn't matter.
func TestBestIsBest(t *testing.T) {
	var optima queue.Optima
	rapid.Check(t, func(t *rapid.T) {
		cases := casesGen().Draw(t, "cases")
		best := queue.FindBestSchedule(cases)
		if weighted, played := queue.PlayActs(cases, best.Acts); weighted != best.WeightedScore ||
			len(played) != len(best.Acts) {
			t.Fatalf("its acts earn %d and %d of %d fit, want %d", weighted, len(played), len(best.Acts),
				best.WeightedScore)
		}
		order := [queue.Size]int(rapid.Permutation([]int{0, 1, 2, 3, 4}).Draw(t, "order"))
		for _, acts := range [][]queue.Act{queue.OneByOne(cases, order), queue.LabelsFirst(cases, order)} {
			if weighted, _ := queue.PlayActs(cases, acts); weighted > best.WeightedScore {
				t.Fatalf("order %v earns %d, the best %d", order, weighted, best.WeightedScore)
			}
		}
		var moved [queue.Size]queue.Case
		for i, from := range order {
			moved[i] = cases[from]
		}
		if got := optima.Of(moved); got != best.Optimum || optima.Of(moved) != got {
			t.Fatalf("in another order of arrival the best is %+v, not %+v", got, best.Optimum)
		}
	})
}

func TestLeft(t *testing.T) {
	urgent, high, low := queue.Case{Priority: "urgent"}, queue.Case{Priority: "high"}, queue.Case{Priority: "low"}
	escalated := queue.Case{Priority: "high", Escalate: true}
	grave := queue.Case{Priority: "urgent", Escalate: true}
	tests := map[string]struct {
		cases [queue.Size]queue.Case
		want  int64
	}{
		"the low one is left":           {[queue.Size]queue.Case{urgent, high, low, low, low}, 0},
		"one of equal ones is left":     {[queue.Size]queue.Case{high, high, high, high, high}, 3},
		"the order of urgency leaves":   {[queue.Size]queue.Case{grave, grave, high, grave, urgent}, 7},
		"no escalation for a third one": {[queue.Size]queue.Case{escalated, escalated, escalated, low, low}, 3},
	}
	for name, tt := range tests {
		if got := queue.FindBestSchedule(tt.cases).Left; got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

func TestCompose(t *testing.T) {
	catalog := testkit.Catalog(t)
	queues := queue.ComposeQueues(catalog)
	if len(queues) == 0 {
		t.Fatal("no queues")
	}
	seen := map[[queue.Size]string]string{}
	for _, q := range queues {
		set := q.Tickets
		slices.Sort(set[:])
		if other := seen[set]; other != "" {
			t.Errorf("%s and %s hold the same tickets", other, q.ID)
		}
		seen[set] = q.ID
		checkQueue(t, catalog, q)
	}
	if !slices.IsSortedFunc(queues, func(a, b queue.Queue) int { return strings.Compare(a.ID, b.ID) }) {
		t.Error("the queues are not ordered by id")
	}
}

// All tickets of a queue have one time, and an article has one text in them.
func TestQueuesAreCoherent(t *testing.T) {
	const seeds = 200
	catalog := testkit.Catalog(t)
	queues := queue.ComposeQueues(catalog)
	for _, q := range queues {
		for seed := range int64(seeds) {
			tickets, err := q.Instantiate(catalog, seed)
			if err != nil {
				t.Fatal(err)
			}
			articles := map[string]string{}
			for i, ticket := range tickets {
				if ticket.ScenarioID != q.Tickets[i] || !ticket.Now.Equal(tickets[0].Now) {
					t.Errorf("%s seed %d: ticket %d is %s at %s, want %s at %s", q.ID, seed, i, ticket.ScenarioID,
						ticket.Now, q.Tickets[i], tickets[0].Now)
				}
				for _, a := range ticket.Articles {
					if text, ok := articles[a.ID]; ok && text != a.Body {
						t.Errorf("%s seed %d: article %s of %s has two texts", q.ID, seed, a.ID, ticket.ScenarioID)
					}
					articles[a.ID] = a.Body
				}
			}
		}
	}
}

func TestInstantiateRefusesAForeignQueue(t *testing.T) {
	q := queue.Queue{ID: "Q999", Tickets: [queue.Size]string{"B01", "X99"}}
	if _, err := q.Instantiate(testkit.Catalog(t), 1); err == nil ||
		!strings.Contains(err.Error(), "queue Q999 has the unknown ticket X99") {
		t.Errorf("error %v", err)
	}
}

func checkQueue(t *testing.T, catalog *scenarios.Catalog, q queue.Queue) {
	t.Helper()
	count := map[string]int{}
	for _, id := range q.Tickets {
		s, ok := catalog.Ticket(id)
		if !ok || s.Split != q.Split {
			t.Errorf("%s: ticket %s is not of split %s", q.ID, id, q.Split)
			continue
		}
		canonical, err := s.Instantiate(0)
		if err != nil {
			t.Fatal(err)
		}
		count[canonical.Gold.Priority]++
		if canonical.Gold.Escalate {
			count["escalate"]++
		}
		if count[s.Category]++; count[s.Category] == 1 {
			count["categories"]++
		}
		if q.Language != s.Language && q.Language != "mul" {
			t.Errorf("%s: language %s, its ticket %s is in %s", q.ID, q.Language, id, s.Language)
		}
	}
	if count["urgent"] < 1 || count["low"]+count["medium"] < 1 || count["escalate"] < 2 || count["escalate"] > 3 ||
		count["categories"] < 3 {
		t.Errorf("%s is not valid: %v", q.ID, count)
	}
}

// A pool that serves one split has the same queues of that split as the whole catalogue.
func TestQueuesOfOneSplit(t *testing.T) {
	catalog := testkit.Catalog(t)
	all := queue.ComposeQueues(catalog)
	for _, split := range scenarios.Splits {
		got := queue.ComposeQueues(catalog.Split(split))
		want := slices.DeleteFunc(slices.Clone(all), func(q queue.Queue) bool { return q.Split != split })
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", split, diff)
		}
	}
}
