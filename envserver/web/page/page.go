// Package page renders the pages that a browser shows: a layout, named templates that pages are
// composed of, static files and the headers that protect them.
//
// A template escapes each text for its place, and Render escapes characters that are invisible or
// change the direction of text. So texts of agents, models, packs and clusters stay texts.
package page

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/csenv/csenv/envserver/web/printable"
	"github.com/csenv/csenv/envserver/web/template"
)

//go:embed templates
var templates embed.FS

// Set holds the templates of a site.
type Set struct {
	// Static means that pages are written to files and no server answers: forms, live updates and
	// scripts are left out. Templates call it.
	Static bool

	pages map[string]*template.Template
}

// Page is what the layout shows. Main is the data of the page's template.
type Page struct {
	Title string
	// Place is the entry of the navigation that is marked as current, for example "runs".
	Place string
	// Nav are the entries of the navigation.
	Nav []Link
	// Search is the path of the search, "" for none.
	Search string
	// Version is the program's version.
	Version string
	// Notices are messages about what the page shows, such as that it is out of date.
	Notices []string
	Main    any
}

// Link is an entry of the navigation.
type Link struct{ Place, Name, Path string }

// New parses the templates. Base is the path below which the pages are served, "" for the root. A
// program that serves a few pages names them: then only these are parsed, with parts/parts.html and
// the parts that have a name of theirs.
func New(base string, only ...string) (*Set, error) {
	s := &Set{pages: map[string]*template.Template{}}
	functions := template.FuncMap{
		"static": func() bool { return s.Static },
		"base":   func() string { return base },
		"asset":  func(name string) (string, error) { return AssetPath(base, name) },
		"dict":   newDict,
		"cut":    clipText,
	}
	files, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("listing the templates: %w", err)
	}
	parts, err := fs.Glob(templates, "templates/parts/*.html")
	if err != nil {
		return nil, fmt.Errorf("listing the parts of templates: %w", err)
	}
	if len(only) > 0 {
		other := func(file string) bool { return !slices.Contains(only, strings.TrimSuffix(path.Base(file), ".html")) }
		files = slices.DeleteFunc(files, other)
		parts = slices.DeleteFunc(parts, func(file string) bool {
			return path.Base(file) != "parts.html" && other(file)
		})
	}
	shared, err := template.New("layout").Funcs(methods).Funcs(functions).ParseFS(templates,
		append(parts, "templates/layout.html")...)
	if err != nil {
		return nil, fmt.Errorf("reading the shared templates: %w", err)
	}
	for _, file := range files {
		t, err := shared.Clone()
		if err == nil {
			t, err = t.ParseFS(templates, file)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the template %s: %w", file, err)
		}
		s.pages[strings.TrimSuffix(path.Base(file), ".html")] = t
	}
	return s, nil
}

// clipText shortens a long text.
func clipText(text string) cutText {
	if len(text) <= maxText {
		return cutText{Text: text}
	}
	shown := 0
	for at := range text {
		if shown == maxText {
			return cutText{text[:at], utf8.RuneCountInString(text[at:])}
		}
		shown++
	}
	return cutText{Text: text}
}

// newDict makes the data of a part from keys and values.
func newDict(pairs ...any) (map[string]any, error) {
	out := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		key, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("key %v of a part's data is not a string", pairs[i])
		}
		out[key] = pairs[i+1]
	}
	return out, nil
}

// Page renders a page, the file templates/NAME.html, in the layout.
func (s *Set) Page(name string, p Page) ([]byte, error) { return s.Part(name, "layout.html", p) }

// Part renders one named template of a page.
func (s *Set) Part(name, part string, data any) ([]byte, error) {
	t := s.pages[name]
	if t == nil {
		return nil, fmt.Errorf("there is no page %s", name)
	}
	var out bytes.Buffer
	if err := t.ExecuteTemplate(&out, part, data); err != nil {
		return nil, fmt.Errorf("rendering the page %s: %w", name, err)
	}
	return []byte(printable.EscapeText(out.String())), nil
}

// policy allows only what the site itself serves.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ProtectHandler sets the headers of all answers: nothing from elsewhere is loaded, no other site
// frames the pages, and forms of other sites are refused.
func ProtectHandler(next http.Handler) http.Handler {
	guarded := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		guarded.ServeHTTP(w, r)
	})
}
