package cases

import (
	"github.com/csenv/csenv/scenarios/source"
)

// Metadata is common to the files of a pack.
type Metadata struct {
	ID      string `yaml:"id"`
	Version int    `yaml:"version"`
	Canary  string `yaml:"canary"`
	Pos     source.Position
}

// worldFile contains what all families share.
type worldFile struct {
	APIVersion string   `yaml:"apiVersion" enum:"csenv/v1"`
	Kind       string   `yaml:"kind" enum:"CaseWorld"`
	Metadata   Metadata `yaml:"metadata"`
	Products   struct {
		Standard  []string `yaml:"standard"`
		FinalSale []string `yaml:"final_sale"`
		Custom    []string `yaml:"custom"`
		Hygiene   []string `yaml:"hygiene"`
	} `yaml:"products"`
	Addresses []string `yaml:"addresses"`
	Carriers  []string `yaml:"carriers"`
	Plans     struct {
		Basic string `yaml:"basic"`
		Plus  string `yaml:"plus"`
		Max   string `yaml:"max"`
	} `yaml:"plans"`
	Voices struct {
		Train []string `yaml:"train"`
		Test  []string `yaml:"test"`
	} `yaml:"voices"`
	// Answers are what customers answer to questions, by topic.
	Answers source.Ordered[answerFile] `yaml:"answers"`
}

type answerFile struct {
	// About are words of which a question about the topic contains one.
	About []string `yaml:"about"`
	Says  wordings `yaml:"says"`
	Pos   source.Position
}

// wordings are texts by language and voice.
type wordings = source.Ordered[source.Ordered[source.Raw]]

// familyFile is a kind of case.
type familyFile struct {
	APIVersion string                   `yaml:"apiVersion" enum:"csenv/v1"`
	Kind       string                   `yaml:"kind" enum:"CaseFamily"`
	Metadata   Metadata                 `yaml:"metadata"`
	HeldOut    bool                     `yaml:"held_out,optional"` // no case of it is in the train split
	Request    requestFile              `yaml:"request"`
	World      source.Ordered[specFile] `yaml:"world,optional"`
	Modifiers  []string                 `yaml:"modifiers"`
	Ticket     *ticketFile              `yaml:"ticket,optional"`
	Says       wordings                 `yaml:"says"`
}

// ticketFile is what a family needs for its cases to be shown as tickets.
type ticketFile struct {
	Category string `yaml:"category" enum:"billing|shipping|technical|general"`
	// Alternates are other categories that an expert accepts, with their credit in thousandths.
	Alternates source.Ordered[int64] `yaml:"alternates,optional"`
	// Answers are the topics of the questions that the policy may require. A ticket contains the
	// answers whether it does or not, because they would reveal what the policy says.
	Answers []string `yaml:"answers,optional"`
	// Situations are modifiers for tickets alone.
	Situations []string `yaml:"situations"`
	// Subjects are by language.
	Subjects source.Ordered[subjectsFile] `yaml:"subjects"`
}

// subjectsFile are the subjects that go with the voices for training, and with the others.
type subjectsFile struct {
	Train []source.Raw `yaml:"train"`
	Test  []source.Raw `yaml:"test"`
}

// modifierFile changes the cases of families that name it.
type modifierFile struct {
	APIVersion string                   `yaml:"apiVersion" enum:"csenv/v1"`
	Kind       string                   `yaml:"kind" enum:"CaseModifier"`
	Metadata   Metadata                 `yaml:"metadata"`
	World      source.Ordered[specFile] `yaml:"world,optional"`
	Request    requestFile              `yaml:"request,optional"`
	// Also is a second request.
	Also *requestFile `yaml:"also,optional"`
	// Hides means that the customer leaves the order's id out.
	Hides bool `yaml:"hides_order,optional"`
	// Situation means that only tickets can have the modifier. It changes what the customer's
	// situation is, and nothing that the desk decides.
	Situation *situationFile             `yaml:"situation,optional"`
	Faults    []faultFile                `yaml:"tool_faults,optional"`
	Answers   source.Ordered[answerFile] `yaml:"answers,optional"`
	Says      wordings                   `yaml:"says,optional"`
}

// situationFile is what the message says about the situation: see triage.Situation.
type situationFile struct {
	BusinessStop bool          `yaml:"business_stop,optional"`
	Irreversible bool          `yaml:"irreversible,optional"`
	CoreUnusable bool          `yaml:"core_unusable,optional"`
	MoneyHarm    bool          `yaml:"money_harm,optional"`
	Deadline     *deadlineFile `yaml:"deadline,optional"`
}

// deadlineFile is a time after now: some hours later, or an hour of the day some days later.
type deadlineFile struct {
	Hours int64 `yaml:"hours,optional"`
	Days  int64 `yaml:"days,optional"`
	Hour  int64 `yaml:"hour,optional"`
}

type requestFile struct {
	Kind    string `yaml:"kind,optional"`
	Reason  string `yaml:"reason,optional"`
	Wish    string `yaml:"wish,optional" enum:"refund|replacement"`
	Value   string `yaml:"value,optional" enum:"address|plan"`
	Opened  bool   `yaml:"opened,optional"`
	Misused bool   `yaml:"misused,optional"`
	Pos     source.Position
}

type faultFile struct {
	Tool  string `yaml:"tool"`
	Error string `yaml:"error"`
	Pos   source.Position
}

// goods are the compiled texts that all families share.
type goods struct {
	Addresses []string
	Carriers  []string
	Plans     map[string]string
	kinds     map[string][]string
}

func (g *goods) products(kind string) []string { return g.kinds[kind] }

// listFile names the cases of a pack: "easy public-train opened plus" under the id of a case is its
// difficulty, its split and its modifiers. The id begins with the family's id and a hyphen.
type listFile struct {
	APIVersion string                 `yaml:"apiVersion" enum:"csenv/v1"`
	Kind       string                 `yaml:"kind" enum:"CaseList"`
	Metadata   Metadata               `yaml:"metadata"`
	Language   string                 `yaml:"language,optional" enum:"en|de|es|fr"`
	As         string                 `yaml:"as,optional" enum:"tickets"` // by default workflows
	Cases      source.Ordered[string] `yaml:"cases"`
}

// repliesFile contains the words of right replies in one language, and the words by which a reply
// is understood.
type repliesFile struct {
	APIVersion string     `yaml:"apiVersion" enum:"csenv/v1"`
	Kind       string     `yaml:"kind" enum:"CaseReplies"`
	Metadata   Metadata   `yaml:"metadata"`
	Greeting   source.Raw `yaml:"greeting"`
	Closing    source.Raw `yaml:"closing"`
	// Worried follows the greeting in the reply to a ticket with a worried voice.
	Worried string `yaml:"worried,optional"`
	// Unasked is the customer\'s answer to a question that the case doesn\'t require.
	Unasked  string                   `yaml:"unasked"`
	Outcomes source.Ordered[string]   `yaml:"outcomes"`
	Slots    source.Ordered[slotFile] `yaml:"slots"`
	Words    source.Ordered[[]string] `yaml:"words,optional"` // of values that are texts; the first is used
}

// slotFile is a value that a reply states.
type slotFile struct {
	// Says is a sentence with the value in place of %s.
	Says    string   `yaml:"says"`
	Context []string `yaml:"context"`
	// Unit follows a number of days.
	Unit string `yaml:"unit,optional"`
}
