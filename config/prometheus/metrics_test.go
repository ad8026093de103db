// Package prometheus tests that the configuration and docs/metrics.md use the metrics that the code
// exposes.
package prometheus

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

// exposed finds the names of csenv's metrics in its sources. Each name is one literal, so a search
// for a name from a dashboard finds it.
func exposed(t *testing.T) []string {
	t.Helper()
	literal := regexp.MustCompile(`"(csenv_[a-z0-9_]*)"`)
	names := map[string]bool{}
	for _, folder := range []string{"cmd", "controllers", "envserver"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, match := range literal.FindAllSubmatch(source, -1) {
				name := string(match[1])
				if strings.HasSuffix(name, "_") {
					t.Errorf("%s builds a metric's name from %q: write the whole name as one literal", path, name)
				}
				names[name] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestDocumentation(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| `(csenv_[a-z0-9_]+)` \\|")
	listed := map[string]bool{}
	for _, match := range row.FindAllStringSubmatch(read(t, filepath.Join(root, "docs/metrics.md")), -1) {
		listed[match[1]] = true
	}
	if diff := cmp.Diff(exposed(t), slices.Sorted(maps.Keys(listed))); diff != "" {
		t.Errorf("docs/metrics.md (+) doesn't list the metrics of the code (-):\n%s", diff)
	}
}

// Every name in a query is a metric of csenv, or a known metric of another component.
func TestQueries(t *testing.T) {
	others := []string{
		"up", "controller_runtime_reconcile_errors_total", "controller_runtime_reconcile_time_seconds",
		"rest_client_requests_total",
	}
	known := append(exposed(t), others...)
	name := regexp.MustCompile(
		`\b(csenv|controller_runtime|rest_client|process|go|kube|container|workqueue)_[a-z0-9_]+`)
	query := regexp.MustCompile(`(?m)^\s*(?:"expr": |expr: )(.*(?:\n {8,}.*)*)`)
	for _, file := range []string{"rules.yaml", "dashboard.json"} {
		queries := query.FindAllString(read(t, file), -1)
		if len(queries) < 5 {
			t.Errorf("%s has only %d queries", file, len(queries))
		}
		for _, q := range queries {
			for _, metric := range name.FindAllString(q, -1) {
				base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(metric, "")
				if !slices.Contains(known, metric) && !slices.Contains(known, base) {
					t.Errorf("%s queries %s, which nothing exposes", file, metric)
				}
			}
		}
	}
}
