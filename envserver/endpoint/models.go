package endpoint

import (
	"cmp"
	"context"
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
	response, err := c.service.get(ctx, strings.Replace(c.url, "/chat/completions", "/models", 1))
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
		Data []map[string]any `json:"data"`
	}
	_ = decodeJSON(list, &models) // a list of another form has none
	for _, m := range models.Data {
		if m["id"] != model && len(models.Data) > 1 {
			continue
		}
		meta, _ := m["meta"].(map[string]any)
		for _, name := range contextMembers {
			if length := countOf(cmp.Or(m[name], meta[name])); length > 0 {
				return length
			}
		}
	}
	return 0
}
