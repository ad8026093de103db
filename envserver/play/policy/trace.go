package policy

import (
	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/envserver/play/record"
)

// maxTraced bounds the traces of an episode, in bytes of JSON: a record with them stays far below
// record.MaxLine.
const maxTraced = 8 << 20

// makeTrace returns the tokens of an answer as far as the endpoint gives them: the
// log-probabilities of OpenAI's protocol (the member "logprobs" of a request), and vLLM's token ids
// ("return_token_ids"). It returns nil if there are none, if they contradict each other, or if the
// episode's traces are too long.
func (p *modelPlayer) makeTrace(answer *endpoint.Answer) *record.Trace {
	t := &record.Trace{PromptIDs: answer.PromptTokenIDs, IDs: answer.TokenIDs}
	size := 12 * (len(t.PromptIDs) + len(t.IDs))
	for _, token := range answer.LogProbs.Content {
		t.Tokens, t.LogProbs = append(t.Tokens, token.Token), append(t.LogProbs, token.LogProb)
		size += 32 + 6*len(token.Token) // JSON escapes a byte with up to 6
	}
	contradicts := len(t.IDs) > 0 && len(t.LogProbs) > 0 && len(t.IDs) != len(t.LogProbs)
	if size == 0 || contradicts || p.traced+size > maxTraced {
		return nil
	}
	p.traced += size
	return t
}
