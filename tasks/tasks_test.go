package tasks

import "testing"

func TestPassScore(t *testing.T) {
	cases := map[string]struct {
		tasks []string
		want  int64
	}{
		"no task":                      {nil, 800_000},
		"labels":                       {[]string{"ticket-classify"}, 800_000},
		"one ticket":                   {[]string{"ticket-resolve"}, 750_000},
		"queues":                       {[]string{"queue-management"}, 850_000},
		"workflows":                    {[]string{"order-inquiry", "refund", "payment-exception"}, 750_000},
		"different ones":               {[]string{"ticket-resolve", "queue-management"}, 800_000},
		"different ones, three tasks":  {[]string{"refund", "payment-exception", "queue-management"}, 800_000},
		"a task of another env server": {[]string{"echo"}, 800_000},
		"a known and an unknown one":   {[]string{"ticket-resolve", "echo"}, 800_000},
	}
	for name, tc := range cases {
		if got := PassScore(tc.tasks...); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
