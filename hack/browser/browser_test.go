package browser

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

const (
	// maxScript is the most bytes of scripts that a page loads, maxOwn the most lines of our own.
	maxScript = 60_000
	maxOwn    = 500
	// maxPaint is the longest time until the first content is painted.
	maxPaint = 2 * time.Second
	// maxCrawled bounds the links that are followed.
	maxCrawled = 400
)

type world struct {
	browser         *Browser
	program, folder string
	store           string
	site            *Site
	pages           []Page
	// axe is the script of axe-core.
	axe string
}

// One test contains all others, so that they share a browser and the fixtures.
func TestPages(t *testing.T) {
	if os.Getenv("CSENV_REQUIRE_BROWSER") != "1" {
		t.Skip("the pages are tested in a browser by make test-browser")
	}
	if _, err := FindChromium(); err != nil {
		t.Fatal(err)
	}
	var err error
	w := &world{folder: t.TempDir()}
	w.store = filepath.Join(w.folder, "store")
	if w.program, err = BuildProgram(t.Context(), w.folder); err != nil {
		t.Fatal(err)
	}
	if err := PlayRuns(t.Context(), w.program, w.folder, w.store); err != nil {
		t.Fatal(err)
	}
	t.Log("the fixtures are ready")
	w.site = w.serve(t, w.store)
	// The context of a test ends before its cleanup, which must still reach the browser.
	if w.browser, err = Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.browser.Stop)
	if w.pages, err = ListPages(w.browser, w.site, w.store); err != nil {
		t.Fatal(err)
	}
	if *updatePictures {
		t.Run("pictures", w.drawPictures)
	}
	t.Run("axe-core", w.readAxe)
	t.Run("sound", w.testSound)
	t.Run("crawl", w.testCrawl)
	t.Run("scripts", w.testScripts)
	t.Run("keyboard", w.testKeyboard)
	t.Run("arrows", w.testArrows)
	t.Run("play", w.testPlay)
	t.Run("live", w.testLive)
	t.Run("hostile", w.testHostile)
}

// serve starts csenv ui over a store until the test ends.
func (w *world) serve(t *testing.T, store string) *Site {
	t.Helper()
	site, err := ServeStore(context.WithoutCancel(t.Context()), w.program, w.folder, store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := site.Stop(10 * time.Second); err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(site.Logs()) {
			if strings.Contains(line, "can't be rendered") || strings.Contains(line, "panic") {
				t.Error("csenv ui:", line)
			}
		}
	})
	return site
}

// open opens a tab until the test ends.
func (w *world) open(t *testing.T, look Look, site *Site) *Tab {
	t.Helper()
	tab, err := w.browser.Open(look, site.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tab.Close)
	return tab
}

// load loads a page, which must be answered with a status.
func load(t *testing.T, tab *Tab, path string, want int64) {
	t.Helper()
	got, err := tab.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Fatalf("%s is answered with status %d, want %d", path, got, want)
	}
}

// eval evaluates an expression.
func eval[T any](t *testing.T, tab *Tab, expression string) T {
	t.Helper()
	got, err := Eval[T](tab, expression)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// sound reports what a sound page does not cause.
func sound(t *testing.T, tab *Tab) {
	t.Helper()
	faults, err := tab.Faults()
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}

// wide lists the elements that make a page scroll sideways. Parts that scroll themselves don't.
const wide = `document.documentElement.scrollWidth <= document.documentElement.clientWidth ? [] :
	[...document.querySelectorAll("body *")].filter((e) => {
		if (e.getBoundingClientRect().right <= document.documentElement.clientWidth + 1) return false;
		for (let p = e.parentElement; p; p = p.parentElement)
			if (p !== document.body && getComputedStyle(p).overflowX !== "visible") return false;
		return true;
	}).slice(0, 5).map((e) => e.outerHTML.slice(0, 150)).concat(
		document.documentElement.scrollWidth + " of " + document.documentElement.clientWidth + " pixels")`

// fits reports a page that scrolls sideways.
func fits(t *testing.T, tab *Tab) {
	t.Helper()
	if found := eval[[]string](t, tab, wide); len(found) > 0 {
		t.Errorf("the page scrolls sideways because of:\n%s", strings.Join(found, "\n"))
	}
}

// structure lists what is missing in a page: one heading of the first level, headings in order, a
// title, a language, and names of tables' columns.
const structure = `(() => {
	const wrong = [], levels = [...document.querySelectorAll("h1,h2,h3,h4,h5,h6")].map((h) => +h.tagName[1]);
	if (levels.filter((l) => l === 1).length !== 1) wrong.push("the page has not one h1: " + levels);
	for (let i = 1; i < levels.length; i++)
		if (levels[i] > levels[i - 1] + 1) wrong.push("a heading h" + levels[i] + " follows one h" + levels[i - 1]);
	if (!document.title || !document.documentElement.lang) wrong.push("the page has no title or language");
	for (const h of document.querySelectorAll("table th:not([scope])")) wrong.push("th without scope: " + h.textContent.slice(0, 80));
	for (const e of document.querySelectorAll("script:not([src]), style, [style]"))
		wrong.push("inline script or style: " + e.outerHTML.slice(0, 120));
	return wrong;
})()`

const firstPaint = `new Promise((found) => {
	new PerformanceObserver((list) => {
		for (const e of list.getEntriesByName("first-contentful-paint")) found(e.startTime);
	}).observe({type: "paint", buffered: true});
	setTimeout(() => found(1e6), 5000);
})`

// painted loads a page and returns the time until its first content is painted. A slow page is
// loaded again, because other programs may use the processors.
func painted(t *testing.T, tab *Tab, p Page) time.Duration {
	t.Helper()
	best := time.Hour
	for range 3 {
		load(t, tab, p.Path, p.Status)
		best = min(best, time.Duration(eval[float64](t, tab, firstPaint)*float64(time.Millisecond)))
		if best <= maxPaint {
			break
		}
	}
	return best
}

// audit runs axe-core and lists what it finds of impact serious or critical.
const audit = `axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations
	.filter((v) => v.impact === "serious" || v.impact === "critical")
	.map((v) => v.impact + " " + v.id + ": " + v.help + v.nodes.slice(0, 3).map(
		(n) => "\n  " + n.html.slice(0, 160) + "\n  " + n.failureSummary.replaceAll("\n", " ")).join("")))`

// readAxe reads axe-core.
func (w *world) readAxe(t *testing.T) {
	script, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("axe-core is missing, make test-browser installs it: %v", err)
	}
	w.axe = string(script) + "; null"
}

func (w *world) testSound(t *testing.T) {
	var table strings.Builder
	paints := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(paints, "page\twidth\tcolours\tfirst paint")
	for _, look := range Looks {
		tab := w.open(t, look, w.site)
		for _, p := range w.pages {
			t.Run(fmt.Sprintf("%s/%d/%s", p.Name, look.Width, look.Scheme), func(t *testing.T) {
				paint := painted(t, tab, p)
				fmt.Fprintf(paints, "%s\t%d\t%s\t%s\n", p.Name, look.Width, look.Scheme, paint.Round(time.Millisecond))
				if paint > maxPaint {
					t.Errorf("the first paint comes after %s, want at most %s", paint, maxPaint)
				}
				for _, wrong := range eval[[]string](t, tab, structure) {
					t.Error(wrong)
				}
				dark := eval[bool](t, tab, `getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3)
					.every((c) => c < 128)`)
				if dark != (look.Scheme == "dark") {
					t.Errorf("with %s colours the page is dark: %t", look.Scheme, dark)
				}
				fits(t, tab)
				eval[any](t, tab, w.axe)
				for _, found := range eval[[]string](t, tab, audit) {
					t.Error(found)
				}
				sound(t, tab)
			})
		}
		tab.Close()
	}
	paints.Flush()
	t.Log("\n" + table.String())
}

// linkPattern finds the links of a page. Templates write attributes with double quotes.
var linkPattern = regexp.MustCompile(`\s(?:href|src|hx-get|hx-sse:connect)="([^"]*)"`)

// Every link of the site leads to something, and every answer has the strict policy.
func (w *world) testCrawl(t *testing.T) {
	var queue []string
	from := map[string]string{}
	for _, p := range w.pages {
		queue = append(queue, p.Path)
	}
	for i := 0; i < len(queue) && i < maxCrawled; i++ {
		body, status := fetch(t, w.site, queue[i])
		if status != http.StatusOK && queue[i] != "/no-such-page" {
			t.Errorf("%s, a link of %s, is answered with status %d", queue[i], from[queue[i]], status)
		}
		for _, found := range linkPattern.FindAllStringSubmatch(body, -1) {
			link := html.UnescapeString(found[1])
			path, _, _ := strings.Cut(link, "#")
			switch {
			case path == "" && strings.HasPrefix(link, "#"):
				continue
			case strings.HasPrefix(link, "?"):
				base, _, _ := strings.Cut(queue[i], "?")
				path = base + path
			case !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//"):
				t.Errorf("%s has the link %q, which is not a path of the site", queue[i], link)
				continue
			}
			if !slices.Contains(queue, path) {
				from[path] = queue[i]
				queue = append(queue, path)
			}
		}
	}
	t.Logf("%d links followed of %d", min(len(queue), maxCrawled), len(queue))
}

// fetch fetches a path of the site, checks the headers of the answer and returns the body, of a
// stream only its begin.
func fetch(t *testing.T, site *Site, path string) (body string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), actionTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(site.URL, "/")+path, nil)
	if err != nil {
		t.Error(err)
		return "", 0
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return "", 0
	}
	defer response.Body.Close()
	policy := response.Header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "base-uri 'none'",
		"frame-ancestors 'none'", "form-action 'self'"} {
		if !strings.Contains(policy+";", part+";") {
			t.Errorf("the Content-Security-Policy of %s lacks %s: %q", path, part, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http:") || strings.Contains(policy, "*") {
		t.Errorf("the Content-Security-Policy of %s is not strict: %q", path, policy)
	}
	if response.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s lacks X-Content-Type-Options: nosniff", path)
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return "", response.StatusCode
	}
	data, err := io.ReadAll(response.Body)
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("reading %s: %v", path, err)
	}
	return string(data), response.StatusCode
}

func (w *world) testScripts(t *testing.T) {
	tab := w.open(t, Looks[0], w.site)
	for _, p := range w.pages {
		load(t, tab, p.Path, p.Status)
		total := 0
		for _, path := range eval[[]string](t, tab, `[...document.scripts].map((s) => new URL(s.src).pathname)`) {
			body, _ := fetch(t, w.site, path)
			total += len(body)
			own := !strings.Contains(path, ".min.")
			if lines := strings.Count(body, "\n"); own && lines > maxOwn {
				t.Errorf("%s has %d lines, want at most %d", path, lines, maxOwn)
			}
		}
		if total > maxScript {
			t.Errorf("%s loads scripts of %d bytes, want at most %d", p.Name, total, maxScript)
		}
	}
}
