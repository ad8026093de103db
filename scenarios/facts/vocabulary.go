// Package facts defines what an agent states beside a message to the customer: a list of typed
// facts, each a name of one closed vocabulary and a value. The vocabulary is the same in every
// task, scenario and language, so it tells nothing about what is right.
package facts

// Fact is a statement of an agent, or what a scenario requires: {"what": "refund_amount", "value":
// "$59.40"}.
type Fact struct {
	// What is a name of the vocabulary.
	What string `json:"what"`
	// Value is the value in any usual form of the name's type.
	Value string `json:"value"`
}

// MaxStated is the maximum number of facts beside a message.
const MaxStated = 8

// MaxValue is the maximum length of a value, in characters.
const MaxValue = 200

// Type is the type of the values of a name.
type Type string

// The types.
const (
	// Amount is a sum of money.
	Amount Type = "amount"
	// When is a day, a clock time, or a duration from now.
	When Type = "when"
	// Duration is a length of time.
	Duration Type = "duration"
	// Number is a number, with a unit where it has one.
	Number Type = "number"
	// Enum is one of the name's Values.
	Enum Type = "enum"
	// ID is a number or code.
	ID Type = "id"
	// Text is a name in words.
	Text Type = "text"
)

// Group is a set of names that an honest agent confuses: a right value counts under any of them.
type Group string

// The groups. A name without a group stands alone.
const (
	GroupNone Group = ""
	GroupWhen Group = "when"
	GroupSize Group = "size"
	GroupSum  Group = "sum"
)

// Name is an entry of the vocabulary.
type Name struct {
	What string
	Type Type
	// Meaning is one sentence for agents, without a full stop.
	Meaning string
	Example string
	Group   Group
	// Values are the values of an Enum, nil for other types.
	Values []string
	// Decides is set if the name says what is done or decided: such a fact is wrong where the
	// scenario doesn't require it.
	Decides bool
}

// Find returns the entry of a name.
func Find(what string) (Name, bool) {
	for _, n := range Vocabulary {
		if n.What == what {
			return n, true
		}
	}
	return Name{}, false
}

// Whats are the names' texts, in the same order.
var Whats = func() []string {
	whats := make([]string, len(Vocabulary))
	for i, n := range Vocabulary {
		whats[i] = n.What
	}
	return whats
}()

// Vocabulary are all names in the order in which they are documented. Nothing changes them.
var Vocabulary = []Name{
	{What: "refund_amount", Type: Amount, Example: "$59.40", Decides: true,
		Meaning: "money that goes back the way it was paid, now or already under way"},
	{What: "credit_amount", Type: Amount, Example: "12.00", Decides: true, Meaning: "store credit given now"},
	{What: "given_before", Type: Amount, Example: "$8.00",
		Meaning: "what was refunded or credited earlier for the same order"},
	{What: "charged_amount", Type: Amount, Example: "$42.00", Group: GroupSum,
		Meaning: "what was or will be taken from the customer, duties and a later price included"},
	{What: "held_amount", Type: Amount, Example: "$1.00", Meaning: "what is only reserved and not taken"},
	{What: "amount_in_question", Type: Amount, Example: "$430.00", Group: GroupSum,
		Meaning: "the sum about which a team decides; nothing is decided yet"},
	{What: "price", Type: Amount, Example: "0", Group: GroupSum,
		Meaning: "what something costs: a price or a fee, 0 if it is free"},
	{What: "answer_by", Type: When, Example: "3 business days", Group: GroupWhen, Decides: true,
		Meaning: "by when the customer hears from the team"},
	{What: "arrives_by", Type: When, Example: "2026-09-29", Group: GroupWhen, Decides: true,
		Meaning: "by when money, goods, a mail or a code reach the customer"},
	{What: "done_by", Type: When, Example: "40 minutes", Group: GroupWhen, Decides: true,
		Meaning: "by when what we do takes effect, or when it did"},
	{What: "ships_by", Type: When, Example: "Sept 30", Group: GroupWhen, Decides: true,
		Meaning: "by when it leaves the warehouse"},
	{What: "last_day", Type: When, Example: "18:00", Group: GroupWhen,
		Meaning: "the last day or time of a return, report, warranty, subscription, hold, payment or pick-up"},
	{What: "starts_on", Type: When, Example: "May 4", Group: GroupWhen,
		Meaning: "from when something applies, counts, begins or may be done"},
	{What: "delivered_on", Type: When, Example: "2026-05-01", Group: GroupWhen,
		Meaning: "when a parcel was delivered"},
	{What: "period", Type: Duration, Example: "36 hours", Group: GroupSize,
		Meaning: "for how long something holds, is kept or stays valid"},
	{What: "threshold", Type: Number, Example: "6 hours", Group: GroupSize,
		Meaning: "the number or amount from which a rule applies"},
	{What: "step_time", Type: Duration, Example: "20 seconds", Group: GroupSize,
		Meaning: "how long to press, hold or unplug"},
	{What: "count", Type: Number, Example: "3", Group: GroupSize, Meaning: "how many are meant or needed"},
	{What: "limit", Type: Number, Example: "18 kg", Group: GroupSize, Meaning: "the most that is possible"},
	{What: "property", Type: Text, Example: "2.4 GHz", Meaning: "a value of a device or service"},
	{What: "team", Type: Enum, Example: "finance", Values: teams, Decides: true, Meaning: "the team that takes over"},
	{What: "next_step", Type: Enum, Example: "replaced", Decides: true, Meaning: "what we did", Values: []string{
		"sent", "explained", "refunded", "credited", "replaced", "cancelled", "changed", "refused", "handed_over"}},
	{What: "reason", Type: Enum, Example: "packed", Meaning: "what decides a refusal, or explains it",
		Values: reasons},
	{What: "advice", Type: Enum, Example: "stop_using", Meaning: "what the customer should, or shouldn't, do now",
		Values: []string{"block_card", "change_password", "sign_out_everywhere", "remove_person", "stop_using",
			"take_outdoors", "do_not_post", "remove_batteries", "use_key", "pair_again", "leave_untouched", "keep_both",
			"do_not_order_yet", "wait_for_written_permission", "show_confirmation_to_bank", "claim_warranty",
			"nothing"}},
	{What: "needed", Type: Enum, Example: "invoice", Meaning: "what the customer must send or show", Values: []string{
		"photo_id", "serial_number", "code_by_email", "invoice", "signed_letter", "title_of_work"}},
	{What: "data_kept", Type: Enum, Example: "yes", Values: []string{"yes", "no"}, Decides: true,
		Meaning: "whether recordings, sensors and settings stay"},
	{What: "reference", Type: ID, Example: "LT710284787",
		Meaning: "a number or code that the customer needs: parcel, payment, refund, coupon, gate code, phone line"},
	{What: "carrier", Type: Text, Example: "Tandem Couriers", Meaning: "who delivers"},
	{What: "place", Type: Text, Example: "dock 11", Meaning: "an address, dock, city or shop"},
	{What: "control", Type: Text, Example: "Preferred place", Meaning: "the menu, switch or button to use"},
}

// teams are all teams of the catalogue.
var teams = []string{"disputes", "documentation", "emergency_disclosure", "engineering", "finance", "incident",
	"legal", "logistics", "privacy", "safety", "security", "trade", "trust"}

// reasons are all reasons of the catalogue.
var reasons = []string{"final_sale", "custom_made", "opened", "misuse", "weather", "customs", "packed",
	"standard_delivery", "reserved_only", "chargeback", "damaged_box", "unreadable_label",
	"missing_battery_label", "weight_mismatch", "torn_customs_bag"}
