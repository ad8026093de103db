package cases

import (
	"go.yaml.in/yaml/v3"

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
		Standard  byLanguage `yaml:"standard"`
		FinalSale byLanguage `yaml:"final_sale"`
		Custom    byLanguage `yaml:"custom"`
		Hygiene   byLanguage `yaml:"hygiene"`
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
	About byLanguage `yaml:"about"`
	Says  wordings   `yaml:"says"`
	Pos   source.Position
}

// byLanguage are lists of texts by language.
type byLanguage = source.Ordered[[]string]

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
	// Later means that the customer adds the second request, with its text, to the answer to the
	// question for the order's id.
	Later bool `yaml:"later,optional"`
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
	kinds     map[string]map[string][]string // products by kind and language
}

func (g *goods) products(kind, language string) []string { return g.kinds[kind][language] }

// listFile names the cases of a pack: "easy public-train opened plus" under the id of a case is its
// difficulty, its split and its modifiers. The id begins with the family's id and a hyphen.
type listFile struct {
	APIVersion string   `yaml:"apiVersion" enum:"csenv/v1"`
	Kind       string   `yaml:"kind" enum:"CaseList"`
	Metadata   Metadata `yaml:"metadata"`
	Language   string   `yaml:"language,optional" enum:"en|de|es|fr"`
	As         string   `yaml:"as,optional" enum:"tickets"` // by default workflows
	// Voices is train if all splits have the voices for training.
	Voices string `yaml:"voices,optional" enum:"train"`
	// Talk means that the customers of the cases talk. Such a list names lists instead of cases,
	// whose cases it has under ids that begin with its own.
	Talk  bool                   `yaml:"talk,optional"`
	Like  []string               `yaml:"like,optional"`
	Cases source.Ordered[string] `yaml:"cases,optional"`
}

// talkFile contains what customers say in conversations in one language, whose code is its id: the
// lines of talk.LineNames and those of ownLines, each by voice.
type talkFile struct {
	APIVersion string                                     `yaml:"apiVersion" enum:"csenv/v1"`
	Kind       string                                     `yaml:"kind" enum:"CaseTalk"`
	Metadata   Metadata                                   `yaml:"metadata"`
	Lines      source.Ordered[source.Ordered[source.Raw]] `yaml:"lines"`
}

// repliesFile contains the words of right replies in one language, and the words by which a reply
// is understood.
type repliesFile struct {
	APIVersion string   `yaml:"apiVersion" enum:"csenv/v1"`
	Kind       string   `yaml:"kind" enum:"CaseReplies"`
	Metadata   Metadata `yaml:"metadata"`
	// Greeting and Closing are one wording or a list of them, of which a seed draws one.
	Greeting oneOrMore `yaml:"greeting"`
	Closing  oneOrMore `yaml:"closing"`
	// Worried follows the greeting in the reply to a ticket with a worried voice.
	Worried string `yaml:"worried,optional"`
	// Unasked is the customer's answer to a question that the case doesn't require.
	Unasked string `yaml:"unasked"`
	// Second begins the part about a second request.
	Second string `yaml:"second,optional"`
	// AskWords are the beginnings of words that make a sentence without a question mark a question.
	AskWords []string `yaml:"ask_words"`
	// Outcomes are sentences. The values that {{slot}} doesn't place in them follow in the
	// sentences of their slots.
	Outcomes source.Ordered[source.Raw] `yaml:"outcomes"`
	Slots    source.Ordered[slotFile]   `yaml:"slots"`
	Words    source.Ordered[source.Raw] `yaml:"words,optional"` // of values that are texts
}

// slotFile is a value that a reply states.
type slotFile struct {
	// Says is a sentence with the value in place of %s.
	Says string `yaml:"says"`
	// Unit follows a number of days.
	Unit string `yaml:"unit,optional"`
}

// oneOrMore is a text or a list of texts.
type oneOrMore []source.Raw

// FromYAML implements source.Unmarshaler.
func (o *oneOrMore) FromYAML(d *source.Decoder, n *yaml.Node) {
	items := n.Content
	if n.Kind != yaml.SequenceNode {
		items = []*yaml.Node{n}
	}
	for _, item := range items {
		var text source.Raw
		d.Value(item, source.ValueOf(&text), "")
		*o = append(*o, text)
	}
}
