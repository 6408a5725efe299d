package main

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/IBM/sarama"

	. "mpbroker/tests/clients"
)

// member of a group: it reads, commits what it was given, and notes what it owned.
type member struct {
	group    sarama.ConsumerGroup
	topic    string
	guard    sync.Mutex
	owned    map[int32]bool
	values   []string
	assigned atomic.Int32
	stop     context.CancelFunc
	done     chan struct{}
}

func join(bootstrap, read, instance string) *member {
	all := settings()
	all.Consumer.Group.InstanceId = instance
	all.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	group, err := sarama.NewConsumerGroup([]string{bootstrap}, read, all)
	Must(err)
	running, stop := context.WithCancel(context.Background())
	m := &member{group: group, topic: read, owned: map[int32]bool{}, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		for running.Err() == nil {
			Must(group.Consume(running, []string{read}, m))
		}
	}()
	return m
}

// Setup notes what a new generation gave.
func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.assigned.Add(1)
	m.guard.Lock()
	defer m.guard.Unlock()
	for _, partition := range session.Claims()[m.topic] {
		m.owned[partition] = true
	}
	return nil
}

// Cleanup forgets it.
func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.guard.Lock()
	defer m.guard.Unlock()
	m.owned = map[int32]bool{}
	return nil
}

// ConsumeClaim reads a partition until the generation ends.
func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case one, open := <-claim.Messages():
			if !open {
				return nil
			}
			m.guard.Lock()
			m.values = append(m.values, string(one.Value))
			m.guard.Unlock()
			session.MarkMessage(one, "")
			session.Commit()
		case <-session.Context().Done():
			return nil
		}
	}
}

func (m *member) partitions() []int32 {
	m.guard.Lock()
	defer m.guard.Unlock()
	return slices.Collect(maps.Keys(m.owned))
}

func (m *member) all() []string {
	m.guard.Lock()
	defer m.guard.Unlock()
	return slices.Clone(m.values)
}

func (m *member) count() int { return len(m.all()) }

func (m *member) close() {
	m.stop()
	<-m.done
	Must(m.group.Close())
}
