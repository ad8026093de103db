package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csenv/csenv/cmd/envserver/serve"
)

// TestMain makes this program a client or an env server if it is called as one.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != clientCommand && os.Args[1] != "--addr" {
		m.Run()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	var err error
	if os.Args[1] == clientCommand {
		err = servePlayer(ctx)
	} else {
		err = serve.NewCommand(serve.Setting{Use: "envserver", Version: "test", LookupEnv: os.LookupEnv,
			Logs: os.Stderr}).ExecuteContext(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// tiny is a trial of seconds.
func tiny(t *testing.T) (options, *strings.Builder) {
	t.Helper()
	if testing.Short() {
		t.Skip("sessions move within the servers' time to drain, which a busy machine exceeds")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	})
	var out strings.Builder
	o := defaultOptions()
	o.servers, o.sessions, o.files, o.binary = 2, []int{60}, 2000, self
	o.pause, o.drain, o.settle = 100*time.Millisecond, 6*time.Second, time.Second
	o.stdout, o.progress = &out, io.Discard
	return o, &out
}

// A whole trial: every session is opened, moves when its server is replaced, and neither a session
// nor an episode is lost.
func TestTrial(t *testing.T) {
	o, out := tiny(t)
	if err := runScenarios(t.Context(), o, []string{"update"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`sessions open \| 60 of 60,`, `refused while they were opened \| 0 \|`,
		`servers replaced \| 2 in`, `sessions that moved to another server \| [1-9]\d+ \|`,
		`sessions lost \| 0; 60 were open at the end`, `episodes lost \| \d\d+, [1-9]\d+, 0 \|`,
		`failures by cause \| 0 \|`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// A drain shorter than the rest of an episode cuts sessions, which are counted.
func TestLostEpisodesAreCounted(t *testing.T) {
	o, _ := tiny(t)
	o.pause, o.drain = 2*time.Second, time.Second
	u := &update{options: o}
	var err error
	if u.pool, err = startPool(t.Context(), o, o.binary, 2); err != nil {
		t.Fatal(err)
	}
	defer u.pool.kill()
	if u.clients, err = startClients(t.Context(), o, 2); err != nil {
		t.Fatal(err)
	}
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return u.open(ctx, 2, 60) }, u.settleDown, u.replaceAll,
	} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r, err := u.clients.call("Stop", withoutArgument)
	if err != nil || r.LostEpisodes == 0 || r.LostSessions != 0 || len(r.Causes) == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := u.clients.close(); err != nil {
		t.Error(err)
	}
}

func TestCheckHost(t *testing.T) {
	o := defaultOptions()
	for name, c := range map[string]struct {
		perProcess, sessions int
		files                uint64
		ports                int
		memory               uint64
		want                 string
	}{
		"enough":  {17_000, 102_000, 20_000, 28_000, 32 << 30, ""},
		"files":   {17_000, 102_000, 1024, 28_000, 32 << 30, "a process may have 1024"},
		"ports":   {17_000, 102_000, 20_000, 5000, 32 << 30, "its address has 5000"},
		"memory":  {17_000, 102_000, 20_000, 28_000, 1 << 30, "1024 MiB are available"},
		"servers": {51_000, 102_000, 20_000, 60_000, 32 << 30, "51000 sessions of one process need 51500"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkHost(o, c.perProcess, c.sessions, 6, c.files, c.ports, c.memory)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		scenario string
		change   func(*options)
		want     string
	}{
		"an unknown scenario":         {"upgrade", func(*options) {}, "The scenarios are:"},
		"no servers":                  {"update", func(o *options) { o.servers = 0 }, "at least one server"},
		"fewer sessions than servers": {"update", func(o *options) { o.sessions = []int{5} }, "at least one server"},
		"a short drain":               {"update", func(o *options) { o.drain = time.Minute }, "shorter than two"},
	} {
		t.Run(name, func(t *testing.T) {
			o := defaultOptions()
			c.change(&o)
			if err := runScenarios(t.Context(), o, []string{c.scenario}); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// The sessions of the clients add up, and no two clients have a seed or an address in common.
func TestOrders(t *testing.T) {
	sessions, sources := 0, map[string]bool{}
	for i := range 6 {
		o := defaultOptions().orderFor(i, 6, 100, nil)
		sessions += o.Sessions
		sources[o.Source] = true
	}
	if sessions != 100 || len(sources) != 6 {
		t.Errorf("%d sessions from %v", sessions, sources)
	}
}
