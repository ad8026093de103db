package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// recipes is the folder of the recipes for trainers.
const recipes = "examples/trainers"

// packageTests stands for the tests of the Python package among the recipes.
const packageTests = "package"

// recipeTimeout is the maximum time of one recipe.
const recipeTimeout = 10 * time.Minute

// stack is a Python environment with the recipes that run in it. The packages of different stacks
// want different versions of others.
type stack struct {
	name    string
	python  string // condition on sys.version_info, or empty
	recipes []string
}

var stacks = []stack{
	{name: "light", recipes: []string{packageTests, "rollouts", "gymnasium_env", "skyrl_env", "verifiers_eval",
		"tree_search"}},
	{name: "torch", recipes: []string{"proxy", "harness", "agilerl_env", "trl_grpo", "trl_openreward",
		"trl_language_model"}},
	{name: "nemo", python: ">= (3, 12)", recipes: []string{"nemo_gym_env"}},
}

// environment is the name of the stack's Python environment.
func (s stack) environment() string { return suiteTrainers + "-" + s.name }

// wanted reports whether a recipe is selected by --match.
func (r *runner) wanted(recipe string) bool { return strings.Contains(recipe, r.match) }

// trainerEnvironments makes the environments of the stacks. A stack without an interpreter or
// without a selected recipe is left out.
func (r *runner) trainerEnvironments(ctx context.Context, made map[string]string) error {
	for _, s := range stacks {
		if !slices.ContainsFunc(s.recipes, r.wanted) {
			continue
		}
		interpreter := r.interpreter(ctx, s.python)
		if interpreter == "" {
			continue
		}
		// The lists are complete. One names packages that don't admit each other's versions, though
		// the parts that are used work together.
		environment, err := r.environment(ctx, interpreter, s.environment(),
			filepath.Join(recipes, "requirements-"+s.name+".txt"), true)
		if err != nil {
			return fmt.Errorf("making the Python environment of the recipes %s: %w", strings.Join(s.recipes, ", "), err)
		}
		made[s.environment()] = environment
	}
	return nil
}

// interpreter returns an interpreter whose version satisfies a condition, or an empty text.
func (r *runner) interpreter(ctx context.Context, condition string) string {
	if condition == "" {
		return r.python
	}
	for _, name := range []string{r.python, "python3.12", "python3.13", "python3.14"} {
		program := "import sys; sys.exit(not sys.version_info " + condition + ")"
		if _, err := runCommand(ctx, name, "-c", program); err == nil {
			return name
		}
	}
	return ""
}

// trainers runs the recipes one after another and prints one line for each.
func (r *runner) trainers(ctx context.Context, _ suite, environments map[string]string, servers *servers) error {
	var failed []string
	// The first server has the ticket environment.
	variables := append(append(r.isolation(), servers.environment()...), "CSENV_URL=http://"+servers.all[0].Address)
	for _, s := range stacks {
		for _, recipe := range slices.DeleteFunc(slices.Clone(s.recipes), func(n string) bool { return !r.wanted(n) }) {
			began, environment := time.Now(), environments[s.environment()]
			last, err := "", needsPython(s.python)
			if environment != "" {
				last, err = r.recipe(ctx, filepath.Join(environment, "bin", "python"), recipe, variables)
			}
			verdict := "ok"
			switch {
			case errors.Is(err, errSkipped):
				verdict, last = "skipped", err.Error()
			case err != nil:
				verdict, last = "FAILED", err.Error()
				failed = append(failed, recipe)
			}
			fmt.Fprintf(r.stdout, "%-7s %-18s %5.1f s  %s\n", verdict, recipe, time.Since(began).Seconds(), last)
		}
	}
	if len(failed) > 0 {
		return errors.New(strings.Join(failed, ", "))
	}
	return nil
}

// recipe runs one recipe and returns what its last line says.
func (r *runner) recipe(ctx context.Context, interpreter, name string, variables []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, recipeTimeout)
	defer cancel()
	sources, err := filepath.Abs("python")
	if err != nil {
		return "", err
	}
	args, prefix := []string{filepath.Join(recipes, name+".py")}, "ok: "
	if name == packageTests {
		args, prefix = []string{"-m", "pytest", "-q", "-p", "no:cacheprovider", "python/tests"}, ""
	}
	cmd := exec.CommandContext(ctx, interpreter, args...)
	cmd.Env = append(os.Environ(), append(variables, "PYTHONPATH="+sources, "TRL_EXPERIMENTAL_SILENCE=1")...)
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 10*time.Second
	output, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(output))
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, text)
	}
	last, ok := strings.CutPrefix(text[strings.LastIndex(text, "\n")+1:], prefix)
	if !ok {
		return "", errors.New("its last line isn't a report\n" + text)
	}
	return last, nil
}
