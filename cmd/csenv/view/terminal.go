package view

import (
	"io"
	"os"

	"golang.org/x/term"
)

// The levels of a finding.
const (
	LevelOK   = "ok"
	LevelNote = "note"
	LevelBad  = "bad"
)

// HasColours reports whether to colour the output: on a terminal, unless NO_COLOR is set
// (no-color.org).
func HasColours(w io.Writer) bool {
	if kept, ok := w.(*StickyWriter); ok {
		w = kept.To
	}
	return os.Getenv("NO_COLOR") == "" && IsTerminal(w)
}

// ColourOf colours a level if wanted.
func ColourOf(wanted bool, level string) string {
	paint := map[string]string{LevelOK: "\x1b[32m", LevelNote: "\x1b[33m", LevelBad: "\x1b[31m"}
	if !wanted || paint[level] == "" {
		return level
	}
	return paint[level] + level + "\x1b[0m"
}

// StickyWriter keeps the first error of a writer, so that callers can ignore errors of single
// writes.
type StickyWriter struct {
	To  io.Writer
	Err error
}

// Write writes nothing after the first error.
func (k *StickyWriter) Write(p []byte) (int, error) {
	if k.Err != nil {
		return 0, k.Err
	}
	n, err := k.To.Write(p)
	k.Err = err
	return n, err
}

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// terminalWidth is the number of columns of a terminal.
func terminalWidth(w io.Writer) int {
	if file, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return Width
}
