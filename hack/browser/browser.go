// Package browser shows the pages of csenv ui in a real browser, for tests and for pictures.
package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// errMissing means that there is no Chromium.
var errMissing = errors.New("there is no Chromium: install it, or name its program in CHROMIUM; " +
	"make test-browser installs Debian's")

// FindChromium returns the path of Chromium: $CHROMIUM, or the first known name on PATH.
func FindChromium() (string, error) {
	if path := os.Getenv("CHROMIUM"); path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", fmt.Errorf("the variable CHROMIUM names no program: %w", err)
		}
		return found, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errMissing
}

// Browser is a running Chromium.
type Browser struct {
	ctx  context.Context
	Stop func()
}

// Start starts Chromium without a window.
func Start(ctx context.Context) (*Browser, error) {
	path, err := FindChromium()
	if err != nil {
		return nil, err
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path),
		chromedp.Flag("hide-scrollbars", true))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has no sandbox for root
	}
	ctx, stopAll := chromedp.NewExecAllocator(ctx, options...)
	ctx, stop := chromedp.NewContext(ctx)
	b := &Browser{ctx: ctx, Stop: func() { stop(); stopAll() }}
	if err := chromedp.Do(ctx); err != nil {
		b.Stop()
		return nil, fmt.Errorf("starting %s: %w", path, err)
	}
	return b, nil
}

// Look is how a page is shown: the width of the window in pixels, and the scheme of colours,
// "light" or "dark".
type Look struct {
	Width  int
	Scheme string
}

// Looks are how pages are tested and drawn.
var Looks = []Look{{1280, "light"}, {1280, "dark"}, {390, "light"}, {390, "dark"}}

// Height returns the height of the window in pixels.
func (l Look) Height() int {
	if l.Width < 600 {
		return 844
	}
	return 900
}

// Tab is an open tab. Its methods are called by one goroutine.
type Tab struct {
	ctx   context.Context
	Close func()
	// base is the URL of the site.
	base *url.URL

	mu     sync.Mutex
	faults []string
}

// actionTimeout bounds a single action, on a slow machine too.
const actionTimeout = 30 * time.Second

// watchViolations collects refusals of the Content-Security-Policy.
const watchViolations = `window.__violations = []; addEventListener("securitypolicyviolation", (e) =>
	window.__violations.push(e.violatedDirective + " " + e.blockedURI + " " + e.sample));`

// Open opens a tab for the site at a URL.
func (b *Browser) Open(look Look, site string) (*Tab, error) {
	base, err := url.Parse(site)
	if err != nil {
		return nil, fmt.Errorf("the URL of the site: %w", err)
	}
	t := &Tab{base: base}
	t.ctx, t.Close = chromedp.NewContext(b.ctx, chromedp.WithListener(t.hear))
	err = chromedp.Do(t.ctx, chromedp.EmulateViewport(int64(look.Width), int64(look.Height())),
		chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.Scheme}}})
			if err != nil {
				return err
			}
			_, err = cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument,
				page.AddScriptToEvaluateOnNewDocumentParams{Source: watchViolations})
			return err
		}))
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("opening a tab: %w", err)
	}
	return t, nil
}

// hear notes the events that a sound page does not cause.
func (t *Tab) hear(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if target, err := url.Parse(e.Request.URL); err != nil ||
			target.Host != t.base.Host && target.Scheme != "about" {
			t.faultf("a request goes to another host: %.200s", e.Request.URL)
		}
	case *network.EventResponseReceived:
		if e.Type != network.ResourceTypeDocument && e.Response.Status >= http.StatusBadRequest {
			t.faultf("%s is answered with status %d", e.Response.URL, e.Response.Status)
		}
	case *network.EventLoadingFailed:
		// Streams of updates are cut when the tab shows another page.
		if !e.Canceled && e.ErrorText != "net::ERR_ABORTED" {
			t.faultf("a request of type %s failed: %s %s", e.Type, e.ErrorText, e.BlockedReason)
		}
	case *runtime.EventExceptionThrown:
		value := []*runtime.RemoteObject{e.ExceptionDetails.Exception}
		t.faultf("a script failed: %s %s", e.ExceptionDetails.Text, formatMessage(value))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			t.faultf("the console has a message of level %s: %.500s", e.Type, formatMessage(e.Args))
		}
	case *log.EventEntryAdded:
		// Failed requests are noted above.
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			t.faultf("the log has an error of %s: %.500s", e.Entry.Source, e.Entry.Text)
		}
	case *page.EventJavascriptDialogOpening:
		t.faultf("a dialog opened: %.200s", e.Message)
		// A command may not be sent while an event is handled.
		go func() {
			_, _ = chromedp.Call(t.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
		}()
	}
}

// formatMessage are the values of a message of the console.
func formatMessage(values []*runtime.RemoteObject) string {
	var text strings.Builder
	for _, v := range values {
		if v != nil {
			fmt.Fprintf(&text, "%s%s ", v.Value, v.Description)
		}
	}
	return text.String()
}

func (t *Tab) faultf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults = append(t.faults, fmt.Sprintf(format, args...))
}

// Faults returns what a sound page does not cause and forgets it: errors of scripts and requests,
// refusals of the Content-Security-Policy, dialogs, requests to other hosts.
func (t *Tab) Faults() ([]string, error) {
	violations, err := Eval[[]string](t, "window.__violations.splice(0)")
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	faults := t.faults
	t.faults = nil
	for _, violation := range violations {
		faults = append(faults, "the Content-Security-Policy refuses "+violation)
	}
	return faults, nil
}

// Load loads a page of the site by its path and returns the status of the answer.
func (t *Tab) Load(path string) (int64, error) {
	ctx, cancel := context.WithTimeout(t.ctx, actionTimeout)
	defer cancel()
	response, err := chromedp.Run(ctx, chromedp.NavigateResponse(t.base.Scheme+"://"+t.base.Host+path))
	if err != nil || response == nil {
		return 0, fmt.Errorf("loading %.200s: %w", path, err)
	}
	// Live updates have replaced the first content after this time.
	return response.Status, t.Wait(settleTime)
}

const settleTime = 250 * time.Millisecond

// Wait waits.
func (t *Tab) Wait(d time.Duration) error { return chromedp.Do(t.ctx, chromedp.Sleep(d)) }

// Await waits until an expression is true.
func (t *Tab) Await(expression string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(t.ctx, timeout+actionTimeout)
	defer cancel()
	return chromedp.Do(ctx, chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(timeout),
		chromedp.WithPollingInterval(50*time.Millisecond)))
}

// Press presses a letter, or a key of chromedp/kb.
func (t *Tab) Press(key string) error {
	ctx, cancel := context.WithTimeout(t.ctx, actionTimeout)
	defer cancel()
	return chromedp.Do(ctx, chromedp.KeyEvent(key))
}

// Eval evaluates an expression in the page, and waits for its promise. The result has the type T
// as JSON.
func Eval[T any](t *Tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(t.ctx, 2*actionTimeout)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Screenshot returns the page as a PNG of its whole height, or of its first pixels up to a height.
func (t *Tab) Screenshot(look Look, maxHeight int) ([]byte, error) {
	height, err := Eval[int](t, "document.documentElement.scrollHeight")
	if err != nil {
		return nil, err
	}
	yes, no := true, false
	ctx, cancel := context.WithTimeout(t.ctx, 2*actionTimeout)
	defer cancel()
	r, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &yes,
		OptimizeForSpeed: &no, Clip: &page.Viewport{Width: float64(look.Width), Scale: 1,
			Height: float64(min(max(height, look.Height()), maxHeight))}})
	if err != nil {
		return nil, fmt.Errorf("drawing the page: %w", err)
	}
	return r.Data, nil
}
