package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/testkit/process"
)

// Site is a running csenv ui.
type Site struct {
	*process.Process
	// URL is the first page's.
	URL string
}

// siteTimeout is the time within which csenv ui listens.
const siteTimeout = time.Minute

var sitePattern = regexp.MustCompile(`http://[^\s/]+/`)

// BuildProgram builds csenv into a folder and returns its path. If the variable CSENV_PROGRAM names
// a built program, that is returned.
func BuildProgram(ctx context.Context, folder string) (string, error) {
	if path := os.Getenv("CSENV_PROGRAM"); path != "" {
		return path, nil
	}
	path := filepath.Join(folder, "csenv")
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, "github.com/csenv/csenv/cmd/csenv")
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building csenv: %w\n%s", err, output)
	}
	return path, nil
}

// ServeStore starts csenv ui over a store. No cluster is read, and nothing is written outside the
// folder.
func ServeStore(ctx context.Context, program, folder, store string) (*Site, error) {
	return ServeWith(ctx, program, isolatedEnviron(folder), "--results", store)
}

// ServeWith starts csenv ui with an environment and flags.
func ServeWith(ctx context.Context, program string, variables []string, flags ...string) (*Site, error) {
	command := exec.CommandContext(ctx, program, append([]string{"ui", "--listen", "127.0.0.1:0"}, flags...)...)
	command.Env = variables
	p, err := process.Start("csenv ui", command)
	if err != nil {
		return nil, err
	}
	s := &Site{Process: p}
	err = p.Await(ctx, siteTimeout, func() bool {
		s.URL = sitePattern.FindString(p.Logs())
		return s.URL != ""
	})
	if err != nil {
		p.Kill()
		return nil, err
	}
	return s, nil
}

// isolatedEnviron gives csenv no cluster, and a cache and a key of its own.
func isolatedEnviron(folder string) []string {
	return append(os.Environ(), "KUBECONFIG="+filepath.Join(folder, "no-cluster"),
		"XDG_CACHE_HOME="+filepath.Join(folder, "cache"), "CSENV_EVAL_KEY_FILE="+filepath.Join(folder, "eval-key.pem"))
}

// Run is a run of the fixtures: its name and the flags of csenv eval.
type Run struct {
	Name string
	Args []string
}

// Runs are the runs that pages are tested and drawn with.
var Runs = []Run{
	{"resolve-heuristic", []string{"ticket-resolve", "--agent", "heuristic", "--trials", "2"}},
	{"resolve-oracle", []string{"ticket-resolve", "--agent", "oracle", "--trials", "2"}},
	{"resolve-noop", []string{"ticket-resolve", "--agent", "noop", "--scenario", "B06,B07,S03,T01"}},
	{"queue", []string{"queue-management", "--agent", "heuristic"}},
	{"refund", []string{"refund", "--agent", "oracle"}},
	{"case-medium", []string{"case-medium", "--agent", "heuristic", "--split", "public-dev"}},
}

// PlayRuns plays the runs into a store.
func PlayRuns(ctx context.Context, program, folder, store string) error {
	for _, run := range Runs {
		args := append([]string{"eval", "--results", store, "--name", run.Name}, run.Args...)
		command := exec.CommandContext(ctx, program, args...)
		command.Env = isolatedEnviron(folder)
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("csenv %s: %w\n%s", strings.Join(args, " "), err, output)
		}
	}
	return nil
}

// FindRunFolder finds the folder of a run below a store.
func FindRunFolder(store, name string) (string, error) {
	found, err := filepath.Glob(filepath.Join(store, name+"-????????"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("the store has %d runs %s, want one", len(found), name)
	}
	return filepath.Base(found[0]), nil
}

// Page is a page of the site and the status of its answer.
type Page struct {
	Name, Path string
	Status     int64
}

// options returns the values of the two runs that Compare can compare.
const options = `["heuristic", "oracle"].map((name) => [...document.querySelectorAll("main select option")].find(
	(o) => (o.value + o.text).includes("resolve-" + name))?.value ?? "")`

// ListPages lists the pages of a site over the fixtures: the navigation's, a comparison,
// runs, episodes of each environment, and a page that doesn't exist.
func ListPages(b *Browser, site *Site, store string) ([]Page, error) {
	tab, err := b.Open(Looks[0], site.URL)
	if err != nil {
		return nil, err
	}
	defer tab.Close()
	if _, err := tab.Load("/"); err != nil {
		return nil, err
	}
	navigation, err := Eval[[]string](tab, `[...document.querySelectorAll("header nav a")].map((a) => a.pathname)`)
	if err != nil {
		return nil, fmt.Errorf("reading the navigation: %w", err)
	}
	var pages []Page
	for _, path := range navigation {
		name := strings.Trim(path, "/")
		if name == "" {
			name = "overview"
		}
		pages = append(pages, Page{name, path, 200})
	}
	if _, err := tab.Load("/compare"); err != nil {
		return nil, err
	}
	compared, err := Eval[[]string](tab, options)
	if err != nil {
		return nil, fmt.Errorf("reading the runs of Compare: %w", err)
	}
	query, err := Eval[string](tab, fmt.Sprintf(`"" + new URLSearchParams([["run", %q], ["run", %q]])`,
		compared[0], compared[1]))
	if err != nil {
		return nil, fmt.Errorf("making the query of Compare: %w", err)
	}
	pages = append(pages, Page{"compare-runs", "/compare?" + query, 200})
	for _, run := range Runs {
		folder, err := FindRunFolder(store, run.Name)
		if err != nil {
			return nil, err
		}
		path := "/runs/_/" + folder
		pages = append(pages, Page{"episode-" + run.Name, path + "/episodes/0", 200})
		if run.Name == "resolve-heuristic" || run.Name == "case-medium" {
			pages = append(pages, Page{"run-" + run.Name, path, 200},
				Page{"episodes-" + run.Name, path + "/episodes", 200})
		}
	}
	return append(pages, Page{"missing", "/no-such-page", 404}), nil
}
