package customer_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/customer"
	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/talk"
)

// question is what the scripted model is asked.
type question struct {
	n     int64 // of the endpoint's requests, from 1
	words bool  // to word an answer, and otherwise to read a message
	// Acts and Message are of the material.
	Acts []struct {
		Sense string `json:"sense"`
	} `json:"acts"`
	Message   string `json:"message"`
	complaint string
}

// senses are the words of the acts as the model is given them.
func (q question) senses() string {
	var all []string
	for _, a := range q.Acts {
		all = append(all, a.Sense)
	}
	return strings.Join(all, " ")
}

// say is an answer of the form that was asked for.
func say(words string) string { return testkit.EncodeJSON(map[string]string{"words": words}) }

const hearsNothing = `{"asks":[],"offers":[],"confirms":[],"facts":[]}`

// serve serves a model at an endpoint. One that answers "" doesn't answer.
func serve(t *testing.T, model func(http.ResponseWriter, *http.Request, question) string) (url string, calls *atomic.Int64) {
	t.Helper()
	calls = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Messages []struct{ Content string }
		}
		data, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(data, &body) != nil || len(body.Messages) != 2 {
			return
		}
		q := question{n: calls.Add(1), words: strings.HasPrefix(body.Messages[0].Content, "You word")}
		material, complaint, _ := strings.Cut(body.Messages[1].Content, "\n\nYour last answer")
		if err := json.Unmarshal([]byte(material), &q); err != nil {
			t.Error(err)
		}
		q.complaint = complaint
		text := model(w, r, q)
		if text == "" {
			return
		}
		_, _ = io.WriteString(w, testkit.EncodeJSON(map[string]any{
			"usage": map[string]int{"prompt_tokens": 10, "completion_tokens": 3},
			"choices": []any{map[string]any{"finish_reason": "stop",
				"message": map[string]string{"role": "assistant", "content": text}}}}))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1", calls
}

// answers is a model that always answers.
func answers(model func(question) string) func(http.ResponseWriter, *http.Request, question) string {
	return func(_ http.ResponseWriter, _ *http.Request, q question) string { return model(q) }
}

func newCustomer(t *testing.T, url string) *customer.Customer {
	t.Helper()
	c, err := customer.New(customer.Config{BaseURL: url, Model: "m-1", Timeout: 5 * time.Second,
		Random: func() float64 { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var now = time.Date(2026, 5, 10, 9, 0, 0, 0, time.UTC)

// TestHear drops what the message doesn't have.
func TestHear(t *testing.T) {
	const message = "Could you send me a photo of the lamp, please? The parcel came on May 4, 2026. May I refund " +
		"$12.50 for LD-104233 now, or send it to 1 Mill Lane, Ely? We can't extend the warranty."
	const confirm = `{"tool":"initiate_refund","quote":"May I refund","order_id":"ld-104233","payment_id":"","sku":"",` +
		`"amount":"$12.50","address":""}`
	refund := desk.Effect{Tool: desk.Refunding, OrderID: "LD-104233", Amount: 1250}
	for name, tc := range map[string]struct {
		read    string
		want    talk.Heard
		dropped int64
	}{
		"nothing": {hearsNothing, talk.Heard{}, 0},
		"all": {`{"asks":[{"topic":"photo","quote":"could you send me a PHOTO"}],"offers":[{"tool":"change_address",` +
			`"quote":"send it to 1 Mill Lane"}],"confirms":[` + confirm + `],"facts":[{"what":"delivered_on",` +
			`"value":"4 May 2026"},{"what":"next_step","value":"refused"}]}`,
			talk.Heard{Asks: []string{"photo"}, Offers: []string{desk.Readdressing}, Confirms: []desk.Effect{refund},
				Facts: []facts.Fact{{What: "delivered_on", Value: "4 May 2026"}, {What: "next_step", Value: "refused"}}}, 0},
		"a quote that isn't there": {`{"asks":[{"topic":"serial","quote":"the serial number"},{"topic":"photo","quote":""}],` +
			`"offers":[],"confirms":[],"facts":[]}`, talk.Heard{}, 2},
		"what isn't known": {`{"asks":[{"topic":"password","quote":"a photo of"}],"offers":[{"tool":"check_payment",` +
			`"quote":"a photo of"}],"confirms":[],"facts":[{"what":"mood","value":"May 4"}]}`, talk.Heard{}, 3},
		"another amount": {`{"asks":[],"offers":[],"confirms":[` + strings.Replace(confirm, "$12.50", "$13.50", 1) +
			`],"facts":[]}`, talk.Heard{}, 1},
		"another order": {`{"asks":[],"offers":[],"confirms":[` + strings.Replace(confirm, "ld-104233", "LD-104234", 1) +
			`],"facts":[]}`, talk.Heard{}, 1},
		"another address": {`{"asks":[],"offers":[],"confirms":[` + strings.Replace(confirm, `"address":""`,
			`"address":"2 Mill Lane, Ely"`, 1) + `],"facts":[]}`, talk.Heard{}, 1},
		"another day": {`{"asks":[],"offers":[],"confirms":[],"facts":[{"what":"delivered_on","value":"5 May 2026"}]}`,
			talk.Heard{}, 1},
		"twice": {`{"asks":[{"topic":"photo","quote":"a photo"},{"topic":"photo","quote":"a photo"}],"offers":[],` +
			`"confirms":[],"facts":[]}`, talk.Heard{Asks: []string{"photo"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := serve(t, answers(func(question) string { return tc.read }))
			var got episode.Exchange
			if err := newCustomer(t, url).Hear(t.Context(), &workflow.Message{Text: message, Language: "en", Now: now}, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Heard); diff != "" || got.Counts.Dropped != tc.dropped || got.Counts.Failed > 0 {
				t.Errorf("%+v, heard (-want +got):\n%s", got.Counts, diff)
			}
			data, err := json.Marshal(got)
			var again episode.Exchange
			if err == nil {
				err = json.Unmarshal(data, &again)
			}
			if diff := cmp.Diff(got, again); err != nil || diff != "" {
				t.Errorf("%v, the record differs (-said +read):\n%s", err, diff)
			}
		})
	}
}

// TestStatedActsNeedNoModel doesn't ask about a message beside which something is stated.
func TestStatedActsNeedNoModel(t *testing.T) {
	url, calls := serve(t, answers(func(question) string { return `{"asks":[{"topic":"photo","quote":"Send a photo"}]}` }))
	c := newCustomer(t, url)
	for _, stated := range []talk.Heard{{Asks: []string{"order"}}, {Offers: []string{desk.Refunding}},
		{Facts: []facts.Fact{{What: "team", Value: "finance"}}}, {Confirms: []desk.Effect{{Tool: desk.Cancelling}}}} {
		var got episode.Exchange
		if err := c.Hear(t.Context(), &workflow.Message{Text: "Send a photo.", Stated: stated, Language: "en", Now: now}, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(stated, got.Heard); diff != "" || calls.Load() > 0 {
			t.Errorf("%d requests, heard (-want +got):\n%s", calls.Load(), diff)
		}
	}
}

func turn() *talk.Turn {
	return &talk.Turn{Language: "en", Voice: "plain", Mood: "calm", Now: now, Said: []string{"Hello", "When did it come?"},
		Acts: []talk.Act{{Kind: talk.Tell, Topic: talk.AboutDelivery, Words: "The parcel got here on May 4, 2026.",
			Values: []facts.Wanted{{What: "delivered_on", Values: []string{"May 4, 2026"}}}}}}
}

const (
	honest = "It was delivered to me on May 4, 2026."
	lie    = "It was delivered to me on May 9, 2026."
)

// TestWord words a refused utterance again, and then says the template's words.
func TestWord(t *testing.T) {
	template := turn().Template()
	down := func(w http.ResponseWriter, _ *http.Request, _ question) string {
		w.WriteHeader(http.StatusBadRequest)
		return ""
	}
	for name, tc := range map[string]struct {
		model func(http.ResponseWriter, *http.Request, question) string
		words string
		want  score.CustomerCounts
	}{
		"honest": {answers(func(question) string { return say(honest) }), honest,
			score.CustomerCounts{Tokens: score.Tokens{Prompt: 10, Completion: 3}}},
		"lies once": {answers(func(q question) string {
			if q.complaint == "" {
				return say(lie)
			}
			return say(honest)
		}), honest, score.CustomerCounts{Refused: 1, Tokens: score.Tokens{Prompt: 20, Completion: 6}}},
		"lies always": {answers(func(question) string { return say(lie) }), template,
			score.CustomerCounts{Refused: 3, Replaced: 1, Tokens: score.Tokens{Prompt: 30, Completion: 9}}},
		"no object": {answers(func(question) string { return "I am a customer." }), template,
			score.CustomerCounts{Failed: 1, Replaced: 1, Tokens: score.Tokens{Prompt: 30, Completion: 9}}},
		"refuses": {down, template, score.CustomerCounts{Failed: 1, Replaced: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := serve(t, tc.model)
			var got episode.Exchange
			if err := newCustomer(t, url).Word(t.Context(), turn(), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(episode.Exchange{Words: tc.words, Counts: tc.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAStepThatEnds is an error alone: nothing is counted, and the step isn't taken.
func TestAStepThatEnds(t *testing.T) {
	url, _ := serve(t, answers(func(question) string { return say(honest) }))
	c := newCustomer(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var got episode.Exchange
	if err := c.Word(ctx, turn(), &got); !errors.Is(err, context.Canceled) || got.Counts.Failed+got.Counts.Replaced > 0 {
		t.Errorf("wording: %v, %+v", err, got)
	}
	if err := c.Hear(ctx, &workflow.Message{Text: "Hello", Language: "en", Now: now}, &got); !errors.Is(err, context.Canceled) {
		t.Errorf("hearing: %v", err)
	}
}

func TestNewChecksItsConfiguration(t *testing.T) {
	for want, c := range map[string]customer.Config{
		"customer's base URL": {Model: "m"}, "customer's model": {BaseURL: "https://h.test/v1", Model: "a b"},
	} {
		if _, err := customer.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
