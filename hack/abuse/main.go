// Command abuse attacks one env server as a pool runs it, while other clients play, and checks that
// nothing of it harms them: the server survives within the memory of its pod, the others' requests
// stay fast, and everything that the attack occupied is returned.
//
// It uses the loopback interface only: clients play from 127.0.0.1 and attack from 127.0.0.2. An
// attack is a process of its own with the lowest priority, because it would run on other machines.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/csenv/csenv/envserver/testkit/process"
)

const (
	// podMemory is the memory limit of a pool's server (controllers/environment). Its pod sets
	// GOMEMLIMIT to nine tenths of it.
	podMemory = 1 << 30
	// maxSessions and clientShare are the defaults of a pool.
	maxSessions = 2000
	clientShare = 90
	// peaceTime is how long the clients play before an attack, and attackTime bounds an attack.
	peaceTime  = 5 * time.Second
	attackTime = time.Minute
	// returnTime bounds the time until everything is returned.
	returnTime = time.Minute
	// slowdown bounds the clients' 99th percentile against peace. Below noise it isn't compared,
	// because the attackers use the same processors and the same kernel.
	slowdown = 5
	noise    = 150 * time.Millisecond
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	run := measureAttacks
	if len(os.Args) == len([]string{"abuse", attackCommand, "number", "address", "ops"}) {
		run = runAttack
	}
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "abuse:", err)
		os.Exit(1)
	}
}

func measureAttacks(ctx context.Context) error {
	only := flag.String("only", "", "run the attacks with this text in their name")
	flag.Parse()
	rows := table.NewWriter()
	rows.SetOutputMirror(os.Stdout)
	rows.AppendHeader(table.Row{"attack", "what came of it", "peak RSS", "p99 in peace", "p99 in the attack",
		"returned after"})
	defer rows.Render()
	var failures []error
	for _, on := range []*kind{tickets, workflows} {
		failures = append(failures, measureKind(ctx, on, *only, rows))
	}
	return errors.Join(failures...)
}

// measureKind attacks a server of a kind.
func measureKind(ctx context.Context, on *kind, only string, rows table.Writer) error {
	var numbers []int
	for i, a := range attacks {
		if cmp.Or(a.on, tickets) == on && strings.Contains(a.name, only) {
			numbers = append(numbers, i)
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	target, err := startServer(ctx, on)
	if err != nil {
		return err
	}
	defer target.Kill()
	if target.busy = isBusy(); target.busy {
		fmt.Println("This machine is busy with other work: times are not compared.")
	}
	var failures []error
	for _, i := range numbers {
		r, err := target.suffer(ctx, i)
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", attacks[i].name, err))
		}
		const precise, rough = 100 * time.Microsecond, 100 * time.Millisecond
		rows.AppendRow(table.Row{attacks[i].name, r.result, fmt.Sprintf("%d MiB", r.peak>>20), r.peace.Round(precise),
			r.war.Round(precise), r.returned.Round(rough)})
		if !target.alive() {
			break
		}
	}
	if len(failures) == 0 {
		return target.StopCleanly(returnTime)
	}
	return errors.Join(failures...)
}

// suffer lets clients play in peace and then during the attack, and compares.
func (s *server) suffer(ctx context.Context, number int) (r row, err error) {
	before, err := s.occupied(ctx)
	if err != nil {
		return r, err
	}
	watched, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { r.peak = s.watch(watched) })
	if r.peace, err = s.play(ctx, func(ctx context.Context) { sleepContext(ctx, peaceTime) }); err != nil {
		err = fmt.Errorf("in peace: %w", err)
	}
	attacked, end := context.WithTimeout(ctx, attackTime)
	defer end()
	var failed error
	war, lost := s.play(ctx, func(context.Context) { r.result, failed = s.attack(attacked, number) })
	r.war = war
	began := time.Now()
	late := s.awaitReturned(ctx, before)
	r.returned = time.Since(began)
	stop()
	watching.Wait()
	err = errors.Join(err, lost, failed, late)
	if r.peak > podMemory {
		err = errors.Join(err, fmt.Errorf("the server used %d MiB, and its pod has %d", r.peak>>20, podMemory>>20))
	}
	if !s.busy && r.war > max(slowdown*r.peace, noise) {
		err = errors.Join(err, fmt.Errorf("the other clients' 99th percentile is %v, in peace %v", r.war, r.peace))
	}
	return r, err
}

func (s *server) alive() bool { return syscall.Kill(s.PID(), 0) == nil && s.resident() > 0 }

// attackCommand, the number of an attack and the server's two addresses make this program run the
// attack alone.
const attackCommand = "attack"

// runAttack runs an attack and prints what came of it.
func runAttack(ctx context.Context) error {
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19); err != nil {
		return fmt.Errorf("lowering the priority of the attack: %w", err)
	}
	number, err := strconv.Atoi(os.Args[2])
	if err != nil || number < 0 || number >= len(attacks) {
		return fmt.Errorf("no attack %q", os.Args[2])
	}
	on := cmp.Or(attacks[number].on, tickets)
	at := &process.Server{Address: os.Args[3], Ops: os.Args[4]}
	result, err := attacks[number].run(ctx, &server{kind: on, Server: at})
	fmt.Println(result)
	return err
}

// attack runs an attack in a process of its own.
func (s *server) attack(ctx context.Context, number int) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, self, attackCommand, strconv.Itoa(number), s.Address, s.Ops)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	var faults strings.Builder
	cmd.Stderr = &faults
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(faults.String()))
	}
	return strings.TrimSpace(string(out)), err
}

// server is the attacked process.
type server struct {
	*process.Server
	kind *kind
	// busy is true if other programs use the processors.
	busy bool
}

// isBusy reports whether more programs want to run than there are processors.
func isBusy() bool {
	text, err := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(text), " ")
	programs, parseErr := strconv.ParseFloat(load, 64)
	return err == nil && parseErr == nil && programs > float64(runtime.NumCPU())
}

func startServer(ctx context.Context, on *kind) (*server, error) {
	folder, err := os.MkdirTemp("", "csenv-abuse-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	binary := filepath.Join(folder, "envserver")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/envserver")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("building the server: %w", err)
	}
	cmd := exec.CommandContext(ctx, binary, append([]string{"--addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0",
		"--max-sessions", fmt.Sprint(maxSessions), "--client-share", fmt.Sprint(clientShare)}, on.args...)...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMEMLIMIT=%d", podMemory/10*9), "GOMAXPROCS=2")
	s, err := process.StartServer(ctx, "the server", cmd)
	return &server{Server: s, kind: on}, err
}
