package workflow

import "testing"

func TestAsks(t *testing.T) {
	order := []string{"order", "bought"}
	tests := map[string]struct {
		message string
		about   []string
		want    bool
	}{
		"question":                     {"Which order is it?", order, true},
		"request":                      {"Please send me the number of your order.", order, true},
		"let me know":                  {"Hello!\nLet me know what you bought and I will look.", order, true},
		"question of something else":   {"How are you today? Your order is fine.", order, false},
		"statement":                    {"I have looked up your order.", order, false},
		"any question":                 {"How are you?", nil, true},
		"any question, and no request": {"Please be patient.", nil, false},
		"part of a word":               {"Do you live near the border?", order, false},
		"ending":                       {"Which of your orders?", order, true},
		"nothing":                      {"", nil, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := asks(tc.message, tc.about); got != tc.want {
				t.Errorf("asks(%q, %q) = %t, want %t", tc.message, tc.about, got, tc.want)
			}
		})
	}
}
