package endpoint

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// contextMembers are the members of a model's description in which servers give the length of its
// context: vLLM, SGLang; OpenRouter, Together; Groq; Mistral; LM Studio; llama.cpp (in meta).
var contextMembers = []string{"max_model_len", "context_length", "context_window", "max_context_length",
	"loaded_context_length", "n_ctx", "n_ctx_train"}

// ContextLength is the length of a model's context in tokens, as GET /models describes it; 0 if
// nothing is said.
func (c *Completions) ContextLength(ctx context.Context, model string) int64 {
	ctx, cancel := context.WithTimeout(ctx, c.service.Timeout)
	defer cancel()
	at := strings.Replace(c.url, "/chat/completions", "/models", 1)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return 0
	}
	c.service.Authorise(request)
	response, err := c.service.HTTPClient.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	body, err := io.ReadAll(LimitBody(response.Body, c.service.MaxBody))
	if err != nil || response.StatusCode != http.StatusOK {
		return 0
	}
	return contextLength(body, model)
}

// contextLength finds the length of a model's context in a list of models, 0 if it isn't there.
func contextLength(list []byte, model string) int64 {
	var models struct {
		Data []map[string]json.RawMessage `json:"data"`
	}
	if json.Unmarshal(list, &models) != nil {
		return 0
	}
	for _, m := range models.Data {
		var id string
		if json.Unmarshal(m["id"], &id) != nil || id != model && len(models.Data) > 1 {
			continue
		}
		described := []map[string]json.RawMessage{m, {}}
		_ = json.Unmarshal(m["meta"], &described[1]) // which most servers don't have
		for _, name := range contextMembers {
			for _, members := range described {
				var length int64
				if json.Unmarshal(members[name], &length) == nil && length > 0 {
					return length
				}
			}
		}
		return 0
	}
	return 0
}
