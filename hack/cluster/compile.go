package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

// runGo runs the go command with the arguments of a build in dir, for static programs, and shows
// how far it is.
func runGo(ctx context.Context, progress io.Writer, dir string, args ...string) error {
	counting, cancel := context.WithCancel(ctx)
	var begun packageLog
	var total atomic.Int64
	var counted sync.WaitGroup
	// The build doesn't wait for the number, which takes seconds.
	counted.Go(func() { total.Store(int64(countPackages(counting, dir, args))) })
	defer counted.Wait()
	defer cancel()
	cmd := goCommand(ctx, dir, slices.Insert(slices.Clone(args), 1, "-v")...)
	cmd.Stdout, cmd.Stderr = &begun, &begun
	stop := showLife(progress, func(elapsed time.Duration) string {
		return buildState(begun.lines(), int(total.Load()), elapsed)
	})
	defer stop()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, lastLines(begun.text(), 20))
	}
	return nil
}

func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=", "GOARCH=")
	return cmd
}

// countPackages returns the number of packages that a build compiles, or 0 if it can't be known.
func countPackages(ctx context.Context, dir string, build []string) int {
	output := slices.Index(build, "-o")
	list := slices.Concat([]string{"list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"}, build[1:output],
		build[output+2:])
	stale, err := goCommand(ctx, dir, list...).Output()
	if err != nil {
		return 0
	}
	return len(strings.Fields(string(stale)))
}

// buildState says how far a build is. The go command names each package when it begins to compile
// it, and none of its build cache.
func buildState(begun, total int, elapsed time.Duration) string {
	after := elapsed.Round(time.Second)
	switch {
	case begun == 0:
		return fmt.Sprintf("finding modules and packages, %s", after)
	case total == 0:
		return fmt.Sprintf("%d packages, %s", begun, after)
	case begun >= total:
		return fmt.Sprintf("linking, %s", after)
	}
	const width = 20
	done := begun * width / total
	state := fmt.Sprintf("[%s%s] %d of %d packages, %s", strings.Repeat("#", done), strings.Repeat(".", width-done),
		begun, total, after)
	if done == 0 { // the beginning says little about the rest
		return state
	}
	left := elapsed * time.Duration(total-begun) / time.Duration(begun)
	return fmt.Sprintf("%s, about %s left", state, left.Round(time.Second))
}

// packageLog keeps what the go command prints: a line for each package that it compiles.
type packageLog struct {
	mu      sync.Mutex
	printed strings.Builder
	count   int
}

func (p *packageLog) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "go: ") { // a module is downloaded
			p.count++
		}
	}
	return p.printed.Write(data)
}

func (p *packageLog) lines() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

func (p *packageLog) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.printed.String()
}

// showLife prints a state every 20 seconds until stop is called. On a terminal it replaces the line
// every second.
func showLife(progress io.Writer, state func(elapsed time.Duration) string) (stop func()) {
	interval, begin, end := 20*time.Second, "    ", "\n"
	if file, ok := progress.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		interval, begin, end = time.Second, "\r\033[K    ", ""
	}
	done, start := make(chan struct{}), time.Now()
	ticker := time.NewTicker(interval)
	var finished sync.WaitGroup
	finished.Go(func() {
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				_, _ = fmt.Fprint(progress, begin+state(time.Since(start))+end)
			case <-done:
				if end == "" {
					_, _ = fmt.Fprint(progress, "\r\033[K")
				}
				return
			}
		}
	})
	return func() { close(done); finished.Wait() }
}
