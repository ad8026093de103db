package scenarios

import "testing"

func TestPublic(t *testing.T) {
	c, err := Public()
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Tickets()) == 0 {
		t.Error("no tickets")
	}
}

func TestLint(t *testing.T) {
	c, err := Public()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range c.Lint() {
		t.Error(f)
	}
}
