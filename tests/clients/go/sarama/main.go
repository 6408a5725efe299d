// The scenario with sarama: BOOTSTRAP PREFIX RECORDS; a line `ok STEP` for each step, or `failed STEP: why`.
package main

import (
	"fmt"
	"time"

	"github.com/IBM/sarama"

	. "mpbroker/tests/clients"
)

type program struct {
	Words
	topic string
	admin sarama.ClusterAdmin
}

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func main() {
	words := Read()
	admin, err := sarama.NewClusterAdmin([]string{words.Bootstrap}, settings())
	Must(err)
	p := program{words, words.Prefix + "-topic", admin}
	Step("topics", p.topics)
	for _, codec := range Codecs {
		Step("produce-"+codec, func() string { return p.produce(codec) })
	}
	Step("seek", p.seek)
	Step("eager", p.group)
	Step("static", p.staticMember)
	Step("groups", p.groups)
	Step("settings", p.settings)
	Step("delete", p.remove)
	Must(admin.Close())
}

func settings() *sarama.Config {
	all := sarama.NewConfig()
	all.Version = sarama.MaxVersion
	all.Producer.RequiredAcks = sarama.WaitForAll
	all.Producer.Idempotent = true
	all.Net.MaxOpenRequests = 1
	all.Producer.Return.Successes = true
	all.Producer.Partitioner = sarama.NewManualPartitioner
	all.Producer.Flush.Frequency = 2 * time.Millisecond
	all.Consumer.Offsets.Initial = sarama.OffsetOldest
	all.Consumer.Offsets.AutoCommit.Enable = false
	all.Consumer.MaxWaitTime = 100 * time.Millisecond
	all.Consumer.Group.Session.Timeout = 6 * time.Second
	all.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	all.Consumer.Group.Rebalance.Retry.Backoff = 50 * time.Millisecond
	all.Consumer.Group.Rebalance.Retry.Max = 100
	all.Metadata.Retry.Backoff = 50 * time.Millisecond
	all.Consumer.Retry.Backoff = 50 * time.Millisecond
	all.Consumer.IsolationLevel = sarama.ReadCommitted
	return all
}

func (p *program) create(topic string, partitions int32, entries map[string]*string) {
	Must(p.admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: -1, ConfigEntries: entries}, false))
}

func (p *program) topics() string {
	retention, segment := "7200000", "1000000"
	p.create(p.topic, 2, map[string]*string{"retention.ms": &retention, "segment.bytes": &segment})
	Must(p.admin.CreatePartitions(p.topic, Partitions, nil, false))
	Await("partitions to be added", func() bool {
		described, err := p.admin.DescribeTopics([]string{p.topic})
		Must(err)
		return len(described[0].Partitions) == Partitions
	})
	Check(p.setting("segment.bytes").Value == "1000000", "its setting")
	Check(p.setting("segment.bytes").Source == sarama.SourceTopic, "its source: %s", p.setting("segment.bytes").Source)
	return p.topic
}

func (p *program) setting(name string) sarama.ConfigEntry {
	found, err := p.admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: p.topic, ConfigNames: []string{name}})
	Must(err)
	Check(len(found) == 1, "one setting was asked for, not %d", len(found))
	return found[0]
}

func (p *program) send(topic, codec string, value func(int) string) {
	all := settings()
	all.Producer.Compression = codecs[codec]
	producer, err := sarama.NewSyncProducer([]string{p.Bootstrap}, all)
	Must(err)
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for number := range p.Records {
		messages = append(messages, &sarama.ProducerMessage{
			Topic: topic, Partition: int32(number % Partitions), Timestamp: time.UnixMilli(p.Begun + int64(number)),
			Key: sarama.StringEncoder(fmt.Sprintf("k%d", number)), Value: sarama.StringEncoder(value(number)),
			Headers: []sarama.RecordHeader{{Key: []byte("codec"), Value: []byte(codec)}},
		})
	}
	Must(producer.SendMessages(messages))
	last := map[int32]int64{}
	for _, one := range messages {
		before, known := last[one.Partition]
		Check(!known || one.Offset == before+1, "offsets follow each other")
		last[one.Partition] = one.Offset
	}
}

func (p *program) produce(codec string) string {
	p.send(p.topic, codec, func(number int) string { return fmt.Sprintf("%s-%d", codec, number) })
	return fmt.Sprintf("%d records", p.Records)
}

func (p *program) seek() string {
	client, err := sarama.NewClient([]string{p.Bootstrap}, settings())
	Must(err)
	defer client.Close()
	consumer, err := sarama.NewConsumerFromClient(client)
	Must(err)
	values := map[string]bool{}
	for number := range int32(Partitions) {
		end, err := client.GetOffset(p.topic, number, sarama.OffsetNewest)
		Must(err)
		Check(end == int64(len(Codecs)*p.Records/Partitions), "end %d", end)
		reader, err := consumer.ConsumePartition(p.topic, number, sarama.OffsetOldest)
		Must(err)
		for range end {
			one := next(reader)
			Check(string(one.Headers[0].Value) == string(one.Value[:len(one.Headers[0].Value)]), "header")
			values[string(one.Value)] = true
		}
		Must(reader.Close())
	}
	Check(len(values) == len(Codecs)*p.Records, "every record once")
	reader, err := consumer.ConsumePartition(p.topic, 0, 7)
	Must(err)
	Check(next(reader).Offset == 7, "reading goes on at offset 7")
	Must(reader.Close())
	at, err := client.GetOffset(p.topic, 0, p.Begun+2*Partitions)
	Must(err)
	Check(at == 2, "the record of a time: %d", at)
	return fmt.Sprintf("%d records", len(values))
}

func next(reader sarama.PartitionConsumer) *sarama.ConsumerMessage {
	select {
	case one := <-reader.Messages():
		return one
	case err := <-reader.Errors():
		panic(err)
	case <-time.After(30 * time.Second):
		panic("no record in 30 s")
	}
}

func (p *program) fill(topic string, part int) {
	p.send(topic, "lz4", func(number int) string { return fmt.Sprintf("%d-%d", part, number) })
}

func (p *program) group() string {
	read := p.Prefix + "-eager"
	p.create(read, Partitions, nil)
	first := join(p.Bootstrap, read, "")
	Await("the first member owns all", func() bool { return Shared(first.partitions()) })
	p.fill(read, 0)
	Await("the first part", func() bool { return first.count() >= p.Records })
	second := join(p.Bootstrap, read, "")
	Await("two members share", func() bool { return Shared(first.partitions(), second.partitions()) })
	p.fill(read, 1)
	Await("the second part", func() bool { return first.count()+second.count() >= 2*p.Records })
	second.close()
	Await("the first member owns all again", func() bool { return Shared(first.partitions()) })
	p.fill(read, 2)
	Await("the third part", func() bool { return first.count()+second.count() >= 3*p.Records })
	first.close()
	all := map[string]bool{}
	for _, one := range append(first.all(), second.all()...) {
		all[one] = true
	}
	Check(len(all) == 3*p.Records && first.count()+second.count() == 3*p.Records, "every record once, not %d", first.count()+second.count())
	sum := int64(0)
	for _, one := range p.committed(read) {
		sum += one.Offset
	}
	Check(sum == int64(3*p.Records), "committed: %d", sum)
	return fmt.Sprintf("%d records", len(all))
}

func (p *program) committed(group string) map[int32]*sarama.OffsetFetchResponseBlock {
	told, err := p.admin.ListConsumerGroupOffsets(group, nil)
	Must(err)
	Must(noError(told.Err))
	return told.Blocks[group]
}

func noError(code sarama.KError) error {
	if code == sarama.ErrNoError {
		return nil
	}
	return code
}

func (p *program) staticMember() string {
	read := p.Prefix + "-static"
	p.create(read, Partitions, nil)
	stays, leaves := join(p.Bootstrap, read, "one"), join(p.Bootstrap, read, "two")
	Await("two static members share", func() bool { return Shared(stays.partitions(), leaves.partitions()) })
	owned, before := len(leaves.partitions()), stays.assigned.Load()
	leaves.close()
	again := join(p.Bootstrap, read, "two")
	Await("it has its partitions again", func() bool { return len(again.partitions()) == owned })
	p.fill(read, 0)
	Await("all is read", func() bool { return stays.count()+again.count() >= p.Records })
	Check(stays.assigned.Load() == before, "nobody else noticed")
	stays.close()
	again.close()
	one, two := "one", "two"
	left, err := p.admin.RemoveMemberFromConsumerGroup(read, []string{one, two})
	Must(err)
	Must(noError(left.Err))
	for _, each := range left.Members {
		Must(noError(each.Err))
	}
	return fmt.Sprintf("%d partitions", owned)
}

func (p *program) groups() string {
	read := p.Prefix + "-eager"
	listed, err := p.admin.ListConsumerGroups()
	Must(err)
	Check(listed[read] == "consumer", "listed: %v", listed)
	described, err := p.admin.DescribeConsumerGroups([]string{read})
	Must(err)
	Check(described[0].State == "Empty", "it is %s", described[0].State)
	Must(p.admin.DeleteConsumerGroupOffset(read, read, 1))
	_, there := p.committed(read)[1]
	Check(!there, "its offset is deleted")
	Must(p.admin.DeleteConsumerGroup(read))
	Must(p.admin.DeleteConsumerGroup(p.Prefix + "-static"))
	listed, err = p.admin.ListConsumerGroups()
	Must(err)
	_, there = listed[read]
	Check(!there, "listed: %v", listed)
	return fmt.Sprintf("%d groups left", len(listed))
}

func (p *program) settings() string {
	size := "2000000"
	Must(p.admin.IncrementalAlterConfig(sarama.TopicResource, p.topic, map[string]sarama.IncrementalAlterConfigsEntry{
		"max.message.bytes": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &size},
		"retention.ms":      {Operation: sarama.IncrementalAlterConfigsOperationDelete},
	}, false))
	Check(p.setting("max.message.bytes").Value == size, "a setting was changed")
	Check(p.setting("retention.ms").Source == sarama.SourceDefault, "another one is the default again")
	return "changed"
}

func (p *program) remove() string {
	Must(p.admin.DeleteTopic(p.topic))
	Must(p.admin.DeleteTopic(p.Prefix + "-static"))
	Must(p.admin.DeleteTopic(p.Prefix + "-eager"))
	left, err := p.admin.ListTopics()
	Must(err)
	_, there := left[p.topic]
	Check(!there, "it is gone")
	return fmt.Sprintf("%d topics left", len(left))
}
