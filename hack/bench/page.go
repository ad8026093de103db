package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// block is a part of a page that a scenario writes: the lines between the comments
// <!-- bench NAME --> and <!-- end -->.
type block struct{ name, text string }

// tableBlock has a table.
func tableBlock(name string, header table.Row, rows []table.Row) block {
	t := table.NewWriter()
	t.AppendHeader(header)
	t.AppendRows(rows)
	return block{name, t.RenderMarkdown()}
}

func printBlocks(w io.Writer, blocks []block) error {
	for _, b := range blocks {
		if _, err := fmt.Fprintf(w, "%s\n\n", b.text); err != nil {
			return err
		}
	}
	return nil
}

func writeBlocks(path string, blocks []block) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("writing the tables (run this from the checkout's root): %w", err)
	}
	page := string(text)
	for _, b := range blocks {
		if page, err = replaceBlock(page, b); err != nil {
			return fmt.Errorf("writing the tables of %s: %w", path, err)
		}
	}
	return os.WriteFile(path, []byte(page), 0o644) //nolint:gosec // a page of the documentation
}

func replaceBlock(page string, b block) (string, error) {
	begin := "<!-- bench " + b.name + " -->\n"
	before, rest, found := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, "\n<!-- end -->")
	if !found || !ended {
		return "", fmt.Errorf("it has no part that begins with %q and ends with \"<!-- end -->\"",
			strings.TrimSpace(begin))
	}
	return before + begin + "\n" + b.text + "\n\n<!-- end -->" + after, nil
}

// describeMachine describes the processor, the number of processors, the memory and the kernel.
func describeMachine() string {
	model := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	available, _ := availableMemory()
	return fmt.Sprintf("%s, %d processors, %d GiB of memory available, Linux %s; %s", model, runtime.NumCPU(),
		available>>30, strings.TrimSpace(string(kernel)), runtime.Version())
}

func formatDuration(d time.Duration) string {
	if d < time.Millisecond {
		return d.Round(100 * time.Nanosecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

// formatMemory shows the memory of a session, from the number on at which it exceeds the noise of
// garbage collection.
func formatMemory(bytes float64, sessions int) string {
	const manySessions = 1000
	if sessions < manySessions {
		return "–"
	}
	return fmt.Sprintf("%.1f KiB", bytes/1024/float64(sessions))
}

func formatCauses(failures map[string]int) string {
	if len(failures) == 0 {
		return "0"
	}
	var parts []string
	for _, cause := range slices.Sorted(maps.Keys(failures)) {
		parts = append(parts, fmt.Sprintf("%d: %s", failures[cause], cause))
	}
	return strings.Join(parts, "; ")
}
