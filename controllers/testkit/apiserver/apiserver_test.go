package apiserver

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// outcome records how a test would end.
type outcome struct {
	testing.TB
	text string
}

func (o *outcome) Helper() {}

func (o *outcome) Fatal(args ...any) { o.end("failed: ", args) }

func (o *outcome) Skip(args ...any) { o.end("skipped: ", args) }

func (o *outcome) end(what string, args []any) {
	o.text = what + fmt.Sprint(args...)
	runtime.Goexit()
}

func TestRequire(t *testing.T) {
	for name, tt := range map[string]struct{ assets, required, want string }{
		"binaries":    {assets: "/somewhere", required: "1"},
		"no binaries": {want: "skipped: this test needs etcd and kube-apiserver: run `make test`"},
		"no binaries, make test": {required: "1",
			want: "failed: this test needs etcd and kube-apiserver: run `make test`"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(assetsVariable, tt.assets)
			t.Setenv(requiredVariable, tt.required)
			o, done := &outcome{TB: t}, make(chan struct{})
			go func() {
				defer close(done)
				RequireBinaries(o)
			}()
			<-done
			if !strings.HasPrefix(o.text, tt.want) || tt.want == "" && o.text != "" {
				t.Errorf("the test %q, want %q", o.text, tt.want)
			}
		})
	}
}
