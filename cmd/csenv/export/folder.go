package export

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// folder is a new folder for output. Paths are relative to it and can't leave it.
type folder struct{ root *os.Root }

// newFolder writes a folder, which appears at the path when it is complete. The path may be an
// empty folder, but not one with files.
func newFolder(at string, write func(*folder) error) error {
	at = filepath.Clean(at)
	files, err := os.ReadDir(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("writing a folder: %w", err)
	case len(files) > 0:
		return fmt.Errorf("folder %s has files: name a new folder with -O", at)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil { //nolint:gosec // before the umask
		return fmt.Errorf("writing a folder: %w", err)
	}
	temporary := fmt.Sprintf("%s.%d.tmp", at, os.Getpid())
	if err := os.Mkdir(temporary, 0o777); err != nil { //nolint:gosec // before the umask
		return fmt.Errorf("writing a folder: %w", err)
	}
	defer os.RemoveAll(temporary) // after the rename, there is nothing to remove
	root, err := os.OpenRoot(temporary)
	if err != nil {
		return fmt.Errorf("writing a folder: %w", err)
	}
	err = write(&folder{root})
	if closed := root.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("writing a folder: %w", err)
	}
	if err := os.Rename(temporary, at); err != nil {
		return fmt.Errorf("writing a folder: %w", err)
	}
	return nil
}

// create opens a new file, and makes the folders above it.
func (f *folder) create(name string) (io.WriteCloser, error) {
	if above := path.Dir(name); above != "." {
		if err := f.root.MkdirAll(above, 0o777); err != nil {
			return nil, fmt.Errorf("writing a folder: %w", err)
		}
	}
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, fmt.Errorf("writing a folder: %w", err)
	}
	return file, nil
}

// write writes a file.
func (f *folder) write(name string, content []byte) error {
	file, err := f.create(name)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}
