package documents

import "testing"

// A body of the Task API is read as a query within its types, or as faults.
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
