// Copies SOURCE to TARGET with franz-go, records and offsets in one transaction: BOOTSTRAP SOURCE TARGET SEED, until its
// input is closed. A copy is `partition offset attempt`; a line `committed ATTEMPT`, `aborted ATTEMPT` or `unknown ATTEMPT`
// tells what came of each transaction, `done` that nothing is under way any more.
package main

import (
	"context"
	"fmt"
	"io"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	. "mpbroker/tests/clients"
)

type chain struct {
	bootstrap, source, target, seed string
	random                          *rand.Rand
	attempts                        int
}

func main() {
	number, err := strconv.ParseInt(os.Args[4], 10, 64)
	Must(err)
	c := chain{os.Args[1], os.Args[2], os.Args[3], os.Args[4], rand.New(rand.NewSource(number)), 0}
	running, stop := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	for running.Err() == nil {
		if err := c.work(running); err != nil {
			fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
			time.Sleep(50 * time.Millisecond)
		}
	}
	fmt.Println("done")
}

// work is one session, until it is of no use any more.
func (c *chain) work(running context.Context) error {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(c.bootstrap, ",")...), kgo.TransactionalID(c.target+"-tx"),
		kgo.TransactionTimeout(5*time.Second),
		kgo.ConsumerGroup(c.target+"-group"), kgo.ConsumeTopics(c.source), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(500*time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(20*time.Second),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	for running.Err() == nil {
		polled, cancel := context.WithTimeout(running, 200*time.Millisecond)
		fetched := session.PollRecords(polled, 50)
		cancel()
		if fetched.NumRecords() == 0 {
			continue
		}
		if err := c.copy(session, fetched); err != nil {
			return err
		}
	}
	return nil
}

func (c *chain) copy(session *kgo.GroupTransactSession, fetched kgo.Fetches) error {
	attempt := fmt.Sprintf("%s-%d", c.seed, c.attempts)
	c.attempts++
	if err := session.Begin(); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	failed := kgo.AbortingFirstErrPromise(session.Client())
	fetched.EachRecord(func(one *kgo.Record) {
		value := fmt.Appendf(nil, "%d %d %s", one.Partition, one.Offset, attempt)
		session.Produce(limited, &kgo.Record{Topic: c.target, Partition: int32(one.Offset % 2), Value: value}, failed.Promise())
	})
	wanted := kgo.TransactionEndTry(failed.Err() == nil && c.random.Intn(10) != 0)
	committed, err := session.End(limited, wanted)
	switch {
	case err != nil:
		fmt.Println("unknown", attempt)
	case committed:
		fmt.Println("committed", attempt)
	default:
		fmt.Println("aborted", attempt)
	}
	return err
}
