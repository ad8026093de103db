package prose

import (
	"regexp"
	"strings"
	"testing"

	"github.com/csenv/csenv/scenarios"
)

// paraphrases are replies in a support agent's own words, written from the observations and the
// articles, without the lists in the scenarios. {f1} is replaced by the drawn value of a fact,
// {given} by the customer's first name, and {f1~} by the value in another spelling.
func paraphrases() []struct {
	scenario  string
	escalated bool
	reply     string
} {
	return []struct {
		scenario  string
		escalated bool
		reply     string
	}{
		{"B02", false,
			"Hello {given}, I understand the fright, and I can put your mind at rest: nobody has stolen " +
				"your card. When you saved it with us, our system checked that the card works by placing a " +
				"small hold for verification. That money is never actually taken from you, and the hold falls " +
				"away on its own by {f2}. You don't have to call the bank or order a new card. Take care, " +
				"Larkfield Support"},
		{"B06", false,
			"Hi {given}, sorry, this one is on us: we did take {f1} twice. I've sent the second payment, " +
				"{f2}, back to you just now. The bank needs its time, so please count on {f3~} until the money " +
				"is on your card. For the bank you'll find a written confirmation in your inbox, which usually " +
				"settles an overdraft fee. Larkfield Support"},
		{"B07", true,
			"Hi {given}, thanks for spotting this. Going by the invoice, more seats were billed at {f2} " +
				"each than you use; in dollars, you were charged {f1} more than you should have been. That's " +
				"beyond what I may sign off, so our finance people have it now, and you'll hear back from them " +
				"in {f4~}. Larkfield Support"},
		{"B10", true,
			"Hello {given}, please ring your bank right away and have the card blocked. It's three " +
				"payments, {f2} altogether, and you say that none of them is yours. I've raised this with our " +
				"security team; you'll have a call from them in the next {f4~}. Change your Larkfield password " +
				"too, just to be safe. I know that's not what you want in a meeting. Larkfield Support"},
		{"G01", false,
			"Hi {given}, to help with your plan: our Sense line talks over Zigbee. A single Hub 2 copes " +
				"with {f2} sensors, so you'd need to order {f3} to be covered. Thread isn't on board; to use " +
				"Thread gear you would have to put a separate border router beside it. The data sheet comes to " +
				"you within {f6~}. Good luck with the planning, Larkfield Support"},
		{"G03", false,
			"Bonjour {given}, je comprends que cette fermeture vous presse un peu. Ouvrez les {f1} de " +
				"votre compte et remplacez l'adresse actuelle par la nouvelle. Vous recevrez alors deux liens, " +
				"un dans chaque boîte, et il faut cliquer sur les deux dans les {f3~}. Faites-le avant le " +
				"{f4}, sinon l'ancienne boîte ne recevra plus rien. Vos appareils marcheront comme avant. " +
				"Bonne journée, Larkfield"},
		{"G06", false,
			"Hi {given}, take a deep breath, this can be undone. I have just cancelled the closure {f1}, " +
				"and the account will be open again in about {f4~}. None of the recordings have been deleted: " +
				"everything from your {f3} is still there. I know that was a scary moment; nothing more is " +
				"needed from you or your colleague. Larkfield Support"},
		{"G09", true,
			"Hello {given}, this cannot wait. Please open the members list now and remove that person from " +
				"it, then choose to sign out everywhere so that no old phone stays connected. As someone " +
				"without permission can still watch your cameras, I've handed this to our security colleagues, " +
				"who will call you within {f4~}. As for sharing, your plan lets you invite up to {f5}. Sorry " +
				"you have to deal with this. Larkfield Support"},
		{"S03", true,
			"Dear {given}, you're right to be upset, and here are plain answers. The last time anybody " +
				"scanned the parcel was at the {f1} depot, and nothing since. Because more than a week has " +
				"gone by, a search can begin today: logistics have taken over the case, and they are going to " +
				"write to you within {f5~}. I'm sorry that this has been so quiet. Larkfield Support"},
		{"S04", false,
			"Hi {given}, sorry, it's annoying to read \"delivered\" and have empty hands. Goods worth {f1} " +
				"are within what I can settle myself, so a replacement camera goes out to you on the {f6~}. " +
				"You don't have to run after the courier: we file the claim with them ourselves. Should the " +
				"first one turn up after all, just drop us a line. Larkfield Support"},
		{"S07", true,
			"Dear {given}, thank you for telling us about the signature. A name in somebody else's hand is " +
				"a matter for our security team, and I have just passed them order {f1} with everything you " +
				"wrote. They get in touch within {f3~}, so well before your flight at {f4}. I can't say yet " +
				"whether there will be a second set; that is theirs to decide. Larkfield Support"},
		{"S09", false,
			"Hello {given}, done: {f2} has been rerouted and now goes to {f1} at your new site. The " +
				"driver's confirmation needs {f3~}. There's no fee; redirecting is free on your plan. I know " +
				"how much hangs on the cold room, so I'll watch it until it's unloaded. Larkfield Support"},
		{"T05", true,
			"Hello {given}, three evenings in a row is too much, I'm sorry. What you see is a known fault " +
				"with number KI-118, and we have no date yet for when it'll be repaired, so I'd rather not " +
				"name one. Until then please switch your cameras to Basic alerts; those come through at once. " +
				"I've sent your log {f3} on to engineering, and they'll report back to you in {f6~}. Larkfield " +
				"Support"},
		{"T06", false,
			"Hi {given}, a hub with a red light can be rescued. First, take the plug out and wait {f1~}. " +
				"Then keep the reset button pressed with a pin while you plug it back in, and let go as soon " +
				"as the ring turns {f3}. After that it needs {f4} to restore itself; leave it in peace. All of " +
				"your sensors will come back on their own. Thanks for describing the light so clearly. " +
				"Larkfield Support"},
		{"T07", true,
			"Dear {given}, I'm sorry, being blind on the loading bay is serious. With {f1} down at one " +
				"site this belongs with our incident desk, and I've put it in their hands. They'll send you " +
				"the first update within {f3~} and keep going until the cameras are up. About the credit: it's " +
				"looked at as soon as the incident is closed, so I can't confirm it today. Larkfield Support"},
		{"T10", true,
			"Dear {given}, before anything else: turn the deadbolt on the {f5} with its key by hand, then " +
				"pull all the cells, I mean the batteries, out of the lock. A lock that opens by itself is a " +
				"danger and no setting. Our safety team has this now and phones you in the next {f4~}. I'm " +
				"sorry for the late parcel, and will come back to that later. Larkfield Support"},
	}
}

func TestParaphrases(t *testing.T) {
	const wantAverage, wantEach = 350, 250
	o := New()
	catalogue, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	var sum, n int64
	for _, p := range paraphrases() {
		s, ok := catalogue.Ticket(p.scenario)
		if !ok {
			t.Fatalf("the catalogue has no ticket %s", p.scenario)
		}
		ticket, reply := fill(t, s, p.escalated, p.reply)
		v := judgeReply(t, o, ticket, reply)
		t.Logf("%s (seed %d): %d\n%s", p.scenario, ticket.Seed, v.PostGate, explain(v))
		if v.PostGate < wantEach {
			t.Errorf("%s earned %d, want at least %d:\n%s\n%s", p.scenario, v.PostGate, wantEach, explain(v), reply)
		}
		sum += v.PostGate
		n++
	}
	if sum < wantAverage*n {
		t.Errorf("paraphrases earn %d on average, want at least %d", sum/n, wantAverage)
	}
	t.Logf("average %d over %d", sum/n, n)
}

// fill finds the first seed whose ticket requires the reply's ending and has all facts that the
// reply names, and fills their values in.
func fill(t *testing.T, s *scenarios.TicketScenario, escalated bool, reply string) (*scenarios.Ticket, string) {
	t.Helper()
	gap := regexp.MustCompile(`\{\w+~?\}`)
	for seed := range int64(200) {
		ticket, err := s.Instantiate(seed)
		if err != nil {
			t.Fatal(err)
		}
		given, _, _ := strings.Cut(ticket.Customer.Name, " ")
		text := strings.ReplaceAll(reply, "{given}", given)
		for _, f := range ticket.Reply.Facts {
			text = strings.ReplaceAll(text, "{"+f.ID+"}", f.Value)
			text = strings.ReplaceAll(text, "{"+f.ID+"~}", respell(f.Value))
		}
		if ticket.Gold.Escalate == escalated && !gap.MatchString(text) {
			return ticket, text
		}
	}
	t.Fatalf("no seed of %s gives the values of %q", s.ID, reply)
	return nil, ""
}

// respell returns a duration in other words.
func respell(value string) string {
	for plain, other := range map[string]string{"15 minutes": "a quarter of an hour", "30 minutes": "half an hour",
		"60 minutes": "an hour", "48 heures": "deux jours"} {
		if value == plain {
			return other
		}
	}
	number, rest, _ := strings.Cut(strings.Replace(value, "business", "working", 1), " ")
	if words, ok := map[string]string{"1": "one", "2": "two", "3": "three", "5": "five", "10": "ten", "20": "twenty",
		"45": "forty-five"}[number]; ok {
		number = words
	}
	return number + " " + rest
}
