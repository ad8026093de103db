// Command conformance tests csenv's servers, stores and exports with the programs and packages of
// others, and its figures and decisions with independent implementations: the suites below.
//
// It creates Python environments with pinned packages in the user's cache (once for each list of
// requirements), builds the programs under test, starts several servers on free ports of the
// loopback interface, and runs the suites. Its exit status is 1 if a suite failed, and 3 if the
// package index can't be reached: no suite was run then.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/hack/shipped"
)

const (
	exitFailed  = 1
	exitOffline = 3
)

const folder = "hack/conformance"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand(os.Stdout).ExecuteContext(ctx)
	stop()
	os.Exit(exitCode(err, os.Stderr))
}

func exitCode(err error, stderr io.Writer) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errOffline):
		fmt.Fprintln(stderr, "error:", err)
		fmt.Fprintln(stderr, "No suite was run. Set a package index that can be reached (PIP_INDEX_URL, "+
			"PIP_PROXY or pip's configuration), and run the command again.")
		return exitOffline
	default:
		fmt.Fprintln(stderr, "error:", err)
		return exitFailed
	}
}

// suite is a suite of tests, in the folder of its name.
type suite struct {
	name string
	// home is the folder whose requirements.txt its Python environment has, "" for its own. Of a
	// complete list nothing else is installed: the packages that it leaves out aren't used.
	home     string
	complete bool
	// python is a condition on sys.version_info, "" for none.
	python string
	// programs are the commands that it needs, and servers says that it uses running servers.
	programs []string
	servers  bool
	// variables and args are for pytest.
	variables, args []string
	// run replaces pytest.
	run func(r *runner, ctx context.Context, s suite, environments map[string]string, servers *servers) error
}

// suites are all suites, in the order in which they run.
var suites = []suite{
	{name: "openenv", programs: []string{"envserver"}, servers: true, run: (*runner).typedClient},
	{name: "mcp", programs: []string{"envserver"}, servers: true},
	{name: "judge", run: (*runner).litellm},
	{name: "agent", home: "judge", run: (*runner).litellm}, // the same proxy
	// csenv's figures are compared with SciPy's and statsmodels'.
	{name: "statistics"},
	// The desk's decisions are compared with an implementation in Python.
	{name: "desk", variables: []string{"PYTHONPATH=" + folder + "/desk"}},
	// Episodes are stored in versitygw and read with AWS's client. Most of the time the tests wait
	// for servers that don't answer.
	{name: "s3", programs: []string{"envserver", "runner", "csenv"},
		args: []string{"--numprocesses", "8", "--maxschedchunk", "1"}},
	// Exported episodes are opened with the packages that they are for. Harbor's need 3.12.
	{name: "export", complete: true, python: ">= (3, 12)", programs: []string{"csenv"}},
	// The recipes for trainers run with the packages that they are for.
	{name: suiteTrainers, programs: []string{"envserver"}, servers: true, run: (*runner).trainers},
	// A small language model plays and judges.
	{name: "model", complete: true, programs: []string{"csenv"}},
}

const suiteTrainers = "trainers"

func listNames() []string {
	var names []string
	for _, s := range suites {
		names = append(names, s.name)
	}
	return names
}

type options struct {
	suites []string
	match  string
	python string
}

func newCommand(stdout io.Writer) *cobra.Command {
	o := options{suites: listNames(), python: "python3"}
	cmd := &cobra.Command{
		Use: "conformance", Short: "Try csenv's servers with the official clients",
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, suite := range o.suites {
				if !slices.Contains(listNames(), suite) {
					return fmt.Errorf("--suites has %q: choose one of %s", suite, strings.Join(listNames(), ", "))
				}
			}
			return runSuites(cmd.Context(), o, stdout)
		},
	}
	cmd.Flags().StringSliceVar(&o.suites, "suites", o.suites, "suites to run")
	cmd.Flags().StringVar(&o.match, "match", "", "run only the tests whose names match, as in pytest -k; not for the "+
		"suites judge and agent")
	cmd.Flags().StringVar(&o.python, "python", o.python,
		"interpreter that the environments are made with, 3.11 or newer")
	return cmd
}

// runSuites runs the suites. All environments are made first, so that no suite starts if one of
// them can't be made.
func runSuites(ctx context.Context, o options, stdout io.Writer) error {
	work, err := os.MkdirTemp("", "csenv-conformance-")
	if err != nil {
		return fmt.Errorf("making a folder for this run: %w", err)
	}
	defer os.RemoveAll(work)
	r := &runner{options: o, work: work, stdout: stdout}
	environments, err := r.environments(ctx)
	if err != nil {
		return err
	}
	if err := r.build(ctx); err != nil {
		return err
	}
	servers, err := r.servers(ctx)
	if err != nil {
		return err
	}
	var reports []report
	for _, s := range r.chosen() {
		began := time.Now()
		r.progressf("suite %s", s.name)
		err := r.suite(ctx, s, environments, servers)
		reports = append(reports, report{s.name, time.Since(began), err})
	}
	if len(servers.all) > 0 {
		began := time.Now()
		err := servers.end(ctx)
		reports = append(reports, report{"servers", time.Since(began), err})
	}
	return summariseReports(reports, stdout)
}

// end checks that the servers still run, have no session and have no error in their logs. It then
// stops them.
func (s *servers) end(ctx context.Context) error {
	var errs []error
	for _, one := range s.all {
		if err := one.inspect(ctx, s.opsToken); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", one.name, err))
		}
	}
	return errors.Join(append(errs, s.stop())...)
}

// report is the result of a suite, whose own output names its tests.
type report struct {
	suite string
	took  time.Duration
	err   error
}

// errSkipped is the error of a suite that this machine can't run.
var errSkipped = errors.New("skipped")

// summariseReports prints the results of all suites, and returns an error if one of them failed.
func summariseReports(reports []report, w io.Writer) error {
	fmt.Fprintln(w, "\n==> summary")
	var failed []string
	for _, r := range reports {
		verdict := "ok"
		if r.err != nil {
			verdict = strings.ReplaceAll(r.err.Error(), "\n", "\n         ")
		}
		if r.err != nil && !errors.Is(r.err, errSkipped) {
			verdict = "FAILED: " + verdict
			failed = append(failed, r.suite)
		}
		fmt.Fprintf(w, "%-10s %4.0f s  %s\n", r.suite, r.took.Seconds(), verdict)
	}
	if len(failed) > 0 {
		return errors.New("not conforming: " + strings.Join(failed, ", "))
	}
	return nil
}

// runner holds the state of one invocation.
type runner struct {
	options

	work   string
	stdout io.Writer
}

func (r *runner) progressf(format string, args ...any) {
	fmt.Fprintf(r.stdout, "==> "+format+"\n", args...)
}

// chosen returns the suites that --suites names.
func (r *runner) chosen() []suite {
	return slices.DeleteFunc(slices.Clone(suites), func(s suite) bool { return !slices.Contains(r.suites, s.name) })
}

// environments makes each suite's Python environment and returns the folders by suite.
func (r *runner) environments(ctx context.Context) (map[string]string, error) {
	made := map[string]string{}
	for _, s := range r.chosen() {
		if s.name == suiteTrainers {
			if err := r.trainerEnvironments(ctx, made); err != nil {
				return nil, err
			}
			continue
		}
		home, interpreter := cmp.Or(s.home, s.name), r.interpreter(ctx, s.python)
		if interpreter == "" {
			continue
		}
		environment, err := r.environment(ctx, interpreter, home, filepath.Join(folder, home, "requirements.txt"),
			s.complete)
		if err != nil {
			return nil, fmt.Errorf("making the Python environment of the suite %s: %w", s.name, err)
		}
		made[s.name] = environment
	}
	return made, nil
}

// errOffline means that packages are missing and the package index can't be reached.
var errOffline = errors.New("the Python package index can't be reached")

// environment returns the folder of the Python environment with the packages of a list, which
// hack/python.py makes. Of a complete list it installs nothing else.
func (r *runner) environment(ctx context.Context, interpreter, name, requirements string,
	complete bool) (string, error) {
	const offline = 3 // the script's exit status
	args := []string{"hack/python.py", name, requirements}
	if complete {
		args = append(args, "--no-deps")
	}
	cmd := exec.CommandContext(ctx, interpreter, args...)
	cmd.Stderr = r.stdout
	path, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() == offline {
		return "", errOffline
	}
	return filepath.Dir(filepath.Dir(strings.TrimSpace(string(path)))), err
}

// runCommand runs a command and returns what it printed.
func runCommand(ctx context.Context, name string, args ...string) ([]byte, error) {
	return exec.CommandContext(ctx, name, args...).CombinedOutput()
}

// wants reports whether the suite is selected.
func (r *runner) wants(name string) bool { return slices.Contains(r.suites, name) }

// programs returns the folder of the programs under test.
func (r *runner) programs() string { return filepath.Join(r.work, "programs") }

// image returns the file of the image under test.
func (r *runner) image() string { return filepath.Join(r.work, "image.tar") }

// build builds the programs under test.
func (r *runner) build(ctx context.Context) error {
	var wanted []string
	for _, s := range r.chosen() {
		for _, program := range s.programs {
			if path := "./cmd/" + program; !slices.Contains(wanted, path) {
				wanted = append(wanted, path)
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	r.progressf("building %s", strings.Join(wanted, ", "))
	if err := os.Mkdir(r.programs(), 0o750); err != nil {
		return fmt.Errorf("making a folder for programs: %w", err)
	}
	if output, err := runCommand(ctx, "go", append([]string{"build", "-trimpath", "-tags", shipped.Tags, "-o",
		r.programs()}, wanted...)...); err != nil {
		return fmt.Errorf("building the programs (run this from the checkout's root): %w\n%s", err, output)
	}
	if r.wants("openenv") {
		r.progressf("building the image")
		if output, err := runCommand(ctx, "go", "run", "./hack/cluster", "image", r.image()); err != nil {
			return fmt.Errorf("building the image: %w\n%s", err, output)
		}
	}
	if !r.wants("s3") {
		return nil
	}
	r.progressf("building versitygw (a minute or two, once)")
	// This program is a separate module, because it has more dependencies than all of csenv.
	if output, err := runCommand(ctx, "env", "GOWORK=off", "go", "-C", filepath.Join(folder, "s3"), "build",
		"-trimpath", "-o", r.programs(), "github.com/versity/versitygw/cmd/versitygw"); err != nil {
		return fmt.Errorf("building versitygw: %w\n%s", err, output)
	}
	return nil
}

// servers starts the servers that the suites of the official clients use.
func (r *runner) servers(ctx context.Context) (*servers, error) {
	if !slices.ContainsFunc(r.chosen(), func(s suite) bool { return s.servers }) {
		return &servers{}, nil
	}
	r.progressf("starting the servers of environments")
	return startServers(ctx, filepath.Join(r.programs(), "envserver"), r.work)
}

// suite runs one suite.
func (r *runner) suite(ctx context.Context, s suite, environments map[string]string, servers *servers) error {
	switch {
	case s.run != nil:
		return s.run(r, ctx, s, environments, servers)
	case environments[s.name] == "":
		return needsPython(s.python)
	}
	return r.pytest(ctx, s, environments[s.name], servers)
}

// needsPython is the error of what can't be run without an interpreter that satisfies a condition.
func needsPython(condition string) error {
	return fmt.Errorf("%w: it needs Python %s: name one with --python", errSkipped, condition)
}

// typedClient runs the suite with the typed client, which it installs from the sources for this
// invocation, and that client's own tests.
func (r *runner) typedClient(ctx context.Context, s suite, environments map[string]string, servers *servers) error {
	installed := filepath.Join(r.work, "typed-client")
	for _, sources := range []string{"./python", "./python/openenv-customer-support-env"} {
		// The build tools are among the environment's packages, so it needs no index.
		if output, err := runCommand(ctx, filepath.Join(environments[s.name], "bin", "python"), "-m", "pip", "install",
			"--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps", "--no-index", "--target",
			installed, sources); err != nil {
			return fmt.Errorf("installing %s: %w\n%s", sources, err, output)
		}
	}
	s.variables = []string{"PYTHONPATH=" + installed, "CONFORMANCE_IMAGE=" + r.image()}
	s.args = []string{"python/tests"}
	return r.pytest(ctx, s, environments[s.name], servers)
}

// pytest runs the suite of a folder. A suite without a test fails.
func (r *runner) pytest(ctx context.Context, s suite, environment string, servers *servers) error {
	tests := filepath.Join(folder, s.name)
	// The folders have the names of the packages under test. With the import mode importlib and a
	// separate root directory they don't shadow these packages.
	args := append([]string{
		"-m", "pytest", "-v", "-ra", "--tb=short", "--durations=5", "--import-mode=importlib", "-p", "no:cacheprovider",
		"-c", os.DevNull, "--rootdir", tests, tests,
	}, s.args...)
	if r.match != "" {
		args = append(args, "-k", r.match)
	}
	variables := slices.Concat(r.isolation(), servers.environment(), s.variables,
		[]string{"CONFORMANCE_PROGRAMS=" + r.programs()})
	return r.stream(ctx, variables, filepath.Join(environment, "bin", "python"), args...)
}

// isolation returns the variables that hide the user's caches, proxies and the network from the
// clients.
func (r *runner) isolation() []string {
	return []string{
		"XDG_CACHE_HOME=" + filepath.Join(r.work, "cache"), "HF_HOME=" + filepath.Join(r.work, "huggingface"),
		"HF_HUB_OFFLINE=1", "PYTHONDONTWRITEBYTECODE=1",
		"NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost",
	}
}

// litellm runs a suite with LiteLLM's proxy. Such a suite is a Go test.
func (r *runner) litellm(ctx context.Context, s suite, environments map[string]string, _ *servers) error {
	return r.stream(ctx, []string{"VENV=" + environments[s.name], "NO_PROXY=127.0.0.1,localhost",
		"no_proxy=127.0.0.1,localhost"}, filepath.Join(folder, "litellm.sh"), s.name)
}

// stream runs a command and shows its output at once.
func (r *runner) stream(ctx context.Context, variables []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), variables...), r.stdout, r.stdout
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 10*time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	return nil
}
