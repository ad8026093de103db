// Command abuse attacks an env server as a pool runs it, two of them or the pages, each a new
// process, while other clients use it. It checks that nothing of it harms them: the server survives
// within the memory of its pod, the others' requests are answered and stay fast, and everything
// that the attack occupied is returned. It prints a table with a verdict for each attack, and exits
// with 1 if one succeeded.
//
// It uses the loopback interface only: clients play from 127.0.0.1 and attack from 127.0.0.2. An
// attack is a process of its own with the lowest priority, because it would run on other machines.
//
// Times are compared with those in peace, just before and after the attack. An attack in which the
// clients were slow is repeated, because other work of the machine slows them too, and succeeds
// only if they always were. While that work takes most of the processors, times aren't compared.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/csenv/csenv/envserver/testkit/process"
)

const (
	// podMemory is the memory limit of a pool's server (controllers/environment), and pagesMemory
	// the pages' limit (charts/csenv). GOMEMLIMIT of a server is nine tenths of it.
	podMemory, pagesMemory = 1 << 30, 384 << 20
	// maxSessions and clientShare are the defaults of a pool.
	maxSessions = 2000
	clientShare = 90
	// peaceTime is how long the clients play before an attack and after it, and attackTime bounds
	// an attack.
	peaceTime  = 4 * time.Second
	attackTime = time.Minute
	// returnTime bounds the time until everything is returned.
	returnTime = time.Minute
	// slowdown bounds the clients' 99th percentile against peace. Below noise it isn't compared,
	// because the attackers use the same processors and the same kernel.
	slowdown = 5
	noise    = 50 * time.Millisecond
	// rounds is how often an attack is tried in which the clients are slow.
	rounds = 3
	// maxBusy is the share of the processors in peace above which times aren't compared.
	maxBusy = 0.6
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
	folder, err := os.MkdirTemp("", "csenv-abuse-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := buildPrograms(ctx, folder); err != nil {
		return err
	}
	rows := table.NewWriter()
	rows.SetOutputMirror(os.Stdout)
	rows.AppendHeader(table.Row{"attack", "what came of it", "peak RSS", "p99 in peace", "p99 in the attack",
		"returned after", "verdict"})
	rows.SetColumnConfigs([]table.ColumnConfig{{Number: 2, WidthMax: 50}, {Number: 7, WidthMax: 60}})
	defer rows.Render()
	failed := 0
	for i, a := range attacks {
		if ctx.Err() != nil || !strings.Contains(a.name, *only) {
			continue
		}
		r, err := tryRounds(ctx, folder, i)
		verdict := r.verdict()
		if err != nil {
			failed++
			verdict = "FAILED: " + shorten(err)
		}
		const precise, rough = 100 * time.Microsecond, 100 * time.Millisecond
		fmt.Printf("%s: %s\n", a.name, verdict)
		rows.AppendRow(table.Row{a.name, r.result, fmt.Sprintf("%d MiB", r.peak>>20),
			r.peace.Round(precise), r.war.Round(precise), r.returned.Round(rough), verdict})
	}
	if failed > 0 {
		return fmt.Errorf("%d attacks succeeded", failed)
	}
	return ctx.Err()
}

// shorten tells every error once, and of many clients' the first three.
func shorten(err error) string {
	lines := strings.Split(err.Error(), "\n")
	slices.Sort(lines)
	counted := len(lines)
	if lines = slices.Compact(lines); len(lines) > 3 {
		lines = append(lines[:3], fmt.Sprintf("and others, %d in all", counted))
	}
	return strings.Join(lines, "; ")
}

// tryRounds repeats an attack while the clients are slow, each time against new servers.
func tryRounds(ctx context.Context, folder string, number int) (r row, err error) {
	for range rounds {
		target, startErr := attacks[number].target().start(ctx, folder)
		if startErr != nil {
			return r, startErr
		}
		r, err = target.suffer(ctx, number)
		if err == nil {
			err = target.StopCleanly(returnTime)
		}
		target.end()
		if err != nil || !r.isSlow() || r.busy > maxBusy {
			return r, err
		}
	}
	return r, fmt.Errorf("the other clients' 99th percentile was %d times that in peace in each of %d tries",
		r.war/r.peace, rounds)
}

// suffer lets clients play in peace, during the attack, and in peace again.
func (s *server) suffer(ctx context.Context, number int) (r row, err error) {
	if _, err = s.playFor(ctx, time.Second); err != nil { // until all is warm
		return r, fmt.Errorf("before the attack: %w", err)
	}
	before, err := s.occupied(ctx)
	if err != nil {
		return r, err
	}
	watched, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { r.peak = watchMemory(watched, s.PID()) })
	working := workOfMachine()
	r.peace, err = s.playFor(ctx, peaceTime)
	r.busy = workOfMachine().since(working)
	if err != nil {
		err = fmt.Errorf("in peace: %w", err)
	}
	attacked, end := context.WithTimeout(ctx, attackTime)
	defer end()
	var failed, beside error
	war, lost := s.play(ctx, func(context.Context) {
		var attacking sync.WaitGroup
		attacking.Go(func() { r.result, failed = s.attack(attacked, number) })
		if f := attacks[number].beside; f != nil {
			beside = f(attacked, s)
		}
		attacking.Wait()
	})
	r.war = war
	began := time.Now()
	late := s.awaitReturned(ctx, before)
	r.returned = time.Since(began)
	after, afterErr := s.playFor(ctx, peaceTime)
	r.peace = max(r.peace, after)
	stop()
	watching.Wait()
	err = errors.Join(err, lost, failed, beside, late, afterErr)
	if limit := s.kind.memory(); r.peak > limit {
		err = errors.Join(err, fmt.Errorf("the server used %d MiB, and its pod has %d", r.peak>>20, limit>>20))
	}
	return r, err
}

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
	at := &process.Server{Address: os.Args[3], Ops: os.Args[4]}
	result, err := attacks[number].run(ctx, &server{kind: attacks[number].target(), Server: at, front: at.Address})
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
