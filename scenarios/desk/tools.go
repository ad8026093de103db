package desk

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// The names of tools that the policy and agents use.
const (
	CheckOrder     = "check_order_status"
	CheckPayment   = "check_payment"
	CheckShipment  = "check_shipment"
	LookUpCustomer = "look_up_customer"
	LookUpPolicy   = "look_up_policy"
	AskCustomer    = "ask_customer"
	Tell           = "tell"
	RespondUser    = "respond_user"

	Refunding    = "initiate_refund"
	Crediting    = "issue_credit"
	Replacing    = "replace_item"
	Cancelling   = "cancel_order"
	Readdressing = "change_address"
	Escalating   = "escalate_issue"
)

// TaskKinds is a set of kinds of tasks, as bits.
type TaskKinds uint8

// The kinds of tasks: written workflows, generated cases, and those with conversations.
const (
	Written TaskKinds = 1 << iota
	Cases
	Talks
)

// Tool is a tool of the desk. What agents are offered, what scenario files may name, and what the
// pages of docs say are derived from these rows.
type Tool struct {
	Name string
	// About says what the tool does.
	About string
	// Args are the names of the arguments in the action's form, with a ? if the tool works without.
	Args []string
	// Tasks are those that have the tool, 0 for all.
	Tasks TaskKinds
	// Minutes is the tool's duration on the simulated clock.
	Minutes int

	// Show is set if the tool reads. It returns what is shown, or why nothing is.
	Show func(*Desk, Args) (Shown, string)

	// Check and Apply are set if the tool changes the records. Check returns why the change can't
	// be made at all, "" if it can. Apply makes it, says what was done, and returns the new record,
	// nil if there is none.
	Check func(*Records, *Effect) string
	Apply func(*Records, *Effect) (done string, record any)
	// After and Topics are the look-ups and the topics of the policy on which the change depends in
	// every generated case, whatever is right.
	After, Topics []string
	// NextStep is what a customer may be told of the change, a value of the fact next_step, and
	// AtOnce means that it is done on the same day.
	NextStep string
	AtOnce   bool
}

// Tools are all tools of the desk, in the order in which agents are offered them. Nothing changes
// them.
var Tools = []Tool{
	{Name: CheckOrder, About: "looks an order up.", Args: []string{"order_id"}, Minutes: 1, Show: showOrder},
	{Name: CheckPayment, About: "looks payments up, by the order or by the payment.",
		Args: []string{"order_id", "payment_id?"}, Minutes: 1, Show: showPayments},
	{Name: Refunding, About: "sends money back; payment_id is needed where there are several payments.",
		Args: []string{"order_id", "amount", "payment_id?"}, Minutes: 3,
		Check: (*Records).checkRefund, Apply: (*Records).applyRefund, NextStep: "refunded", AtOnce: true,
		After: []string{LookUpCustomer, CheckPayment}, Topics: []string{"money", "authority"}},
	{Name: Escalating, About: "hands the issue to a team; order_id and reason may help that team.",
		Args: []string{"team", "order_id?", "reason?"}, Minutes: 2,
		Check: (*Records).checkEscalate, Apply: (*Records).applyEscalate, NextStep: "handed_over",
		After: []string{LookUpCustomer}, Topics: []string{"authority"}},
	{Name: CheckShipment, About: "looks the parcels of an order up.",
		Args: []string{"order_id"}, Tasks: Cases | Talks, Minutes: 1, Show: showShipments},
	{Name: LookUpCustomer, About: "looks the customer up: level, region, subscriptions, what was given before.",
		Args: []string{"order_id?"}, Tasks: Cases | Talks, Minutes: 1, Show: showCustomer},
	{Name: LookUpPolicy, About: "reads a topic of the policy.",
		Args: []string{"topic"}, Tasks: Cases | Talks, Minutes: 1, Show: showPolicy},
	{Name: AskCustomer, About: "asks the customer a question.", Args: []string{"message"}, Tasks: Cases, Minutes: 4},
	{Name: Replacing, About: "sends an item again.", Args: []string{"order_id", "sku"}, Tasks: Cases | Talks,
		Minutes: 1, Check: (*Records).checkReplace, Apply: (*Records).applyReplace, NextStep: "replaced",
		After: []string{LookUpCustomer, CheckOrder, CheckPayment}, Topics: []string{"damage", "authority"}},
	{Name: Crediting, About: "gives store credit; order_id is needed if it is for an order.",
		Args: []string{"order_id?", "amount"}, Tasks: Cases | Talks, Minutes: 1,
		Check: (*Records).checkCredit, Apply: (*Records).applyCredit, NextStep: "credited", AtOnce: true,
		After: []string{LookUpCustomer}, Topics: []string{"authority"}},
	{Name: Cancelling, About: "cancels an order.", Args: []string{"order_id"}, Tasks: Cases | Talks, Minutes: 1,
		Check: (*Records).checkCancel, Apply: (*Records).applyCancel, NextStep: "cancelled", AtOnce: true,
		After: []string{LookUpCustomer, CheckOrder, CheckPayment}, Topics: []string{"money"}},
	{Name: Readdressing, About: "changes the address of an order.", Args: []string{"order_id", "address"},
		Tasks: Cases | Talks, Minutes: 1,
		Check: (*Records).checkReaddress, Apply: (*Records).applyReaddress, NextStep: "changed", AtOnce: true,
		After: []string{LookUpCustomer, CheckOrder}, Topics: []string{"delivery"}},
	{Name: RespondUser, About: "writes to the customer and ends the episode, unless it asks for what the customer " +
		"alone knows and the task has neither ask_customer nor tell.", Args: []string{"message", "facts"}, Minutes: 4},
	// respond_user comes first, because it explains the facts in every task.
	{Name: Tell, About: "writes to the customer, who answers, without ending the episode; confirms are changes to " +
		"be made with the other arguments.", Args: []string{"message", "facts?", "asks?", "offers?", "confirms?",
		"order_id?", "payment_id?", "sku?", "amount?", "address?"}, Tasks: Talks, Minutes: 4},
}

var toolsByName = func() map[string]*Tool {
	byName := make(map[string]*Tool, len(Tools))
	for i := range Tools {
		byName[Tools[i].Name] = &Tools[i]
	}
	return byName
}()

// FindTool returns the tool of a name, nil if there is none.
func FindTool(name string) *Tool { return toolsByName[name] }

// In reports whether one of the kinds of tasks has the tool.
func (t *Tool) In(tasks TaskKinds) bool { return t.Tasks == 0 || t.Tasks&tasks != 0 }

// ListToolNames lists the names of the tools that one of the kinds of tasks has.
func ListToolNames(tasks TaskKinds) []string {
	var names []string
	for i := range Tools {
		if Tools[i].In(tasks) {
			names = append(names, Tools[i].Name)
		}
	}
	return names
}

// IndexTool returns the place of a tool among Tools, -1 if there is none of that name.
func IndexTool(name string) int {
	for i := range Tools {
		if Tools[i].Name == name {
			return i
		}
	}
	return -1
}

// Call returns the effect of a call with the arguments that its tool takes.
func (e Effect) Call() Effect {
	tool := FindTool(e.Tool)
	for _, arg := range e.texts() {
		if !tool.takes(arg.name) {
			*arg.text = ""
		}
	}
	if !tool.takes("amount") {
		e.Amount = 0
	}
	return e
}

func (t *Tool) takes(name string) bool {
	return slices.ContainsFunc(t.Args, func(arg string) bool { return strings.TrimSuffix(arg, "?") == name })
}

// ListChanges lists the names of the tools that change the records.
func ListChanges() (names []string) {
	for i := range Tools {
		if Tools[i].Apply != nil {
			names = append(names, Tools[i].Name)
		}
	}
	return names
}

// IsChange reports whether a tool of that name changes the records.
func IsChange(name string) bool {
	t := FindTool(name)
	return t != nil && t.Apply != nil
}

// Args are the arguments of a call by name: texts, and the amount in cents as an int64.
type Args map[string]any

// Text returns an argument, "" if it isn't given.
func (a Args) Text(name string) string {
	text, _ := a[name].(string)
	return text
}

// Shown is what a tool that reads shows.
type Shown struct {
	// Found are records, nil if Policy is set: a section of the policy.
	Found  any
	Policy string
	// OrderStatus and PaymentStatus are the statuses among the records, "" if there is none.
	OrderStatus, PaymentStatus string
}

// Effect is a call of a tool that changes the records. Zero fields aren't arguments.
type Effect struct {
	Tool      string
	OrderID   string
	PaymentID string
	SKU       string
	Amount    Cents
	Address   string
	Team      string
	Reason    string `json:",omitempty"` // for the team
}

// effectText is an argument of an effect.
type effectText struct {
	name string
	text *string
}

func (e *Effect) texts() []effectText {
	return []effectText{{"order_id", &e.OrderID}, {"payment_id", &e.PaymentID}, {"sku", &e.SKU},
		{"address", &e.Address}, {"team", &e.Team}, {"reason", &e.Reason}}
}

// NewEffect returns the effect of a call.
func NewEffect(tool string, args Args) Effect {
	amount, _ := args["amount"].(int64)
	e := Effect{Tool: tool, Amount: Cents(amount)}
	for _, arg := range e.texts() {
		*arg.text = args.Text(arg.name)
	}
	return e
}

// Args yields the effect's arguments by name.
func (e *Effect) Args() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, arg := range e.texts() {
			if *arg.text != "" && !yield(arg.name, *arg.text) {
				return
			}
		}
		if e.Amount != 0 {
			yield("amount", int64(e.Amount))
		}
	}
}

// IsWithin reports whether another effect is the same call, as far as this one has arguments.
func (e Effect) IsWithin(other Effect) bool {
	given := maps.Collect(other.Args())
	for name, value := range e.Args() {
		if given[name] != value {
			return false
		}
	}
	return e.Tool == other.Tool
}

// Fault makes the Call-th call (from 1) of a tool fail with Error, like a backend that is
// briefly unavailable.
type Fault struct {
	Action string
	Call   int
	Error  string
}
