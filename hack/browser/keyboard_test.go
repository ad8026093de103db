package browser

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
)

// maxTabs bounds the presses of the tab key on a page.
const maxTabs = 120

// mark numbers the elements that the tab key must reach, in the order of the page, and returns
// their names. Of a group of radio buttons only one is reached.
const mark = `[...document.querySelectorAll(
	"a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")]
	.filter((e) => e.checkVisibility({visibilityProperty: true}) && !e.disabled && e.type !== "radio" && e.tabIndex >= 0)
	.map((e, i) => { e.dataset.order = i; return e.outerHTML.slice(0, 120); })`

// focused describes the focused element: its number, and whether the focus can be seen.
const focused = `(() => {
	const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect();
	return {order: e.dataset.order === undefined ? -1 : +e.dataset.order, tag: e.tagName, type: e.type ?? "",
		class: e.getAttribute("class") || "", inNav: !!e.closest("header nav"),
		html: e.outerHTML.slice(0, 120),
		shown: (s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 1) || s.boxShadow !== "none",
		inside: r.width > 0 && r.height > 0 && r.right > 0 && r.bottom > 0 && r.left < innerWidth && r.top < innerHeight};
})()`

type focus struct {
	Order                int
	Tag, Type, Class     string
	HTML                 string `json:"html"`
	InNav, Shown, Inside bool
}

func (w *world) testKeyboard(t *testing.T) {
	for _, look := range []Look{Looks[0], Looks[2]} {
		tab := w.open(t, look, w.site)
		for _, p := range w.pages {
			t.Run(fmt.Sprintf("%s/%d", p.Name, look.Width), func(t *testing.T) {
				load(t, tab, p.Path, p.Status)
				tabThrough(t, tab)
				sound(t, tab)
			})
		}
		tab.Close()
	}
}

// tabThrough presses the tab key until the focus has been everywhere.
func tabThrough(t *testing.T, tab *Tab) {
	t.Helper()
	wanted := eval[[]string](t, tab, mark)
	reached := map[int]bool{}
	for i := range maxTabs {
		if err := tab.Press(kb.Tab); err != nil {
			t.Fatal(err)
		}
		at := eval[focus](t, tab, focused)
		if at.Tag == "BODY" {
			break
		}
		switch {
		case i == 0 && !strings.Contains(at.Class, "skip"):
			t.Errorf("the first press of Tab reaches %s, want the link to the content", at.HTML)
		case i == 2 && !at.InNav:
			t.Errorf("the third press of Tab reaches %s, want the navigation", at.HTML)
		}
		if at.Type == "radio" {
			continue
		}
		if reached[at.Order] {
			break
		}
		reached[at.Order] = true
		if !at.Shown || !at.Inside {
			t.Errorf("the focus of %s is not visible (outline %t, in the window %t)", at.HTML, at.Shown, at.Inside)
		}
	}
	for order, element := range wanted {
		if !reached[order] && order < maxTabs-10 {
			t.Errorf("the tab key doesn't reach %s", element)
		}
	}
}

// choose returns the query of a filter with which the list has at least two episodes, but not all.
const choose = `(async () => {
	const links = (root) => root.querySelectorAll("main a[href*='/episodes/']").length;
	for (const s of document.querySelectorAll("main form select"))
		for (const o of s.options) {
			if (!o.value || o.selected) continue;
			const query = new URLSearchParams({[s.name]: o.value});
			const answer = await fetch(location.pathname + "?" + query);
			if (links(new DOMParser().parseFromString(await answer.text(), "text/html")) >= 2) return "" + query;
		}
	return "";
})()`

// Arrow keys lead to the neighbours of an episode in the filtered list.
func (w *world) testArrows(t *testing.T) {
	folder, err := FindRunFolder(w.store, "case-medium")
	if err != nil {
		t.Fatal(err)
	}
	tab := w.open(t, Looks[0], w.site)
	load(t, tab, "/runs/_/"+folder+"/episodes", 200)
	query := eval[string](t, tab, choose)
	if query == "" {
		t.Fatal("no filter of the list of episodes (a select in a form) has two episodes")
	}
	load(t, tab, "/runs/_/"+folder+"/episodes?"+query, 200)
	link := eval[string](t, tab, `document.querySelector("main a[href*='/episodes/']")?.href ?? ""`)
	first, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	load(t, tab, first.RequestURI(), 200)
	at := first.Path
	for _, key := range []string{kb.ArrowRight, kb.ArrowLeft} {
		if err := tab.Press(key); err != nil {
			t.Fatal(err)
		}
		if err := tab.Wait(settleTime); err != nil {
			t.Fatal(err)
		}
		if err := tab.Await(fmt.Sprintf("location.pathname !== %q", at), 5*time.Second); err != nil {
			t.Fatalf("an arrow key doesn't leave %s: %v", at, err)
		}
		at = eval[string](t, tab, "location.pathname")
		if got := eval[string](t, tab, "location.search"); !strings.Contains(got, query) {
			t.Errorf("after an arrow key the query is %q, which lacks the filter %q", got, query)
		}
	}
	if at != first.Path {
		t.Errorf("right and left lead from %s to %s", first.Path, at)
	}
	sound(t, tab)
}
