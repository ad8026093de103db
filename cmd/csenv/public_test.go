package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/testkit/wire"
	"github.com/csenv/csenv/scenarios"
)

// leastSecret is the length, in bytes, of the texts that public mode must not show. Shorter ones,
// such as the names of categories, may occur in any text.
const leastSecret = 25

// secrets are the texts of all stored episodes and of the gold of their scenarios, by the lines in
// which pages would show them.
func secrets(t *testing.T, folder string) map[string]string {
	t.Helper()
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	add := func(from string, texts ...string) {
		for _, text := range texts {
			for line := range strings.Lines(text) {
				if line = strings.TrimSpace(line); len(line) >= leastSecret && strings.Contains(line, " ") {
					found[line] = from
				}
			}
		}
	}
	played := map[string]bool{}
	each(t, folder, func(e record.Episode) {
		if played[e.Scenario] {
			return
		}
		played[e.Scenario] = true
		for _, turn := range e.Turns {
			data, err := json.Marshal(turn)
			if err != nil {
				t.Fatal(err)
			}
			add("a turn of "+e.Scenario, texts(t, data)...)
		}
		if s, ok := catalog.Ticket(e.Scenario); ok {
			ticket, err := s.Instantiate(e.Seed)
			if err != nil {
				t.Fatal(err)
			}
			add("the gold of "+e.Scenario, append(append(ticket.References.Good, ticket.Subject, ticket.Description),
				ticket.ServedTexts()...)...)
			return
		}
		s, ok := catalog.Workflow(e.Scenario)
		if !ok { // a queue consists of tickets
			return
		}
		workflow, err := s.Instantiate(e.Seed)
		if err != nil {
			t.Fatal(err)
		}
		add("the gold of "+e.Scenario, append(workflow.References.Good, workflow.Query, workflow.Unasked)...)
		for _, fact := range workflow.Facts {
			add("a fact of "+e.Scenario, fact.Value)
		}
	})
	if len(played) < 40 || len(found) < 500 {
		t.Fatalf("only %d scenarios and %d texts", len(played), len(found))
	}
	return found
}

// each reads the stored episodes of a folder.
func each(t *testing.T, folder string, read func(record.Episode)) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".jsonl" || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(data) {
			var e record.Episode
			if err := json.Unmarshal(line, &e); err != nil {
				return err
			}
			read(e)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// texts are the strings in a JSON value.
func texts(t *testing.T, data []byte) []string {
	t.Helper()
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	var found []string
	var walk func(any)
	walk = func(value any) {
		switch v := value.(type) {
		case string:
			found = append(found, v)
		case []any:
			for _, item := range v {
				walk(item)
			}
		case map[string]any:
			for _, item := range v {
				walk(item)
			}
		}
	}
	walk(value)
	return found
}

// public is csenv ui --public.
type public struct {
	base string
	// answered has the answers by path.
	answered map[string]string
	// streams are the paths of streams of updates, which listen reads at the same time.
	streams []string
}

// read requests a path and keeps the answer. It leaves a stream of updates to listen.
func (p *public) read(t *testing.T, path string) (status int) {
	t.Helper()
	if strings.Contains(path, "/live") {
		p.streams = append(p.streams, path)
		return 0
	}
	status, text, err := p.request(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	p.answered[path] = text
	return status
}

// listen keeps the first seconds of all streams.
func (p *public) listen(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	texts, errs := make([]string, len(p.streams)), make([]error, len(p.streams))
	var reading sync.WaitGroup
	for i, path := range p.streams {
		reading.Go(func() { _, texts[i], errs[i] = p.request(ctx, path) })
	}
	reading.Wait()
	for i, path := range p.streams {
		if errs[i] != nil && !errors.Is(errs[i], context.DeadlineExceeded) {
			t.Errorf("%s: %v", path, errs[i])
		}
		p.answered[path] = texts[i]
	}
}

func (p *public) request(ctx context.Context, path string) (status int, text string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

var (
	linked   = regexp.MustCompile(`(?:href|src|action|hx-get|hx-sse:connect)="(/[^"]*)"`)
	runPages = regexp.MustCompile(`^/runs/[^/]+/[^/?]+$`)
)

// awaitRuns waits until the overview lists those runs, because the pages answer while the store is
// being read.
func (p *public) awaitRuns(t *testing.T, names ...string) {
	t.Helper()
	wire.AwaitCondition(t, fmt.Sprintf("the overview lists %v", names), func() bool {
		p.read(t, "/")
		names = slices.DeleteFunc(names, func(name string) bool { return strings.Contains(p.answered["/"], name) })
		return len(names) == 0
	})
}

// crawl follows all links, and requests what public mode doesn't link.
func (p *public) crawl(t *testing.T) {
	t.Helper()
	queue := []string{"/", "/live", "/leaderboard", "/leaderboard?format=csv", "/leaderboard?format=markdown",
		"/compare", "/play", "/static/x/csenv.js", "/healthz"}
	for seen := map[string]bool{}; len(queue) > 0; queue = queue[1:] {
		path := queue[0]
		if seen[path] {
			continue
		}
		seen[path] = true
		p.read(t, path)
		for _, link := range linked.FindAllStringSubmatch(p.answered[path], -1) {
			queue = append(queue, strings.ReplaceAll(link[1], "&amp;", "&"))
		}
	}
	var runs []string
	for path := range maps.Keys(p.answered) {
		if runPages.MatchString(path) {
			runs = append(runs, path)
		}
	}
	slices.Sort(runs)
	if len(runs) < 2 {
		t.Fatalf("the pages link only the runs %v", runs)
	}
	for _, run := range runs {
		p.read(t, run+"/live")
		id := strings.TrimPrefix(run, "/runs/")
		for _, path := range []string{run + "/episodes", run + "/episodes?text=refund", run + "/episodes/0",
			run + "/episodes/0?step=1", run + "/episodes?format=csv", run + "/episodes?format=jsonl", "/compare?a=" + id + "&b=" + id,
			"/compare/episodes?a=" + id + "&b=" + id + "&scenario=B01&trial=1", "/play?run=" + id} {
			if status := p.read(t, path); status == http.StatusOK {
				t.Errorf("public mode answers %s with a page", path)
			}
			if live := strings.Replace(path, "?", "/live?", 1); live != path {
				p.read(t, live)
			} else {
				p.read(t, path+"/live")
			}
		}
	}
}

// Public mode shows no text of a scenario and of no episode, on no path.
func TestPublicMode(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	folder := filepath.Join(t.TempDir(), "results")
	for _, agent := range []string{"oracle", "heuristic"} {
		for name, tasks := range map[string][]string{"tickets": {"ticket-resolve", "queue-management"},
			"workflows": {"order-inquiry", "refund", "payment-exception"}, "cases": {"case-hard"}} {
			must(t, append([]string{"eval", "--agent", agent, "--name", name + "-" + agent, "--results", folder},
				tasks...)...)
		}
	}
	hidden := secrets(t, folder)
	site := &public{base: start(t, "ui", "--public", "--results", folder, "--listen", "localhost:0", "--no-open"),
		answered: map[string]string{}}
	site.awaitRuns(t, "tickets-oracle", "workflows-oracle", "cases-oracle", "tickets-heuristic",
		"workflows-heuristic", "cases-heuristic")
	site.crawl(t)
	site.listen(t)
	escaped := strings.NewReplacer("&#39;", "'", "&#34;", `"`, "&amp;", "&", "&lt;", "<", "&gt;", ">")
	for path, text := range site.answered {
		text = strings.Join(strings.Fields(escaped.Replace(text)), " ")
		for secret, from := range hidden {
			if strings.Contains(text, strings.Join(strings.Fields(secret), " ")) {
				t.Errorf("%s shows %s: %q", path, from, secret)
			}
		}
	}
	t.Logf("%d answers, %d texts", len(site.answered), len(hidden))
}

// start runs csenv until the test ends and returns the URL that it prints.
func start(t *testing.T, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	var ended sync.WaitGroup
	ended.Go(func() {
		if code := runWith(ctx, args, strings.NewReader(""), io.Discard, writer); code != exitDone {
			t.Errorf("csenv ui: exit code %d", code)
		}
		_ = writer.Close()
	})
	t.Cleanup(func() {
		stop()
		ended.Wait()
	})
	lines := bufio.NewScanner(reader)
	for lines.Scan() {
		if found := regexp.MustCompile(`http://\S+`).FindString(lines.Text()); found != "" {
			go func() { _, _ = io.Copy(io.Discard, reader) }()
			return strings.TrimSuffix(found, "/")
		}
	}
	t.Fatal("csenv ui prints no URL")
	return ""
}
