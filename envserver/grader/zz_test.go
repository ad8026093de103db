package grader
import "testing"
func TestZZ(t *testing.T){ j:=NewOffline()
 for _,s:=range []string{"Your bank has already started a chargeback over the $133.50 and holds the money for now.","The case is with our disputes team as of today; their answer reaches you by Thursday, September 3, 2026.","Please quote CB-8371775 when you talk to your bank.","Your bank has already opened a chargeback over $133.50.", "Your bank holds the money for now.","Your bank has started a chargeback and holds the money for now."} {
 for _,v:=range []string{"refund","credit","compensate","guarantee"} { t.Log(v, j.Commits(s,[]string{v},"en"), s) } } }
