package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

// Task is an entry of a server's task lists: a scenario of a task. Only csenv servers list the
// difficulty and the language.
type Task struct {
	Task       string `json:"task"`
	Scenario   string `json:"scenario"`
	Difficulty string `json:"difficulty"`
	Language   string `json:"language"`
}

// FetchTasks fetches the scenarios of all splits of a server's first environment, by its Task API.
// A server without one answers with a *StatusError.
func FetchTasks(ctx context.Context, baseURL string, o Options) ([]Task, error) {
	environments, err := fetchJSON[[]string](ctx, baseURL, "/list_environments", nil, o)
	if err != nil || len(environments) == 0 {
		return nil, wrapTasks(err)
	}
	route := "/" + url.PathEscape(environments[0])
	splits, err := fetchJSON[[]struct {
		Name string `json:"name"`
	}](ctx, baseURL, route+"/splits", nil, o)
	if err != nil {
		return nil, wrapTasks(err)
	}
	target, err := buildRouteURL(baseURL, "http", route+"/tasks")
	if err != nil {
		return nil, err
	}
	var all []Task
	for _, split := range splits {
		body, err := json.Marshal(map[string]string{"split": split.Name})
		if err != nil {
			return nil, wrapTasks(err)
		}
		text, err := sendRequest(ctx, http.MethodPost, target, body, o)
		if err != nil {
			return nil, wrapTasks(err)
		}
		var listed struct {
			Tasks []Task `json:"tasks"`
		}
		if err := json.Unmarshal(text, &listed); err != nil {
			return nil, wrapTasks(err)
		}
		all = append(all, listed.Tasks...)
	}
	return all, nil
}

func wrapTasks(err error) error {
	if err != nil {
		return fmt.Errorf("fetching the tasks: %w", err)
	}
	return nil
}
