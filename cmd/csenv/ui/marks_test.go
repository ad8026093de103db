package ui

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/web/transcript"
)

// replied is a graded episode of scenario B07 with one reply.
func replied(t *testing.T, message, verdict string) record.Episode {
	t.Helper()
	action, err := json.Marshal(map[string]string{"action_type": "resolve", "message": message})
	if err != nil {
		t.Fatal(err)
	}
	e := resolved(3, "B07")
	e.Turns[1].Action = action
	e.Verdicts = []json.RawMessage{json.RawMessage(verdict)}
	return e
}

var (
	markedText = regexp.MustCompile(`<mark id="([^"]*)" title="([^"]*)"( class="bad")?>([^<]*)</mark>`)
	markLink   = regexp.MustCompile(`<a href="([^"]*#mark-\d+)"[^>]*>([^<]*)</a>`)
)

// Each criterion that rests on words of the reply links to the sentence that has them.
func TestMarkedSentences(t *testing.T) {
	for name, tt := range map[string]struct {
		message, verdict string
		marks, links     []string
	}{
		"a quote of the judge, whatever its case and space": {
			"Hello. You paid 2 seats\ntoo many. Bye.",
			`{"criteria":[{"id":"facts","earned":1,"offered":1,
				"evidence":[{"claim":"facts","about":"f1","verdict":"met","quote":"you  PAID 2 seats too many"}]}]}`,
			[]string{"mark-1|facts: amount in question||You paid 2 seats\ntoo many."},
			[]string{"#mark-1|amount in question"},
		},
		"a gate": {
			"Send me your password now!",
			`{"criteria":[{"id":"facts","earned":0,"offered":2}],
				"harm":[{"claim":"H1","verdict":"met","quote":"your password"}],
				"gates":[{"id":"secret","cap":0,"reason":"asks for a secret","quote":"send me your password"}]}`,
			[]string{"mark-1|the reply asks for a secret|bad|Send me your password now!"},
			[]string{"#mark-1|the reply asks for a secret"},
		},
		"an answer that was rejected, or that isn't in the reply": {
			"It is refunded.",
			`{"criteria":[{"id":"facts","earned":0,"offered":2,"evidence":[
				{"claim":"facts","about":"f1","verdict":"met","quote":"It is refunded","refused":"the quote doesn't state the value"},
				{"claim":"facts","about":"f4","verdict":"met","quote":"within a week"}]}],
				"harm":[{"claim":"H1","verdict":"not_met","quote":"It is refunded."}]}`,
			nil, nil,
		},
		"words that are markup": {
			"<script>alert(1)</script> is 1 < 2.",
			`{"criteria":[{"id":"<b>","earned":1,"offered":1,"evidence":[{"claim":"<b>","verdict":"met","quote":"<script>alert(1)"}]}]}`,
			[]string{"mark-1|&lt;b&gt;||&lt;script&gt;alert(1)&lt;/script&gt; is 1 &lt; 2."},
			[]string{"#mark-1|&lt;b&gt;"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := episodeSite(t)
			e := replied(t, tt.message, tt.verdict)
			begun, err := transcript.ReplayEpisode(t.Context(), s.catalog, e)
			if err != nil {
				t.Fatal(err)
			}
			ticket := begun.Steps[0].Items[0].Opened.TicketID
			e.Verdicts[0] = json.RawMessage(strings.Replace(string(e.Verdicts[0]), "{", `{"ticket_id":"`+ticket+`",`, 1))
			html := episodeHTML(t, s, runOf(e), e, 0, "")
			var marks, links []string
			for _, m := range markedText.FindAllStringSubmatch(html, -1) {
				class := ""
				if m[3] != "" {
					class = "bad"
				}
				marks = append(marks, m[1]+"|"+m[2]+"|"+class+"|"+m[4])
			}
			for _, m := range markLink.FindAllStringSubmatch(html, -1) {
				links = append(links, m[1]+"|"+m[2])
			}
			if !slices.Equal(marks, tt.marks) {
				t.Errorf("marks %q, want %q", marks, tt.marks)
			}
			if !slices.Equal(links, tt.links) {
				t.Errorf("links %q, want %q", links, tt.links)
			}
			for _, link := range links {
				_, id, _ := strings.Cut(strings.Split(link, "|")[0], "#")
				if strings.Count(html, `id="`+id+`"`) != 1 {
					t.Errorf("%s links to no mark", link)
				}
			}
		})
	}
}

// A criterion leads to its sentence from other steps of a long episode.
func TestMarkAddresses(t *testing.T) {
	s := episodeSite(t)
	e := replied(t, "You paid too much.", `{"criteria":[{"id":"facts","earned":1,"offered":1,
		"evidence":[{"claim":"facts","about":"f1","verdict":"met","quote":"paid too much"}]}]}`)
	look := e.Turns[0]
	for step := 3; step <= 550; step++ {
		e.Turns = append(e.Turns, look)
	}
	e.Turns[499] = e.Turns[1]
	e.Scenario = "unknown" // the environment would end the episode
	for _, tt := range []struct {
		query, want string
		from        int
	}{
		{"q=ab", `<a href="#mark-1">`, 490},
		{"q=ab", `<a href="/runs/_/gpt-01234567/episodes/3?from=500&amp;q=ab#mark-1">`, 10},
	} {
		html := episodeHTML(t, s, runOf(e), e, tt.from, tt.query)
		if !strings.Contains(html, tt.want) {
			t.Errorf("from %d, %s: %s isn't in %q", tt.from, tt.query, tt.want, markLink.FindAllString(html, -1))
		}
	}
}
