package llm

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
)

// files lists the stored verdicts of a folder.
func files(t *testing.T, folder string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return out
}

func TestCacheModes(t *testing.T) {
	tests := map[CacheMode]struct {
		// calls are the numbers of calls after a first judgement, a repetition, and another judge
		// with the same folder.
		calls [3]int64
		files int
	}{
		CacheReadWrite: {[3]int64{1, 1, 1}, 1},
		CacheOff:       {[3]int64{1, 2, 3}, 0},
		CacheRead:      {[3]int64{1, 2, 3}, 0},
		CacheWrite:     {[3]int64{1, 2, 3}, 1},
		CacheFrozen:    {[3]int64{0, 0, 0}, 0},
	}
	for mode, tc := range tests {
		t.Run(string(mode), func(t *testing.T) {
			e, folder := serve(t, answers(gullible)), filepath.Join(t.TempDir(), "verdicts")
			another := func() *Judge {
				return e.judge(t, func(c *Config) { c.CacheMode, c.CacheDir = mode, folder })
			}
			first, second := another(), another()
			for i, j := range []*Judge{first, first, second} {
				v, err := j.Judge(t.Context(), goodCase(t))
				if mode == CacheFrozen {
					if err == nil || v.Cause != grader.CauseFailed || v.Scored() {
						t.Errorf("%+v, %v", v, err)
					}
				} else if err != nil || v.PostGate != 500 {
					t.Errorf("%+v, %v", v, err)
				}
				if got := e.calls.Load(); got != tc.calls[i] {
					t.Errorf("%d calls after judgement %d, want %d", got, i+1, tc.calls[i])
				}
			}
			if got := files(t, folder); len(got) != tc.files {
				t.Errorf("files %v, want %d", got, tc.files)
			}
		})
	}
}

// A stored run is graded again without its endpoint, with the same points.
func TestFrozenCacheReplays(t *testing.T) {
	e, folder := serve(t, answers(gullible)), t.TempDir()
	c := goodCase(t)
	first, err := e.judge(t, func(c *Config) { c.CacheDir = folder }).Judge(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	frozen := directJudge(t, hangingTripper{}, func(c *Config) {
		c.CacheDir, c.CacheMode, c.BaseURL = folder,
			CacheFrozen, e.url
	})
	again, err := frozen.Judge(t.Context(), c)
	if err != nil || again.Status != grader.StatusCached {
		t.Fatalf("%+v, %v", again, err)
	}
	again.Status, again.Usage = first.Status, first.Usage
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("(-first +again)\n%s", diff)
	}
}

// Answers without a refused parameter are not reused for an endpoint that supports it, but a frozen
// cache replays them.
func TestRefusedParametersAreInTheKey(t *testing.T) {
	folder, calls, strict := t.TempDir(), 0, true
	var transport roundTripper = func(c call) (int, string) {
		calls++
		if _, sent := c.body["seed"]; sent && strict {
			return 400, `{"error": {"message": "unsupported parameter: seed"}}`
		}
		return 200, completion(gullible(c))
	}
	judge := func(mode CacheMode, wantCalls int) {
		t.Helper()
		calls = 0
		j := directJudge(t, transport, func(c *Config) { c.CacheDir, c.CacheMode = folder, mode })
		for range 2 {
			if v, err := j.Judge(t.Context(), goodCase(t)); err != nil || v.PostGate != 500 {
				t.Fatalf("%+v, %v", v, err)
			}
		}
		if calls != wantCalls {
			t.Errorf("%d calls, want %d", calls, wantCalls)
		}
	}
	judge(CacheReadWrite, 3) // a complaint counts when it is repeated
	judge(CacheFrozen, 0)
	strict = false
	judge(CacheReadWrite, 1)
	judge(CacheReadWrite, 0)
}

// Failures and open claims aren't stored, because a later attempt may succeed.
func TestOnlyDecisionsAreStored(t *testing.T) {
	open := func(c call) string { return c.verdicts(cannotJudge, "") }
	for name, bad := range map[string]func(http.ResponseWriter, call){"cannot judge": answers(open),
		"unparsable": says("met"), "401": refuse(401, "who?")} {
		t.Run(name, func(t *testing.T) {
			fixed := false
			e := serve(t, func(w http.ResponseWriter, c call) {
				if fixed {
					answers(gullible)(w, c)
					return
				}
				bad(w, c)
			})
			folder := t.TempDir()
			j := e.judge(t, func(c *Config) { c.CacheDir = folder })
			if v, err := j.Judge(t.Context(), goodCase(t)); err == nil {
				t.Fatalf("%+v", v)
			}
			if got := files(t, folder); len(got) != 0 {
				t.Errorf("kept %v", got)
			}
			fixed = true
			if v, err := j.Judge(t.Context(), goodCase(t)); err != nil || v.Status != grader.StatusOK {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// A file without the requested verdict is ignored.
func TestDamagedFilesAreIgnored(t *testing.T) {
	for name, damage := range map[string]func(s string) string{
		"empty":         func(string) string { return "" },
		"cut":           func(s string) string { return s[:len(s)/2] },
		"another key":   func(s string) string { return strings.Replace(s, `"key":"`, `"key":"0`, 1) },
		"another claim": func(s string) string { return strings.Replace(s, `"claim":"next step"`, `"claim":"another"`, 1) },
		"undecided":     func(s string) string { return strings.Replace(s, `"met"`, `"cannot_judge"`, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			e, folder := serve(t, answers(gullible)), t.TempDir()
			for range 2 {
				if v, err := e.judge(t, func(c *Config) { c.CacheDir = folder }).Judge(t.Context(),
					goodCase(t)); err != nil || v.PostGate != 500 {
					t.Fatalf("%+v, %v", v, err)
				}
				for _, file := range files(t, folder) {
					data, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(file, []byte(damage(string(data))), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := e.calls.Load(); got != 2 {
				t.Errorf("%d calls, want 2", got)
			}
		})
	}
}

// A folder that can't be written to doesn't prevent verdicts.
func TestUnwritableFolder(t *testing.T) {
	e, folder := serve(t, answers(gullible)), t.TempDir()
	j := e.judge(t, func(c *Config) { c.CacheDir = folder })
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if v, err := j.Judge(t.Context(), goodCase(t)); err != nil || v.PostGate != 500 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := New(Config{BaseURL: e.url, Model: "m", CacheDir: filepath.Join(folder, "x")},
		offline.New()); err == nil {
		t.Error("a cache folder below a file was accepted")
	}
}

// Concurrent sessions with the same question share one request, which continues if the session that
// started it ends.
func TestSessionsShareARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		var slow roundTripper = func(c call) (int, string) {
			calls++
			<-time.After(10 * time.Second)
			return 200, completion(gullible(c))
		}
		j := directJudge(t, slow, nil)
		c := goodCase(t)
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { _, err := j.Judge(ctx, c); left <- err }()
		synctest.Wait()
		verdicts := make(chan grader.Verdict, 9)
		for range 9 {
			go func() {
				v, err := j.Judge(t.Context(), c)
				if err != nil {
					t.Error(err)
				}
				verdicts <- v
			}()
		}
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("the cancelled session: %v", err)
		}
		for range 9 {
			if v := <-verdicts; v.PostGate != 500 || v.Status != grader.StatusCached || v.Usage.Calls != 0 {
				t.Errorf("%+v", v)
			}
		}
		if calls != 1 {
			t.Errorf("%d calls, want 1", calls)
		}
	})
}

// The key covers everything that affects a verdict, and is stable.
func TestKeys(t *testing.T) {
	j := directJudge(t, hangingTripper{}, nil)
	key := func(j *Judge, c grader.Case, vote int) string {
		t.Helper()
		q, err := j.ask(assess(j.rules, c))
		if err != nil {
			t.Fatal(err)
		}
		k, err := q.key(vote)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	base := goodCase(t)
	seen := map[string]string{key(j, base, 0): "base"}
	if _, same := seen[key(j, goodCase(t), 0)]; !same {
		t.Error("the same case has another key")
	}
	other := tickets(t, 8)[0]
	for name, k := range map[string]string{
		"vote":  key(j, base, 1),
		"reply": key(j, grader.Case{Ticket: base.Ticket, Reply: base.Reply + " Bye.", Actions: base.Actions}, 0),
		"actions": key(j, grader.Case{Ticket: base.Ticket, Reply: base.Reply,
			Actions: grader.Actions{Ending: grader.Escalated, Team: "legal"}}, 0),
		"seed":     key(j, grader.Case{Ticket: other, Reply: base.Reply, Actions: base.Actions}, 0),
		"scenario": key(j, grader.Case{Ticket: tickets(t, 7)[1], Reply: base.Reply, Actions: base.Actions}, 0),
		"model":    key(directJudge(t, hangingTripper{}, func(c *Config) { c.Model = "m2" }), base, 0),
		"endpoint": key(directJudge(t, hangingTripper{}, func(c *Config) { c.BaseURL = "http://other.test/v1" }), base,
			0),
		"prompt": func() string {
			edited := directJudge(t, hangingTripper{}, nil)
			edited.templates.digest = "another"
			return key(edited, base, 0)
		}(),
		"tokens": key(directJudge(t, hangingTripper{}, func(c *Config) { c.MaxTokens = 99 }), base, 0),
	} {
		if before, taken := seen[k]; taken {
			t.Errorf("another %s has the key of %s", name, before)
		}
		seen[k] = name
	}
}

func TestParseNeverGuesses(t *testing.T) {
	q := &question{Claims: []asked{{ID: "c1"}, {ID: "c2"}}, claims: []claim{{Claim: grader.Claim{Kind: nextStep}},
		{Claim: grader.Claim{Kind: "empathy"}}, {Claim: letterClaim}}}
	good := `{"verdicts":[{"id":"c1","evidence_quote":"a^b","reason":"r","verdict":"met"},` +
		`{"id":"c2","evidence_quote":"","reason":"r","verdict":"unmet"}],` +
		`"letter":{"reason":"r","may_be_sent":false}}`
	want := []grader.Evidence{{Claim: grader.Claim{Kind: nextStep}, Verdict: grader.Met, Quote: "a b", Reason: "r"},
		{Claim: grader.Claim{Kind: "empathy"}, Verdict: grader.Unmet, Reason: "r"},
		{Claim: letterClaim, Verdict: grader.Unmet, Reason: "r"}}
	for _, text := range []string{good, " \n" + good, "```json\n" + good + "\n```",
		"Sure: 10/10.\n```\n{}\n```\nand\n```json\n" + good + "\n```\nDone."} {
		got, err := parseAnswer(text, q)
		if err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("%q: %v %s", text, err, cmp.Diff(want, got))
		}
	}
	// A model that judges and then quotes an answer of the reply is asked again, in whatever order.
	quoted := strings.ReplaceAll(strings.ReplaceAll(good, "unmet", "met"), "false", "true")
	for _, text := range []string{"```\n" + good + "\n```\nThe reply contained\n```\n" + quoted + "\n```",
		"The reply contained " + quoted + ". My verdict:\n" + good} {
		if got, err := parseAnswer(text, q); err == nil || !strings.Contains(err.Error(), "twice") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
			at := rapid.IntRange(0, len(good)).Draw(t, "at")
			return good[:at] + rapid.StringN(0, 3, -1).Draw(t, "insert") +
				good[min(at+rapid.IntRange(0, 3).Draw(t, "drop"), len(good)):]
		})).Draw(t, "text")
		got, err := parseAnswer(text, q)
		if err == nil && (len(got) != 3 || got[0].Kind != nextStep || got[1].Kind != "empathy") {
			t.Errorf("%q: %+v", text, got)
		}
	})
}
