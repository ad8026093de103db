package scenarios

import "testing"

func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := loadOne(embedded); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInstantiateTicket(b *testing.B) {
	c, err := LoadPublic()
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range c.Tickets() {
		b.Run(s.ID, func(b *testing.B) {
			b.ReportAllocs()
			seed := int64(0)
			for b.Loop() {
				if _, err := s.Instantiate(seed); err != nil {
					b.Fatal(err)
				}
				seed++
			}
		})
	}
}

func BenchmarkInstantiateWorkflow(b *testing.B) {
	c, err := LoadPublic()
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range c.Workflows() {
		b.Run(s.ID, func(b *testing.B) {
			b.ReportAllocs()
			seed := int64(0)
			for b.Loop() {
				if _, err := s.Instantiate(seed); err != nil {
					b.Fatal(err)
				}
				seed++
			}
		})
	}
}

func BenchmarkInstantiateCaseTicket(b *testing.B) {
	var tickets []*TicketScenario
	for _, s := range trainingPack(b).Tickets() {
		if s.Generated() {
			tickets = append(tickets, s)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := tickets[i%len(tickets)].Instantiate(int64(i)); err != nil {
			b.Fatal(err)
		}
	}
}
