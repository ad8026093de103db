package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// bundler writes the pages of a site as files that any web server can serve, or a browser can open.
type bundler struct {
	site    *site
	handler http.Handler
	folder  string
	// files are the paths that are written or wait for it, by their file.
	files map[string]string
	queue []string
	// progress is called after each written page.
	progress func(written, known int)
}

// bundle writes the overview, the leaderboard, and the pages of runs and of their episodes. The
// folder must not exist or be empty.
func (s *site) bundle(ctx context.Context, folder string, progress func(written, known int)) error {
	if entries, err := os.ReadDir(folder); err == nil && len(entries) > 0 {
		return fmt.Errorf("the folder %s is not empty: choose another one, or delete it first", folder)
	}
	s.pages.Static = true
	b := &bundler{site: s, handler: s.handler(), folder: folder, files: map[string]string{}, progress: progress}
	b.file("/")
	for written := 0; len(b.queue) > 0; written++ {
		next := b.queue[0]
		b.queue = b.queue[1:]
		if err := errors.Join(ctx.Err(), b.write(ctx, next)); err != nil {
			return err
		}
		b.progress(written+1, written+1+len(b.queue))
	}
	return nil
}

// write writes the page of a path.
func (b *bundler) write(ctx context.Context, target string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return fmt.Errorf("reading the link %q: %w", target, err)
	}
	answer := httptest.NewRecorder()
	b.handler.ServeHTTP(answer, request)
	if answer.Code != http.StatusOK {
		return fmt.Errorf("the page %s has status %d: open it with `csenv ui` to see why", target, answer.Code)
	}
	file, body := fileOf(target), answer.Body.Bytes()
	if strings.HasSuffix(file, ".html") {
		body = b.relative(file, body)
	}
	name := filepath.Join(b.folder, filepath.FromSlash(file))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // pages to be served
		return fmt.Errorf("writing the bundle: %w", err)
	}
	if err := os.WriteFile(name, body, 0o644); err != nil { //nolint:gosec // pages to be served
		return fmt.Errorf("writing the bundle: %w", err)
	}
	return nil
}

// linkPattern matches the links of a page to paths of the site. The templates quote attributes and
// escape the quotes of texts, so that texts don't match.
var linkPattern = regexp.MustCompile(` (href|src)="(/[^"]*)"`)

// relative makes the links of a page lead to files. A link to a page that is not in the
// bundle becomes plain text.
func (b *bundler) relative(from string, body []byte) []byte {
	return linkPattern.ReplaceAllFunc(body, func(match []byte) []byte {
		parts := linkPattern.FindSubmatch(match)
		to, fragment, _ := strings.Cut(html.UnescapeString(string(parts[2])), "#")
		file := b.file(to)
		if file == "" {
			return nil
		}
		up := strings.Repeat("../", strings.Count(from, "/"))
		link := (&url.URL{Path: up + file, Fragment: fragment}).String()
		return fmt.Appendf(nil, ` %s="%s"`, parts[1], html.EscapeString(link))
	})
}

// file returns the file of a path and queues it, "" if the bundle leaves it out.
func (b *bundler) file(target string) string {
	if !isBundled(target) {
		return ""
	}
	file := fileOf(target)
	if _, known := b.files[file]; !known {
		b.files[file] = target
		b.queue = append(b.queue, target)
	}
	return file
}

var bundledPattern = regexp.MustCompile(
	`^/(\?page=[0-9]+|leaderboard|static/[^?]*|` +
		`runs/[^/?]+/[^/?]+(/episodes(\?page=[0-9]+|/[0-9]+(\?from=[0-9]+)?)?)?)?$`)

// isBundled reports whether a path is part of a bundle: no path with other fields than those that
// select a part of a list or of an episode.
func isBundled(target string) bool { return bundledPattern.MatchString(target) }

// fileOf is the file of a path.
func fileOf(target string) string {
	at, query, _ := strings.Cut(strings.TrimPrefix(target, "/"), "?")
	at = cmp.Or(at, "index")
	switch {
	case strings.HasPrefix(at, "static/"):
		return path.Join("static", path.Base(at))
	case query != "":
		return at + "-" + strings.ReplaceAll(query, "=", "-") + ".html"
	}
	return at + ".html"
}
