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
	Says       wordings                 `yaml:"says"`
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
	Later   bool                       `yaml:"later,optional"`
	Faults  []faultFile                `yaml:"tool_faults,optional"`
	Answers source.Ordered[answerFile] `yaml:"answers,optional"`
	Says    wordings                   `yaml:"says,optional"`
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
	Cases      source.Ordered[string] `yaml:"cases"`
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
	// Unasked is the customer's answer to a question that the case doesn't require.
	Unasked string `yaml:"unasked"`
	// Second begins the part about a second request.
	Second string `yaml:"second,optional"`
	// Outcomes are sentences. The values that {{slot}} doesn't place in them follow in the sentences
	// of their slots.
	Outcomes source.Ordered[source.Raw] `yaml:"outcomes"`
	Slots    source.Ordered[slotFile]   `yaml:"slots"`
	Words    source.Ordered[[]string]   `yaml:"words,optional"` // of values that are texts; the first is used
}

// slotFile is a value that a reply states.
type slotFile struct {
	// Says is a sentence with the value in place of %s.
	Says    string   `yaml:"says"`
	Context []string `yaml:"context"`
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
