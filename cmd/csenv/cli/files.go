package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// SameFile reports whether two paths name the same existing file.
func SameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// ReplaceFile writes a file atomically: after a failure the old file remains. Anything but a plain
// file, such as a pipe, is written in place.
func ReplaceFile(path string, write func(io.Writer) error) error {
	plain, mode := true, os.FileMode(0o666) // before the umask
	if info, err := os.Stat(path); err == nil {
		plain, mode = info.Mode().IsRegular(), info.Mode().Perm()
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return fmt.Errorf("writing records: %w", err)
		}
	}
	target, flags := path, os.O_WRONLY
	if plain {
		target, flags = fmt.Sprintf("%s.%d.tmp", path, os.Getpid()), os.O_WRONLY|os.O_CREATE|os.O_EXCL
	}
	file, err := os.OpenFile(target, flags, mode)
	if err != nil {
		return fmt.Errorf("writing records: %w", err)
	}
	err = write(file)
	if closed := file.Close(); err == nil && closed != nil {
		err = fmt.Errorf("writing records: %w", closed)
	}
	if !plain {
		return err
	}
	if err == nil {
		err = os.Rename(target, path)
	}
	if err != nil {
		_ = os.Remove(target) // the first error is the one to report
	}
	return err
}
