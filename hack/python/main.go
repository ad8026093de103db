// Command python prints the interpreter of a Python environment with the packages of a list. It
// makes the environment first if there is none.
//
//	go run ./hack/python learn examples/learn/requirements.txt
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/csenv/csenv/hack/venv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := makeEnvironment(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func makeEnvironment(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("got %d arguments, want the environment's name and the file with its packages", len(args))
	}
	maker := venv.Maker{Command: "python3", Progress: os.Stderr, Run: venv.RunCommand}
	environment, err := maker.Environment(ctx, args[0], args[1])
	if err != nil {
		return err
	}
	fmt.Println(filepath.Join(environment, "bin", "python"))
	return nil
}
