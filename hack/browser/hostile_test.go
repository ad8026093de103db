package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/play/results"
)

// attacks are texts that would do harm if a page did not show them as texts. Elements that come out
// of one have the attribute data-attack, scripts that run set window.__pwned.
var attacks = []string{
	`<script data-attack>window.__pwned=1</script>`,
	`"><img data-attack src=x onerror="window.__pwned=1">`,
	`' autofocus onfocus='window.__pwned=1' data-attack='`,
	`javascript:window.__pwned=1//`,
	`</script></title></textarea></style></template><script data-attack>window.__pwned=1</script>`,
	`{{.}} {{define "main"}}window.__pwned{{end}} ${window.__pwned=1} #{window.__pwned=1}`,
	`<div data-attack hx-get="/leaderboard" hx-trigger="load" hx-swap-oob="true" hx-on:load="window.__pwned=1">x</div>`,
	`<svg data-attack onload="window.__pwned=1"><animate onbegin="window.__pwned=1"></svg>`,
	"\x1b]0;window.__pwned\x07\x1b[31mred\x1b[2J\u009b31m",
	"window.__pwned before\x00after",
	"window.__pwned \u202egnp.exe\u2066 \u200e\u061c",
	"window.\u200b__pwned\ufeff window.__pwned\u00ad\u2028\u2029",
	`}</style><style data-attack>*{display:none;background:url(http://attacker.invalid/__pwned)}@import "//attacker.invalid";`,
	`<base data-attack href="http://attacker.invalid/"><meta data-attack http-equiv=refresh content="0;url=http://attacker.invalid/__pwned">`,
	`<iframe data-attack srcdoc="<script>parent.__pwned=1</script>"></iframe><a data-attack href="java&#10;script:window.__pwned=1">x</a>`,
	"window.__pwned\r\n\ndata: <img data-attack src=x onerror=window.__pwned=1>\n\nevent: close\rid: 1",
	`<form data-attack action="http://attacker.invalid/"><input name=a autofocus onfocus="window.__pwned=1"></form><!-- window.__pwned`,
	`[window.__pwned](javascript:window.__pwned=1) <math><mtext data-attack><img src=x onerror=window.__pwned=1>`,
	"window.__pwned ../../../../etc/passwd?a=b&c=d#e %00 %2e%2e/ \\..\\",
	notUTF8 + ` window.__pwned ` + notUTF8,
}

// notUTF8 is replaced by bytes that aren't UTF-8 when a record is written.
const notUTF8 = "NOT-UTF-8"

// poison replaces texts in a value of JSON by attacks, or all by the same one.
type poison struct {
	n    int
	same string
	// keys are those of texts to replace, all if empty.
	keys []string
}

func (p *poison) next() string {
	if p.same != "" {
		return p.same
	}
	p.n++
	return attacks[p.n%len(attacks)]
}

// in replaces texts below a key.
func (p *poison) in(key string, value any) any {
	switch v := value.(type) {
	case string:
		if len(p.keys) == 0 || slices.Contains(p.keys, key) {
			return p.next()
		}
	case []any:
		for i := range v {
			v[i] = p.in(key, v[i])
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) { // the same attacks at the same places each time
			v[k] = p.in(k, v[k])
		}
	}
	return value
}

// texts are the keys of a record that an agent, a judge or a server fills with free text.
var texts = []string{"message", "said", "refused", "query", "reason", "class", "judge", "grader_version",
	"internal_note", "team", "status"}

// nested is a value of JSON of 5,000 levels.
func nested() json.RawMessage {
	return json.RawMessage(strings.Repeat(`{"a":[`, 2500) + `"window.__pwned"` + strings.Repeat(`]}`, 2500))
}

// variants change a record in one way each.
var variants = []func(p *poison, e map[string]any){
	func(p *poison, e map[string]any) { // texts only: the episode can be played again
		p.keys = texts
		for _, turn := range e["turns"].([]any) {
			turn.(map[string]any)["said"] = p.next()
		}
		p.in("", e)
	},
	func(p *poison, e map[string]any) { // refused actions of odd shapes
		p.keys = texts
		e["turns"] = append(e["turns"].([]any), map[string]any{"action": p.next(), "refused": p.next(), "said": p.next()},
			map[string]any{"action": nested(), "refused": p.next()}, map[string]any{"action": nil, "refused": p.next()},
			map[string]any{"action": []any{1, p.next()}, "reward": -1e300},
			map[string]any{"action": map[string]any{"action_type": p.next(), p.next(): p.next()}, "refused": p.next()})
		p.in("", e)
	},
	func(p *poison, e map[string]any) { // an errored episode
		e["outcome"], e["score"], e["class"], e["turns"] = "errored", nil, p.next(), []any{}
		delete(e, "receipt")
	},
	func(p *poison, e map[string]any) { // an unknown scenario and task
		e["scenario"], e["task"], e["scenario_digest"] = p.next(), p.next(), p.next()
	},
	everyText,
	func(p *poison, e map[string]any) { // large texts without spaces
		large := strings.Repeat("x<b>", 1<<16) + attacks[0]
		for _, turn := range e["turns"].([]any) {
			turn.(map[string]any)["refused"], turn.(map[string]any)["said"] = large, large
		}
		e["class"], e["judge"] = strings.Repeat("y", 1<<18), strings.Repeat("z", 1<<18)
	},
	func(_ *poison, e map[string]any) { e["scenario"] = strings.Repeat("s", 20_000) + attacks[0] },
	func(_ *poison, e map[string]any) { // no text has a place to break a line
		everyText(&poison{same: strings.Repeat("window.__pwned", 30)}, e)
	},
	func(_ *poison, e map[string]any) { // the same, and the episode can be played again
		word := &poison{keys: texts, same: strings.Repeat("window.__pwned", 30)}
		for _, dimension := range e["dimensions"].([]any) {
			dimension.(map[string]any)["name"] = word.next()
		}
		word.in("", e)
	},
}

func everyText(p *poison, e map[string]any) {
	mode, outcome := e["reward_mode"], e["outcome"]
	p.in("", e)
	e["reward_mode"], e["outcome"] = mode, outcome // a line with others is no record
}

// hostileStore writes two runs of hostile records, of which the second has a hostile manifest and
// name too.
func hostileStore(t *testing.T, from, to string) {
	t.Helper()
	store, err := results.Open(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, run := range []struct {
		name, into string
		manifest   bool
	}{
		{"resolve-heuristic", "texts-1300c9ac", false},
		{"case-medium", `ns"'<b data-attack>` + "\u202e/" + `"><img data-attack src=x onerror="window.__pwned=1">-1300c9ad`, true},
	} {
		folder, err := FindRunFolder(from, run.name)
		if err != nil {
			t.Fatal(err)
		}
		manifest := hostileManifest(t, filepath.Join(from, folder, "manifest.json"), run.manifest)
		if err := store.WriteManifest(t.Context(), run.into, manifest); err != nil {
			t.Fatal(err)
		}
		// The store writes some letters of a folder's name in another way.
		written := ""
		for _, pattern := range []string{"*/manifest.json", "*/*/manifest.json"} {
			found, _ := filepath.Glob(filepath.Join(to, pattern))
			for _, f := range found {
				if _, err := os.Stat(filepath.Join(filepath.Dir(f), "shard-00000")); err != nil {
					written = filepath.Dir(f)
				}
			}
		}
		shard := filepath.Join(written, "shard-00000")
		if err := os.MkdirAll(shard, 0o700); err != nil {
			t.Fatal(err)
		}
		segment, err := os.ReadFile(filepath.Join(from, folder, "shard-00000", "000001.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(shard, "000001.jsonl"), hostileRecords(t, segment), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// hostileManifest reads a manifest and replaces its texts, except the run's id, by attacks.
func hostileManifest(t *testing.T, path string, hostile bool) results.Manifest {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m results.Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	if hostile {
		p := &poison{}
		m.Plan.ScenarioDigest, m.Plan.GraderVersion, m.Plan.Judge = p.next(), p.next(), p.next()
		m.Runner = p.next()
		agent, err := json.Marshal(map[string]any{"type": p.next(), "openAI": map[string]any{"baseURL": attacks[3],
			"model": p.next()}, "labels": map[string]any{p.next(): p.next()}})
		if err != nil {
			t.Fatal(err)
		}
		m.Agent = agent
	}
	return m
}

// hostileRecords changes each record of a segment in one of the ways.
func hostileRecords(t *testing.T, segment []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	p := &poison{}
	lines := bytes.SplitAfter(segment, []byte{'\n'})
	for i, change := range variants {
		var e map[string]any
		if err := json.Unmarshal(lines[i], &e); err != nil {
			t.Fatal(err)
		}
		p.keys = nil
		change(p, e)
		e["index"] = i
		changed, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(bytes.ReplaceAll(changed, []byte(notUTF8), []byte("\xff\xfe\xc0")))
		out.WriteByte('\n')
	}
	out.WriteString("not a record <script data-attack>window.__pwned=1</script>\n" + `{"index": "x"}` + "\n")
	return out.Bytes()
}

// harm lists what an attack left in a page.
const harm = `(() => {
	const found = [], say = (what, e) => found.push(what + ": " + e.outerHTML.slice(0, 200));
	if (window.__pwned !== undefined) found.push("a script of an attack ran");
	for (const e of document.querySelectorAll("[data-attack], iframe, object, embed, base, math, meta[http-equiv]")) say("an element of an attack", e);
	for (const e of document.scripts) if (!new URL(e.src, location).pathname.startsWith("/static/") || !e.src) say("a foreign script", e);
	for (const e of document.querySelectorAll("*"))
		for (const a of e.attributes) {
			if (/^on/i.test(a.name) || /^(data-)?hx-on/i.test(a.name)) say("a handler " + a.name, e);
			if (/^(href|src|action|formaction|xlink:href|(data-)?hx-(get|post|put|patch|delete|sse:connect))$/i.test(a.name) &&
				a.value && new URL(a.value, location).origin !== location.origin) say("a link elsewhere, " + a.name, e);
		}
	const hidden = new XMLSerializer().serializeToString(document).match(
		/.{0,40}[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff].{0,40}/);
	if (hidden) found.push("a hidden character: " + JSON.stringify(hidden[0]));
	return found;
})()`

// Pages show texts of attackers as texts.
func (w *world) testHostile(t *testing.T) {
	store := t.TempDir()
	hostileStore(t, w.store, store)
	site := w.serve(t, store)
	finder := w.open(t, Looks[0], site)
	load(t, finder, "/", 200)
	links := func(selector string) []string {
		return eval[[]string](t, finder, fmt.Sprintf(`[...new Set([...document.querySelectorAll(%q)].map(
			(a) => a.pathname + a.search))]`, selector))
	}
	pages := links("header nav a")
	runs := links("main a[href*='/runs/']")
	if len(runs) < 2 {
		t.Errorf("the overview links %d runs, want 2: %q", len(runs), runs)
	}
	for _, run := range runs {
		pages = append(pages, run, run+"/episodes")
		for i := range len(variants) {
			pages = append(pages, fmt.Sprintf("%s/episodes/%d", run, i))
		}
	}
	shown := 0
	for _, look := range []Look{Looks[0], Looks[2]} {
		tab := w.open(t, look, site)
		for _, path := range pages {
			t.Run(fmt.Sprintf("%d%.80s", look.Width, path), func(t *testing.T) {
				load(t, tab, path, 200)
				for _, found := range eval[[]string](t, tab, harm) {
					t.Error(found)
				}
				fits(t, tab)
				sound(t, tab)
				if eval[bool](t, tab, `document.body.innerText.includes("window.__pwned")`) {
					shown++
				}
			})
		}
		tab.Close()
	}
	if shown == 0 {
		t.Error("no page shows an attack as text")
	}
	t.Logf("%d of %d pages show attacks as texts", shown, 2*len(pages))
}
