package scenarios

import "testing"

// TestCaseStepLimit compares the limit of steps with what every combination of a family with up to
// two modifiers requires, with scripted failures. It leaves half as many steps for everything else.
func TestCaseStepLimit(t *testing.T) {
	c, err := LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	seeds, combinations, most := int64(4), 0, 0
	if testing.Short() {
		seeds = 1
	}
	for composition := range c.CaseSet().All(2, "en") {
		combinations++
		for seed := range seeds {
			drawn, err := composition.Instantiate("", seed)
			if err != nil {
				t.Fatal(err)
			}
			d := drawn.Decision
			required := len(d.Reads) + len(d.Effects) + 1 + len(drawn.Faults)
			if most = max(most, required); required+required/2 > caseMaxSteps {
				t.Errorf("%s seed %d: %d steps of %d are required", composition.Key(), seed, required, caseMaxSteps)
			}
		}
	}
	for i, s := range c.Cases() {
		w, err := s.Instantiate(int64(i))
		if err != nil {
			t.Fatal(err)
		}
		required := len(w.Steps) + len(w.Faults)
		if most = max(most, required); w.MaxSteps != caseMaxSteps || required+required/2 > w.MaxSteps {
			t.Errorf("%s: the limit is %d, and %d steps are required", s.ID, w.MaxSteps, required)
		}
	}
	if combinations < 1000 {
		t.Errorf("%d combinations, want 1000", combinations)
	}
	t.Logf("%d combinations require at most %d steps", combinations, most)
}
