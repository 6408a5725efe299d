package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	. "mpbroker/tests/clients"
)

// member of a group: it polls, commits what it was given, and notes what it owned.
type member struct {
	client            *kgo.Client
	guard             sync.Mutex
	owned             map[int32]bool
	values            []string
	assigned, revoked atomic.Int32
	stop              context.CancelFunc
	done              chan struct{}
}

func join(bootstrap, read string, more ...kgo.Opt) *member {
	m := &member{owned: map[int32]bool{}, done: make(chan struct{})}
	running, stop := context.WithCancel(context.Background())
	m.stop = stop
	options := append([]kgo.Opt{
		kgo.SeedBrokers(bootstrap), kgo.ConsumerGroup(read), kgo.ConsumeTopics(read), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.FetchMaxWait(100 * time.Millisecond), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
			m.assigned.Add(1)
			m.change(given[read], true)
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, taken map[string][]int32) {
			m.revoked.Add(int32(len(taken[read])))
			m.change(taken[read], false)
		}),
	}, more...)
	client, err := kgo.NewClient(options...)
	Must(err)
	m.client = client
	go m.run(running)
	return m
}

func (m *member) run(running context.Context) {
	defer close(m.done)
	for running.Err() == nil {
		polled, cancel := context.WithTimeout(running, 100*time.Millisecond)
		records := m.client.PollFetches(polled).Records()
		cancel()
		m.guard.Lock()
		for _, one := range records {
			m.values = append(m.values, string(one.Value))
		}
		m.guard.Unlock()
		if len(records) > 0 {
			Must(m.client.CommitRecords(ctx(), records...))
		}
		m.client.AllowRebalance()
	}
}

func (m *member) change(partitions []int32, owned bool) {
	m.guard.Lock()
	defer m.guard.Unlock()
	for _, one := range partitions {
		if owned {
			m.owned[one] = true
		} else {
			delete(m.owned, one)
		}
	}
}

func (m *member) partitions() (found []int32) {
	m.guard.Lock()
	defer m.guard.Unlock()
	for one := range m.owned {
		found = append(found, one)
	}
	return found
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
	m.client.Close()
}
