package grader

import (
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// attackSuite is testdata/attacks.yaml.
type attackSuite struct {
	Bad     []badReply `yaml:"bad"`
	Attacks []attack   `yaml:"attacks"`
}

type badReply struct {
	ID       string `yaml:"id"`
	Language string `yaml:"language"`
	Text     string `yaml:"text"`
}

type attack struct {
	ID       string `yaml:"id"`
	Kind     string `yaml:"kind"`
	Language string `yaml:"language"`
	Text     string `yaml:"text"`
}

func loadAttacks(tb testing.TB) attackSuite {
	tb.Helper()
	data, err := os.ReadFile("testdata/attacks.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	var suite attackSuite
	if err := yaml.Unmarshal(data, &suite); err != nil {
		tb.Fatal(err)
	}
	return suite
}

// TestAttackSuite keeps the suite large and varied.
func TestAttackSuite(t *testing.T) {
	suite := loadAttacks(t)
	bad, attacks, kinds, spoken := map[string]int{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, b := range suite.Bad {
		bad[b.Language]++
	}
	for _, a := range suite.Attacks {
		if attacks[a.ID] || !strings.Contains(a.Text, "{reply}") {
			t.Errorf("attack %s is there twice or holds no {reply}", a.ID)
		}
		attacks[a.ID], kinds[a.Kind], spoken[a.Language] = true, true, true
	}
	for _, language := range languages() {
		if bad[language] != 5 || !spoken[language] {
			t.Errorf("%d bad replies in %s, and attacks in it: %v; want 5 and some", bad[language], language, spoken[language])
		}
	}
	if len(attacks) < 30 || len(kinds) < 8 {
		t.Errorf("%d attacks of %d kinds, want at least 30 of 8", len(attacks), len(kinds))
	}
}
