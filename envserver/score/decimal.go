package score

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Decimal writes micro-points as a decimal string with four places, rounded half away from zero:
// 731250 is "0.7313".
func Decimal(micro int64) string {
	const unit = One / 10_000
	sign := ""
	magnitude := uint64(micro) //nolint:gosec // two's complement, so that the least integer has a magnitude too
	if micro < 0 {
		magnitude = -magnitude
	}
	tenThousandths := (magnitude + unit/2) / unit
	if micro < 0 && tenThousandths > 0 {
		sign = "-"
	}
	return fmt.Sprintf("%s%d.%04d", sign, tenThousandths/10_000, tenThousandths%10_000)
}

var decimalPattern = regexp.MustCompile(`^(0|1)(\.[0-9]{1,6})?$`)

// ParseDecimal reads a score from 0 to 1 with at most six places ("0.8") as micro-points.
func ParseDecimal(text string) (int64, error) {
	if !decimalPattern.MatchString(text) {
		return 0, fmt.Errorf("score %q: write a decimal from 0 to 1 with at most six places, such as 0.8", text)
	}
	whole, places, _ := strings.Cut(text, ".")
	micro, err := strconv.ParseInt(whole+places+strings.Repeat("0", 6-len(places)), 10, 64)
	if err != nil || micro > One {
		return 0, fmt.Errorf("score %q is above 1", text)
	}
	return micro, nil
}
