//go:build unix

package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// LockFolder locks a folder for this process until it ends or calls unlock. If another process has
// the lock, the error has its id. Where no lock can be made, nothing is locked.
func LockFolder(folder string) (unlock func(), err error) {
	name := filepath.Join(folder, "lock")
	_ = os.MkdirAll(folder, 0o777)                               //nolint:gosec // before the umask
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666) //nolint:gosec // before the umask
	if err != nil {
		return func() {}, nil //nolint:nilerr // the store says what is wrong with the folder
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		defer file.Close()
		id, _ := io.ReadAll(file)
		return func() {}, fmt.Errorf("process %s plays this run in %s: wait until it ends, or stop it",
			strings.TrimSpace(string(id)), folder)
	}
	// The id is only for the message of others: the lock holds without it.
	_ = file.Truncate(0)
	_, _ = fmt.Fprintln(file, os.Getpid())
	return func() {
		_ = file.Truncate(0)
		_ = file.Close()
	}, nil
}

// IsAbandoned reports whether a process has locked a folder and none does any more.
func IsAbandoned(folder string) bool {
	file, err := os.Open(filepath.Join(folder, "lock"))
	if err != nil {
		return false
	}
	defer file.Close()
	// A process that ends clears the file, and one that is killed loses the lock.
	info, err := file.Stat()
	return err == nil && info.Size() == 0 || syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil
}

// OpenFiles returns the limit of open files of this process.
func OpenFiles() (uint64, error) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return limit.Cur, err
}
