package documents

import "testing"

// FuzzTaskQuery checks that every body is decoded to a valid query or to faults.
func FuzzTaskQuery(f *testing.F) {
	for _, seed := range []string{`{"split":"train","index":1}`, `{"split":null}`, `{"start":1e400}`,
		`{"split":"x","stop":"7"}`} {
		f.Add([]byte(seed), "task")
		f.Add([]byte(seed), "task_range")
	}
	f.Fuzz(func(t *testing.T, body []byte, name string) {
		q, items := parseTaskQuery(body, name, taskRoutes[name].members)
		if len(items) == 0 && (q.split == "" || name == "task" && q.index == nil) {
			t.Errorf("%q of %s is %+v", body, name, q)
		}
	})
}
