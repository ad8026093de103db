package text

// WordClass is a set of classes of words, one bit each.
type WordClass uint64

// StemClass is a set of classes of stems, one bit each.
type StemClass uint16

// Phrases is a set of kinds of phrases, one bit each.
type Phrases uint32

// The classes of words.
const (
	Stopwords WordClass = 1 << iota
	Conjunctions
	Abbreviations // end in a full stop that ends no sentence
	Currencies
	Percents
	Ordinals
	Articles    // count as one
	Within      // come before a length of time
	Business    // make days business days
	NumberJoins // join the words of a number, or two statements
	Negators
	Idioms     // follow a negator without being negated: "no doubt"
	Untils     // begin text that a negator before them doesn't negate
	Losses     // harmless when negated
	Lasting    // precede the time for which something holds
	Narrow     // negate only the next words: "without"
	Conditions // begin a condition
	Times      // begin a time in the future
	Either     // begin an alternative
	Hedges     // leave the statement of their clause open
	Aux        // auxiliary verbs
	Skip       // may stand between an auxiliary and its verb
	FirstPerson
	SecondPerson
	Verbs       // common verbs besides the auxiliary ones
	Persons     // the writer, the customer, and what is theirs
	Enablers    // state that the company has decided
	Grounds     // begin phrases that give the reason for a promise
	Calendar    // state a day or a time
	Abilities   // state a person's ability
	Doing       // follow an ability that begins an offer
	Back        // state that something comes back
	Determiners // begin an object
	Imperatives // begin sentences that ask the customer for something
	Demands     // state what a customer asks for
	Relatives   // begin clauses that describe a noun
	Deciding    // state that a person has to find something out or to agree first
	Simple      // begin a condition that needs no decision
	Guesses     // make the text after them a guess
	Extra       // may stand between a number and its unit: "three more days"
	Questions   // begin a question
	// identify and the three bits above it mark the commonest words of each of Languages.
	identify
	_
	_
	_
)

// The classes of stems.
const (
	Courtesy StemClass = 1 << iota
	Givers
	Completions
	Money
	Returns
	Apology
	Empathy
	Thanks
	Teams
	Handover
	Takings   // take something away or back
	Reversals // undo a payment
)

// The kinds of phrases.
const (
	EmptyConditions Phrases = 1 << iota // conditions that can't fail: "if you like"
	OpenPhrases                         // leave the matter open
	Recognise                           // acknowledge the customer's situation
	Blame                               // blame the customer
	Beyond                              // begin the limit of what the writer can do
	Duties                              // state a duty
	Please                              // ask for something
	Senses                              // give a word of a remedy another sense: "credit card"
	Pronouns                            // refer to the sentence before
	Handed                              // hand something over
	Banks                               // name the customer's bank
	AsCredit                            // say that something is given as store credit
)

// maxGroups is the number of bits of a token's groups.
const maxGroups = 64

// wordKeys maps keys of a lexicon to classes of words.
func wordKeys() map[string]WordClass {
	return map[string]WordClass{
		"stopwords": Stopwords, "conjunctions": Conjunctions, "abbreviations": Abbreviations, "currencies": Currencies,
		"percents": Percents, "ordinals": Ordinals, "articles": Articles, "within": Within,
		"business": Business, "joins": NumberJoins, "negators": Negators, "idioms": Idioms,
		"untils": Untils, "losses": Losses, "lasting": Lasting, "narrow": Narrow,
		"conditions": Conditions, "times": Times, "either": Either, "hedges": Hedges,
		"aux": Aux, "skip": Skip, "first_person": FirstPerson, "second_person": SecondPerson,
		"persons": Persons, "verbs": Verbs,
		"enablers": Enablers, "grounds": Grounds, "calendar": Calendar, "abilities": Abilities,
		"doing": Doing, "back": Back, "determiners": Determiners, "imperatives": Imperatives,
		"demands": Demands, "relatives": Relatives, "deciding": Deciding,
		"simple": Simple, "guesses": Guesses, "extra": Extra, "questions": Questions,
	}
}

// stemKeys maps keys to classes of stems.
func stemKeys() map[string]StemClass {
	return map[string]StemClass{
		"courtesy": Courtesy, "givers": Givers, "completions": Completions,
		"money": Money, "returns": Returns, "apology": Apology, "empathy": Empathy,
		"thanks": Thanks, "teams": Teams, "handover": Handover, "takings": Takings,
		"reversals": Reversals,
	}
}

// phraseKeys maps keys to kinds of phrases.
func phraseKeys() map[string]Phrases {
	return map[string]Phrases{
		"empty_conditions": EmptyConditions, "open_phrases": OpenPhrases, "recognise": Recognise, "blame": Blame,
		"beyond": Beyond, "duties": Duties, "please": Please, "senses": Senses,
		"pronouns": Pronouns, "handed": Handed, "banks": Banks, "as_credit": AsCredit,
	}
}
