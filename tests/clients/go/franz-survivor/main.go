// An idempotent producer and a group's only member in a rack with franz-go, through whatever happens to the brokers:
// BOOTSTRAP TOPIC RACK, until its input is closed; then it reads what is left. Lines: `acked PARTITION OFFSET NUMBER`,
// `failed NUMBER why`, `read PARTITION OFFSET NUMBER`, `fetched NODE BYTES` of all so far, `done`.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	. "mpbroker/tests/clients"
)

const partitions, fetchKey = 3, 1

type survivor struct {
	topic         string
	guard         sync.Mutex
	missing, seen map[string]bool
	fetched       map[int32]int
	produced      bool
}

func main() {
	bootstrap, rack := os.Args[1], os.Args[3]
	s := &survivor{topic: os.Args[2], missing: map[string]bool{}, seen: map[string]bool{}, fetched: map[int32]int{}}
	running, stop := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	producer, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(2*time.Millisecond), kgo.RecordDeliveryTimeout(time.Minute), kgo.ProduceRequestTimeout(5*time.Second))
	Must(err)
	consumer, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.ConsumerGroup(s.topic+"-group"),
		kgo.ConsumeTopics(s.topic), kgo.Rack(rack), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond), kgo.FetchMaxWait(200*time.Millisecond),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.WithHooks(s))
	Must(err)
	done := make(chan struct{})
	go s.consume(consumer, done)
	s.produce(running, producer)
	<-done
	producer.Close()
	consumer.Close()
	fmt.Println("done")
}

func (s *survivor) produce(running context.Context, client *kgo.Client) {
	for next := 0; running.Err() == nil; next++ {
		number := strconv.Itoa(next)
		s.locked(func() { s.missing[number] = true })
		record := &kgo.Record{Topic: s.topic, Partition: int32(next % partitions), Value: []byte(number)}
		client.Produce(context.Background(), record, func(told *kgo.Record, err error) {
			s.locked(func() {
				if err == nil {
					fmt.Println("acked", told.Partition, told.Offset, number)
				} else {
					fmt.Println("failed", number, err)
				}
				if err != nil || s.seen[number] {
					delete(s.missing, number)
				}
			})
		})
		time.Sleep(4 * time.Millisecond)
	}
	Must(client.Flush(context.Background()))
	s.locked(func() { s.produced = true })
}

func (s *survivor) consume(client *kgo.Client, done chan struct{}) {
	defer close(done)
	for said := time.Now(); !s.isDone(); {
		polled, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		records := client.PollFetches(polled).Records()
		cancel()
		s.locked(func() {
			for _, one := range records {
				fmt.Println("read", one.Partition, one.Offset, string(one.Value))
				s.seen[string(one.Value)] = true
				delete(s.missing, string(one.Value))
			}
		})
		if len(records) > 0 { // what is in doubt is committed with what comes next
			limited, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			if err := client.CommitRecords(limited, records...); err != nil {
				fmt.Println("commit", err)
			}
			cancel()
		}
		if time.Since(said) > 200*time.Millisecond {
			said = time.Now()
			s.locked(func() {
				for node, bytes := range s.fetched {
					fmt.Println("fetched", node, bytes)
				}
			})
		}
	}
}

func (s *survivor) isDone() (done bool) {
	s.locked(func() { done = s.produced && len(s.missing) == 0 })
	return done
}

// OnBrokerE2E is told of every answer.
func (s *survivor) OnBrokerE2E(broker kgo.BrokerMetadata, key int16, what kgo.BrokerE2E) {
	if key == fetchKey && what.ReadErr == nil {
		s.locked(func() { s.fetched[broker.NodeID] += what.BytesRead })
	}
}

func (s *survivor) locked(what func()) {
	s.guard.Lock()
	defer s.guard.Unlock()
	what()
}
