package serve

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/csenv/csenv/envserver/modelflags"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
)

func noEnvironment(string) (string, bool) { return "", false }

func TestFlagsAndVariables(t *testing.T) {
	for name, c := range map[string]struct {
		args      []string
		variables map[string]string
		change    func(*options)
	}{
		"defaults": {nil, nil, func(*options) {}},
		"empty variables": {nil, map[string]string{"MAX_CONCURRENT_ENVS": "", "SESSION_IDLE_TIMEOUT_S": ""},
			func(*options) {}},
		"MAX_CONCURRENT_ENVS": {nil, map[string]string{"MAX_CONCURRENT_ENVS": "64"},
			func(o *options) { o.maxSessions = 64 }},
		"SESSION_IDLE_TIMEOUT_S": {nil, map[string]string{"SESSION_IDLE_TIMEOUT_S": "1.5"},
			func(o *options) { o.sessionIdleTimeout = 1500 * time.Millisecond }},
		"OPENENV_MODE": {nil, map[string]string{"OPENENV_MODE": "PRODUCTION"},
			func(o *options) { o.mode = "production" }},
		"POD_IP": {[]string{"--peers", "pool.svc:8000", "--ledger-key", "k"},
			map[string]string{"POD_IP": "2001:db8::7"},
			func(o *options) {
				o.peers, o.ledgerKey, o.advertise = []string{"pool.svc:8000"}, "k", "[2001:db8::7]:8000"
			}},
		"POD_IP without peers": {nil, map[string]string{"POD_IP": "192.0.2.7"}, func(*options) {}},
		"an address wins": {[]string{"--peers", "pool.svc:8000", "--ledger-key", "k", "--advertise", "192.0.2.8:80"},
			map[string]string{"POD_IP": "192.0.2.7"},
			func(o *options) { o.peers, o.ledgerKey, o.advertise = []string{"pool.svc:8000"}, "k", "192.0.2.8:80" }},
		"a mode wins": {[]string{"--mode", "Simulation"}, map[string]string{"OPENENV_MODE": "production"},
			func(*options) {}},
		"a flag wins": {[]string{"--max-sessions", "5", "--session-idle-timeout", "0"},
			map[string]string{"MAX_CONCURRENT_ENVS": "64", "SESSION_IDLE_TIMEOUT_S": "9"},
			func(o *options) { o.maxSessions, o.sessionIdleTimeout = 5, 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := parse(t, c.args, c.variables), defaultOptions()
			c.change(want)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(options{}), cmpopts.IgnoreFields(options{}, "listening"),
				cmpopts.IgnoreUnexported(modelflags.Judge{}, modelflags.Customer{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func parse(t *testing.T, args []string, variables map[string]string) *options {
	t.Helper()
	o := defaultOptions()
	cmd := NewCommand(Setting{LookupEnv: noEnvironment, Logs: io.Discard})
	cmd.ResetFlags()
	o.addFlags(cmd.Flags())
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	lookup := func(name string) (string, bool) { text, ok := variables[name]; return text, ok }
	if err := o.fromEnvironment(cmd.Flags(), lookup); err != nil {
		t.Fatal(err)
	}
	if err := o.validate(); err != nil {
		t.Fatal(err)
	}
	return o
}

// For every kind of fault, the server exits with an error that names the flag, the variable or the
// file.
func TestStartUpErrors(t *testing.T) {
	broken := t.TempDir()
	if err := os.Mkdir(filepath.Join(broken, "tickets"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, "tickets", "X01.yaml"), []byte("schema: nonsense\nprioritiy: high\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, c := range map[string]struct {
		args     []string
		variable string
		want     []string
	}{
		"unknown flag": {[]string{"--envirnment", "ticket"}, "", []string{"--envirnment"}},
		"an argument":  {[]string{"ticket"}, "", []string{"ticket"}},
		"environment": {[]string{"--environment", "chess"}, "",
			[]string{"--environment", "chess", "workflow"}},
		"several at once": {[]string{"--max-sessions", "0", "--reward-mode", "sparse", "--log-level", "loud",
			"--drain-timeout", "-1s"}, "", []string{"--max-sessions", "--reward-mode", "--log-level",
			"--drain-timeout"}},
		"MAX_CONCURRENT_ENVS":    {nil, "MAX_CONCURRENT_ENVS", []string{"MAX_CONCURRENT_ENVS", "many", "64"}},
		"SESSION_IDLE_TIMEOUT_S": {nil, "SESSION_IDLE_TIMEOUT_S", []string{"SESSION_IDLE_TIMEOUT_S", "many", "600"}},
		"OPENENV_MODE":           {nil, "OPENENV_MODE", []string{"OPENENV_MODE", "many", "production"}},
		"peers": {[]string{"--peers", "pool", "--advertise", "me:8000"}, "",
			[]string{"--peers is \"pool\"", "--advertise", "POD_IP", "--ledger-key"}},
		"sessions": {[]string{"--mode", "test", "--session-grace", "-1s"}, "", []string{"--mode", "--session-grace"}},
		"no token": {[]string{"--token-file", os.DevNull}, "", []string{"--token-file", "one per line"}},
		"no such folder": {[]string{"--scenarios", filepath.Join(broken, "none")}, "",
			[]string{"--scenarios", "none"}},
		"a bad catalogue": {[]string{"--scenarios", broken}, "", []string{"tickets/X01.yaml:"}},
		"no such pack": {[]string{"--pack", filepath.Join(broken, "none")}, "",
			[]string{"--pack", "opening the pack", "none", "name a folder with scenario files"}},
		"a bad pack": {[]string{"--pack", broken}, "", []string{"--pack", broken + "/tickets/X01.yaml:"}},
		"unknown split": {[]string{"--split", "public-dev,test"}, "",
			[]string{"--split", "test", "public-train, public-dev, public-test, private"}},
		"empty split": {[]string{"--environment", "workflow", "--split", "private"}, "",
			[]string{"leave no scenario of the workflow environment", "--split private"}},
		"no such key": {[]string{"--ledger-key", filepath.Join(broken, "none.pem")}, "",
			[]string{"ledger key", "none.pem"}},
		"a port in use": {[]string{"--addr", taken.Addr().String()}, "",
			[]string{"--addr", taken.Addr().String()}},
		"an ops port in use": {[]string{"--addr", "127.0.0.1:0", "--ops-addr", taken.Addr().String()}, "",
			[]string{"--ops-addr"}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := NewCommand(Setting{LookupEnv: func(name string) (string, bool) { return "many", name == c.variable },
				Logs: io.Discard})
			cmd.SetArgs(c.args)
			err := cmd.ExecuteContext(t.Context())
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q doesn't name %q", err, want)
				}
			}
		})
	}
}

func TestCatalogueOfPacksAndSplits(t *testing.T) {
	const pack = "../../../scenarios/testdata/pack"
	for name, c := range map[string]struct {
		args    []string
		with    []string
		without []string
	}{
		"built in":           {nil, []string{"B07", "S03"}, []string{"T1"}},
		"an additional pack": {[]string{"--pack", pack}, []string{"B07", "T1"}, nil},
		"a folder instead":   {[]string{"--scenarios", pack}, []string{"T1"}, []string{"B07"}},
		"a split":            {[]string{"--split", "public-test"}, []string{"B07", "S03"}, []string{"B06"}},
		"two splits": {[]string{"--split", "public-test", "--split", "public-train"}, []string{"B07", "B06"},
			nil},
		"a split of the pack": {[]string{"--pack", pack, "--split", "public-train"}, []string{"T1", "B06"},
			[]string{"B07"}},
	} {
		t.Run(name, func(t *testing.T) {
			catalog, err := loadCatalog(parse(t, c.args, nil))
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range c.with {
				if _, ok := catalog.Ticket(id); !ok {
					t.Errorf("%s is missing", id)
				}
			}
			for _, id := range c.without {
				if _, ok := catalog.Ticket(id); ok {
					t.Errorf("%s exists", id)
				}
			}
		})
	}
}

// running is a server that runs inside the test.
type running struct {
	protocol, ops string
	logs          *bytes.Buffer
	stop          context.CancelFunc
	ended         chan error
}

func start(t *testing.T, change func(*options)) *running {
	t.Helper()
	o := defaultOptions()
	o.addr, o.opsAddr = "127.0.0.1:0", "127.0.0.1:0"
	change(o)
	r := &running{logs: &bytes.Buffer{}, ended: make(chan error, 1)}
	ready := make(chan struct{})
	o.listening = func(protocol, ops net.Addr) {
		r.protocol, r.ops = "http://"+protocol.String(), "http://"+ops.String()
		close(ready)
	}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	t.Cleanup(stop)
	go func() { r.ended <- runServer(ctx, o, Setting{Version: "dev", Logs: r.logs}) }()
	select {
	case <-ready:
	case err := <-r.ended:
		t.Fatal(err)
	case <-time.After(2 * time.Minute): // loading the catalogue is slow while other tests run
		t.Fatal("the server doesn't start")
	}
	return r
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestServesBothEnvironments(t *testing.T) {
	for _, environment := range []string{"ticket", "workflow"} {
		t.Run(environment, func(t *testing.T) {
			r := start(t, func(o *options) { o.environment, o.maxSessions = environment, 3 })
			if status, body := get(t, r.protocol+"/health"); status != 200 || body != `{"status":"healthy"}` {
				t.Errorf("/health: %d %s", status, body)
			}
			_, body := get(t, r.ops+"/stats")
			var report score.Report
			if err := json.Unmarshal([]byte(body), &report); err != nil || report.Environment != environment ||
				report.Sessions.Capacity != 3 || len(report.Tasks) == 0 {
				t.Errorf("/stats: %v %s", err, body)
			}
			c, err := client.Dial(t.Context(), r.protocol, client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			first, err := c.Reset(t.Context(), map[string]any{"seed": 3})
			if err != nil {
				t.Fatal(err)
			}
			again, err := c.Reset(t.Context(), map[string]any{"seed": 3})
			if err != nil || cmp.Diff(first, again) != "" {
				t.Errorf("different results of one seed: %v %s", err, cmp.Diff(first, again))
			}
		})
	}
}

// When its context ends, the server lets the running session finish, refuses new ones with a
// reason, and returns no error.
func TestDrains(t *testing.T) {
	r := start(t, func(*options) {})
	c, err := client.Dial(t.Context(), r.protocol, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Reset(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	r.stop()
	for status := 0; status != http.StatusServiceUnavailable; {
		status, _ = get(t, r.ops+"/readyz")
	}
	if _, err := c.Reset(t.Context(), nil); err != nil {
		t.Errorf("the running session: %v", err)
	}
	select {
	case err := <-r.ended:
		t.Fatalf("ended with a session running: %v", err)
	default:
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-r.ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	scanner := bufio.NewScanner(r.logs)
	for scanner.Scan() {
		if !json.Valid(scanner.Bytes()) {
			t.Errorf("a log line is not JSON: %s", scanner.Text())
		}
	}
}

func TestDrainTimeoutEndsTheServer(t *testing.T) {
	report := filepath.Join(t.TempDir(), "termination-log")
	r := start(t, func(o *options) { o.drainTimeout, o.terminationLog = time.Millisecond, report })
	c, err := client.Dial(t.Context(), r.protocol, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Reset(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	r.stop()
	if err := <-r.ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if !strings.Contains(r.logs.String(), "drain timed out") {
		t.Errorf("the log doesn't contain the reason why the session was closed:\n%s", r.logs)
	}
	got, err := os.ReadFile(report)
	if want := `{"sessions":1,"cut":1,"seconds":0}`; err != nil || string(got) != want {
		t.Errorf("left %s, %v, want %s", got, err, want)
	}
}

// Even after a drain timeout, port 9000 serves the last rollouts to their run before the server
// exits.
func TestServesRolloutsAfterTheDrainTimeout(t *testing.T) {
	r := start(t, func(o *options) { o.drainTimeout = time.Millisecond })
	c, err := client.Dial(t.Context(), r.protocol, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func(question score.CollectRequest) (segment score.Segment) {
		question.Tag, question.Run = "grpo-7", "uid"
		if status, body := get(t, r.ops+"/rollouts?"+question.Query().Encode()); status != http.StatusOK ||
			json.Unmarshal([]byte(body), &segment) != nil {
			t.Fatalf("%d %s", status, body)
		}
		return segment
	}
	if _, err := c.Reset(t.Context(), map[string]any{"task": "ticket-classify", "seed": 1,
		"run": "grpo-7"}); err != nil {
		t.Fatal(err)
	}
	ask(score.CollectRequest{})
	if last, err := c.Step(t.Context(), map[string]any{"action_type": "submit", "category": "billing",
		"priority": "low"}); err != nil || !last.Done {
		t.Fatalf("%+v, %v", last, err)
	}
	r.stop()
	for err == nil {
		_, err = c.State(t.Context())
	}
	var segment score.Segment
	for range 100 { // much longer than the server takes without rollouts
		segment = ask(score.CollectRequest{})
	}
	ask(score.CollectRequest{Instance: segment.Instance, Ack: segment.Number})
	if err := <-r.ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

// writeKey writes a ledger key to a file.
func writeKey(t *testing.T) (string, ed25519.PrivateKey) {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, poolkey.Encode(key), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, key
}

// The ledger of a served episode is signed with the key of the file.
func TestLedgerKeyFile(t *testing.T) {
	path, key := writeKey(t)
	secrets, err := poolkey.DeriveSecrets(key)
	if err != nil {
		t.Fatal(err)
	}
	own := client.Options{Credential: secrets.OldRunCredential("uid")}
	r := start(t, func(o *options) { o.ledgerKey = path })
	c, err := client.Dial(t.Context(), r.protocol, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Reset(t.Context(), map[string]any{"run": "uid", "shard": 0, "episode": 0,
		"run_credential": own.Credential}); err != nil {
		t.Fatal(err)
	}
	signed, err := client.FetchLedger(t.Context(), r.protocol, "uid", 0, own)
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := signed.Verify(key.Public().(ed25519.PublicKey))
	if err != nil || ledger.Opened != 1 {
		t.Errorf("ledger %+v, %v", ledger, err)
	}
}

// A pool can play a pack that lists generated cases alone.
func TestCasesAloneAreWorkflows(t *testing.T) {
	pack := t.TempDir()
	for name, text := range map[string]string{
		"pack.yaml": "name: acme\nversion: 1\nsalt: \"2Q2WUM7JBXU2GGWCTK26EPHJUZ\"\n",
		"acme.yaml": "apiVersion: csenv/v1\nkind: CaseList\n" +
			"metadata: {id: acme, version: 1, canary: \"csenv-canary b58332d6-97fd-4556-99b9-ff8e9c0de6e1\"}\n" +
			"language: en\ncases:\n  acme-return-01: medium private\n",
	} {
		if err := os.WriteFile(filepath.Join(pack, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kind, _, err := newKind(&options{environment: "workflow", packs: []string{pack}, splits: []string{"private"},
		judge: modelflags.DefaultJudge()})
	if err != nil {
		t.Fatal(err)
	}
	if tasks := kind.Tasks(); len(tasks) != 1 || tasks[0].Name != "case-medium" || len(tasks[0].Scenarios) != 1 {
		t.Errorf("the tasks are %+v", tasks)
	}
}

func TestHeadersAreBounded(t *testing.T) {
	r := start(t, func(*options) {})
	for size, want := range map[int]int{8 << 10: 200, 32 << 10: 431} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.protocol+"/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X", strings.Repeat("x", size))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("a header of %d bytes: %d, want %d", size, response.StatusCode, want)
		}
	}
}
