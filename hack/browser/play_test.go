package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
)

// holder describes the focused element: what it is, its text, and whether its outline is shown.
const holder = `(() => {
	const e = document.activeElement;
	return {tag: e.tagName, name: e.name ?? "",
		text: e.textContent.trim().slice(0, 60), row: e.matches("[data-row]"),
		seen: e.matches(".said"), graded: e.matches(".grade"),
		shown: getComputedStyle(e).outlineStyle !== "none"};
})()`

type held struct {
	Tag, Name, Text          string
	Row, Seen, Graded, Shown bool
}

// presser presses keys in a tab.
type presser struct {
	*testing.T
	tab *Tab
}

func (p presser) press(keys ...string) {
	p.Helper()
	for _, key := range keys {
		if err := p.tab.Press(key); err != nil {
			p.Fatal(err)
		}
	}
}

// until presses a key until the focused element is the wanted one.
func (p presser) until(key, what string, wanted func(held) bool) {
	p.Helper()
	for range maxTabs {
		p.press(key)
		if at := eval[held](p.T, p.tab, holder); wanted(at) {
			if !at.Shown {
				p.Errorf("the focus of %s is not visible", what)
			}
			return
		}
	}
	p.Fatalf("the keyboard doesn't reach %s", what)
}

// act opens an action by the arrow keys, fills in its fields and sends it.
func (p presser) act(action string, fields ...string) {
	p.Helper()
	before := eval[string](p.T, p.tab, `document.querySelector("#game").innerText`)
	p.until(kb.ArrowDown, "the action "+action, func(at held) bool {
		return at.Row && strings.HasPrefix(at.Text, action)
	})
	p.press(kb.Enter)
	for _, text := range fields {
		p.press(kb.Tab, text)
	}
	p.until(kb.Tab, "the button "+action, func(at held) bool { return at.Tag == "BUTTON" && at.Text == action })
	p.press(kb.Enter)
	changed := fmt.Sprintf(`document.querySelector("#game")?.innerText !== %q`, before)
	if err := p.tab.Await(changed, 10*time.Second); err != nil {
		p.Fatalf("nothing happens after the action %s: %v", action, err)
	}
	if err := p.tab.Wait(settleTime); err != nil {
		p.Fatal(err)
	}
}

// begun waits for the page of a game. Nothing can be evaluated while another page is loaded.
func (p presser) begun() {
	p.Helper()
	for range 40 {
		if err := p.tab.Wait(settleTime); err != nil {
			p.Fatal(err)
		}
		if at, err := Eval[string](p.tab, `document.querySelector("#game") ? location.pathname : ""`); err == nil &&
			strings.Contains(at, "/games/") {
			return
		}
	}
	p.Fatal("the game doesn't begin")
}

// seen checks that the focus is on the new observation, and visible.
func (p presser) seen() {
	p.Helper()
	if at := eval[held](p.T, p.tab, holder); !at.Seen || !at.Shown {
		p.Errorf("the focus is not visible on the new observation: %+v", at)
	}
}

// A whole episode is played by the keyboard alone, and the focus is on what each action led to.
func (w *world) testPlay(t *testing.T) {
	for _, look := range []Look{Looks[0], Looks[2]} {
		t.Run(fmt.Sprint(look.Width), func(t *testing.T) {
			p := presser{t, w.open(t, look, w.site)}
			load(t, p.tab, "/play/?task=ticket-resolve", 200)
			p.until(kb.Tab, "the choice of a scenario", func(at held) bool { return at.Name == "scenario" })
			p.press("B06")
			p.until(kb.Tab, "the button Play", func(at held) bool { return at.Tag == "BUTTON" && at.Text == "Play" })
			p.press(kb.Enter)
			p.begun()
			if head := eval[string](t, p.tab, `document.querySelector("#game").innerText`); !strings.Contains(head,
				"scenario B06") {
				t.Errorf("another scenario was chosen: %.200s", head)
			}
			p.act("Search knowledge base", "seats")
			p.act("Classify", "billing", "high")
			p.seen()
			// The page is the same after it was loaded again, as without scripts.
			load(t, p.tab, eval[string](t, p.tab, `location.pathname`), 200)
			p.seen()
			p.act("Respond", "Hello, our team finance looks into the seats of your invoice.", "team", "finance")
			if page := eval[string](t, p.tab, `document.querySelector(".talk").innerHTML`); !strings.Contains(page,
				"<dt>team</dt><dd>finance</dd>") {
				t.Errorf("the fact stated is not shown: %s", page)
			}
			p.seen()
			p.act("Escalate", "finance")
			if at := eval[held](t, p.tab, holder); !at.Graded {
				t.Errorf("the focus is not on the grade: %+v", at)
			}
			sound(t, p.tab)
		})
	}
}
