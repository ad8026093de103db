package ticket

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
)

// An observation writes what encoding/json writes.
func TestAppendJSON(t *testing.T) {
	texts := rapid.OneOf(rapid.Just(""), rapid.String(), rapid.SampledFrom([]string{"<a&b>", "\u2028\xff\"\\\n"}))
	attachment := rapid.Custom(func(t *rapid.T) Attachment {
		return Attachment{texts.Draw(t, "name"), texts.Draw(t, "content")}
	})
	fact := rapid.Custom(func(t *rapid.T) facts.Fact {
		return facts.Fact{What: texts.Draw(t, "what"), Value: texts.Draw(t, "value")}
	})
	message := rapid.Custom(func(t *rapid.T) Message {
		return Message{texts.Draw(t, "role"), texts.Draw(t, "text"), rapid.SliceOfN(fact, 0, 2).Draw(t, "facts")}
	})
	article := rapid.Custom(func(t *rapid.T) Article {
		p := newPage(scenarios.Article{ID: texts.Draw(t, "id"), Title: texts.Draw(t, "title"), Body: texts.Draw(t, "body")})
		shown := p.shown()
		if rapid.Bool().Draw(t, "plain") {
			shown.Encoded = ""
		}
		return shown
	})
	queued := rapid.Custom(func(t *rapid.T) QueuedTicket {
		return QueuedTicket{texts.Draw(t, "id"), texts.Draw(t, "subject"), texts.Draw(t, "level"), texts.Draw(t, "status"),
			rapid.Int().Draw(t, "waiting"), rapid.Ptr(rapid.Int(), true).Draw(t, "sla")}
	})
	score := rapid.Map(rapid.Int64Range(-2000, 2000), func(milli int64) float64 { return float64(milli) / 1000 })
	rapid.Check(t, func(t *rapid.T) {
		o := Observation{
			Task: texts.Draw(t, "task"), TicketID: texts.Draw(t, "id"), Now: now(t), CustomerName: texts.Draw(t, "name"),
			Company: texts.Draw(t, "company"), CustomerSince: texts.Draw(t, "since"), AccountLevel: texts.Draw(t, "level"),
			Language: texts.Draw(t, "language"), Subject: texts.Draw(t, "subject"), Description: texts.Draw(t, "text"),
			Attachments:         rapid.SliceOfN(attachment, 0, 2).Draw(t, "attachments"),
			ConversationHistory: rapid.SliceOfN(message, 0, 3).Draw(t, "messages"), Status: texts.Draw(t, "status"),
			Score: rapid.Ptr(score, true).Draw(t, "score"), Step: rapid.Int().Draw(t, "step"),
			MaxSteps: rapid.Int().Draw(t, "max"), AllowedActions: rapid.SliceOfN(texts, 0, 3).Draw(t, "allowed"),
			Feedback: texts.Draw(t, "feedback"), CustomerMood: texts.Draw(t, "mood"),
			ClockMinutes: rapid.Ptr(rapid.Int(), true).Draw(t, "clock"),
		}
		if rapid.Bool().Draw(t, "search") {
			o.KnowledgeBase = rapid.SliceOfN(article, 0, 3).Draw(t, "articles")
		}
		if rapid.Bool().Draw(t, "queue") {
			o.QueueStatus = &QueueStatus{rapid.SliceOfN(queued, 0, 3).Draw(t, "queue"), rapid.Int().Draw(t, "left"),
				rapid.Int().Draw(t, "slots")}
		}
		testkit.CheckAppendJSON(t, o)
	})
	if _, err := (Observation{Now: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}).AppendJSON(nil); err == nil {
		t.Error("a time that JSON has no text for was written")
	}
}

func now(t *rapid.T) time.Time {
	zone := time.FixedZone("", 60*rapid.IntRange(-720, 720).Draw(t, "zone"))
	seconds, nanos := rapid.Int64Range(0, 4e9).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanos")
	return time.Unix(seconds, nanos).In(zone)
}

// Every ticket of the catalogue is observed as encoding/json writes it.
func TestAppendJSONOfTheCatalogue(t *testing.T) {
	kind, err := New(testkit.Catalog(t), offline.New())
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range kind.Tasks() {
		for i, s := range task.Scenarios {
			env := kind.New()
			r, err := env.Reset(episode.Options{Task: task.Name, Scenario: s.ID, Seed: int64(i), Pressure: i%2 == 0})
			if err != nil {
				t.Fatal(err)
			}
			testkit.CheckAppendJSON(t, r.Observation.(Observation))
			r, err = env.Step(t.Context(), []byte(`{"action_type":"search_knowledge_base","query":"refund team"}`))
			if err != nil {
				t.Fatal(err)
			}
			testkit.CheckAppendJSON(t, r.Observation.(Observation))
		}
	}
}
