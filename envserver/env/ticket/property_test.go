package ticket

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/tasks"
)

// actionsGen draws actions of the schema and a few outside it.
func actionsGen() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{
		classifyRight, classifyWrong, `{"action_type":"classify","category":"billing"}`,
		`{"action_type":"classify","priority":"high"}`,
		say(respond, goodReply), say(respond, "Hm."), say(resolve, "Bye."), justResolve, escalateFinance,
		`{"action_type":"escalate"}`,
		`{"action_type":"search_knowledge_base","query":"refund"}`, `{"action_type":"submit","decision":"escalate"}`,
		`{"action_type":"fly"}`,
		turnTo(1), turnTo(2), turnTo(3), `{"action_type":"select_ticket","ticket_id":"T-NOWHERE"}`,
		say(respond, "Which invoice number is it?"),
	})
}

// watched is a random episode with its total reward, its final figures and the observations at the
// time of each step.
type watched struct {
	env   *environment
	mode  episode.RewardMode
	total int64
	final *episode.Final
	seen  []Observation
	texts []string
}

// TestEveryEpisodeKeepsTheRules plays random episodes: no sequence of actions pays more than gold,
// rewards add up to the score, every observation matches the served schema, the same actions give
// the same bytes, and neither later steps nor changes to an observation affect the episode.
func TestEveryEpisodeKeepsTheRules(t *testing.T) {
	schema := testkit.CompileSchema(t, testKind(judgeFunc(goodJudge)).schemas.Observation)
	rapid.Check(t, func(rt *rapid.T) {
		task := rapid.SampledFrom([]string{"ticket-classify", "ticket-resolve", tasks.QueueManagement}).Draw(rt, "task")
		mode := rapid.SampledFrom([]episode.RewardMode{episode.Dense, episode.Terminal}).Draw(rt, "mode")
		opts := episode.Options{Seed: 7, EpisodeID: "e1", RewardMode: mode, Pressure: rapid.Bool().Draw(rt, "pressure")}
		tickets := []*scenarios.Ticket{talkative()}
		if task == tasks.QueueManagement {
			tickets = testQueue()
		}
		w := &watched{env: startOn(task, opts, goodJudge, tickets...), mode: mode}
		twin := &watched{env: startOn(task, opts, goodJudge, tickets...), mode: mode}
		for _, action := range rapid.SliceOfN(actionsGen(), 1, 40).Draw(rt, "actions") {
			r, err := w.step(rt, schema, action)
			again, err2 := twin.step(rt, schema, action)
			if fmt.Sprint(err) != fmt.Sprint(err2) || testkit.EncodeJSON(r) != testkit.EncodeJSON(again) {
				rt.Fatal("the same step gave something else")
			}
			if err == nil {
				twin.seen[len(twin.seen)-1].ConversationHistory[0].Content = "changed by the client"
			}
		}
		for i := range w.seen {
			if testkit.EncodeJSON(w.seen[i]) != w.texts[i] {
				rt.Fatalf("observation %d changed later", i)
			}
		}
		if w.total > 1000 || w.total < 0 {
			rt.Fatalf("return %d is outside 0 to 1000", w.total)
		}
		if w.final != nil && w.final.Score != w.total*score.One/1000 {
			rt.Fatalf("score %d, rewards add up to %d", w.final.Score, w.total)
		}
	})
}

// TestRepeatsNeverPay plays gold with every action repeated k times.
func TestRepeatsNeverPay(t *testing.T) {
	for _, mode := range []episode.RewardMode{episode.Dense, episode.Terminal} {
		once := []string{classifyRight, say(respond, "Hm."), escalateFinance}
		rewards, _ := play(t, start("ticket-resolve", mode, goodJudge), once...)
		for i, a := range once {
			for k := 2; k <= 6; k++ {
				e := start("ticket-resolve", mode, goodJudge)
				var repeated []string
				repeated = append(repeated, once[:i]...)
				for range k {
					repeated = append(repeated, a)
				}
				again, _ := play(t, e, append(repeated, once[i+1:]...)...)
				if sum(again) > sum(rewards) {
					t.Errorf("%s mode: %d times %s pays %d, once %d", mode, k, a, sum(again), sum(rewards))
				}
			}
		}
	}
}
