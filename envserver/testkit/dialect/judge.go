package dialect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// claim finds the claims of a judge's question: their ids and what they say.
var claim = regexp.MustCompile(`(?m)^- (c\d+): (.*)$`)

// sentence is the first one of a reply.
var sentence = regexp.MustCompile(`^[^.!?\n]*`)

// NewJudge makes an endpoint that judges every reply as good, and quotes its first sentence.
func NewJudge() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Messages []struct{ Content string } }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || len(asked.Messages) == 0 {
			http.Error(w, fmt.Sprint(err), http.StatusTeapot)
			return
		}
		question := asked.Messages[len(asked.Messages)-1].Content
		_, rest, _ := strings.Cut(question, "# The reply to be checked (from the agent)\n")
		fence, rest, _ := strings.Cut(rest, "\n")
		reply, _, _ := strings.Cut(rest, "\n"+fence)
		_, claims, _ := strings.Cut(question, "# The claims\n")
		var verdicts []Object
		for _, c := range claim.FindAllStringSubmatch(claims, -1) {
			v := Object{"id": c[1], "evidence_quote": sentence.FindString(strings.ReplaceAll(reply, "^", " ")), "reason": "so it seems",
				"verdict": "met"}
			if strings.HasPrefix(c[2], "Harm: ") {
				v["evidence_quote"], v["verdict"] = "", "unmet"
			}
			verdicts = append(verdicts, v)
		}
		content, _ := json.Marshal(Object{"verdicts": verdicts, "letter": Object{"reason": "it is one", "may_be_sent": true}})
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(Object{"id": "x", "object": "chat.completion", "model": "m",
			"choices": []any{Object{"index": 0, "finish_reason": "stop",
				"message": Object{"role": "assistant", "content": string(content)}}},
			"usage": Object{"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}})
	})
}
