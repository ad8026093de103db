package serve

import (
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/csenv/csenv/envserver/testkit"
)

// A stock MCP client plays an episode of each environment. The results of tools contain
// observations that match /schema.
func TestAgentsPlayByMCP(t *testing.T) {
	for environment, c := range map[string]struct {
		query, tool string
		arguments   map[string]any
		finish      string
	}{
		"ticket": {"?task=ticket-resolve&seed=4", "search_knowledge_base", map[string]any{"query": "refund"},
			"resolve"},
		"workflow": {"?task=order-inquiry&seed=4", "check_order_status", map[string]any{"order_id": "A-1"},
			"respond_user"},
	} {
		t.Run(environment, func(t *testing.T) {
			r := start(t, func(o *options) { o.environment = environment })
			schema := observationSchema(t, r.protocol)
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
			session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: r.protocol + "/mcp" +
				c.query}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			call := func(tool string, arguments map[string]any) map[string]any {
				t.Helper()
				result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
				if err != nil || result.IsError {
					t.Fatalf("%s: %+v, %v", tool, result, err)
				}
				got, _ := result.StructuredContent.(map[string]any)
				observation, ok := got["observation"].(map[string]any)
				if !ok {
					t.Fatalf("%s: no observation in %+v", tool, result)
				}
				observation["done"], observation["reward"] = got["done"], got["reward"]
				if err := schema.Validate(observation); err != nil {
					t.Errorf("%s: %v", tool, err)
				}
				return got
			}
			if got := call("get_observation", nil); got["done"] != false {
				t.Errorf("at first: %v", got)
			}
			call(c.tool, c.arguments)
			end := call(c.finish, map[string]any{"message": "Your case is settled."})
			if metadata, _ := end["metadata"].(map[string]any); end["done"] != true || metadata["episode_score"] == nil {
				t.Errorf("at last: %v", end)
			}
			invalid, err := session.CallTool(t.Context(),
				&mcp.CallToolParams{Name: c.tool, Arguments: map[string]any{"nonsense": 1}})
			if err != nil {
				t.Errorf("an invalid call after the end: %+v, %v", invalid, err)
			}
		})
	}
}

func observationSchema(t *testing.T, url string) *jsonschema.Schema {
	t.Helper()
	_, body := get(t, url+"/schema")
	var schemas struct{ Observation json.RawMessage }
	if err := json.Unmarshal([]byte(body), &schemas); err != nil {
		t.Fatal(err)
	}
	return testkit.CompileSchema(t, schemas.Observation)
}
