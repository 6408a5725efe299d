// The scenario with franz-go: BOOTSTRAP PREFIX RECORDS; a line `ok STEP` for each step, or `failed STEP: why`.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	. "mpbroker/tests/clients"
)

type program struct {
	Words
	topic string
	admin *kadm.Client
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func main() {
	words := Read()
	client, err := kgo.NewClient(kgo.SeedBrokers(words.Bootstrap))
	Must(err)
	p := program{words, words.Prefix + "-topic", kadm.NewClient(client)}
	Step("topics", p.topics)
	for _, codec := range Codecs {
		Step("produce-"+codec, func() string { return p.produce(codec) })
	}
	Step("seek", p.seek)
	Step("eager", func() string { return p.group("eager", kgo.RangeBalancer(), Partitions) })
	Step("cooperative", func() string { return p.group("cooperative", kgo.CooperativeStickyBalancer(), Partitions/2) })
	Step("static", p.staticMember)
	Step("next", func() string { return p.group("next", kgo.StickyBalancer(), Partitions/2, kgo.ServerSideBalancer()) })
	Step("groups", p.groups)
	Step("settings", p.settings)
	Step("delete", p.remove)
	client.Close()
}

func ctx() context.Context {
	limited, _ := context.WithTimeout(context.Background(), 30*time.Second)
	return limited
}

func (p *program) create(topic string, partitions int32, settings map[string]*string) kadm.CreateTopicResponse {
	created, err := p.admin.CreateTopics(ctx(), partitions, -1, settings, topic)
	Must(err)
	Must(created[topic].Err)
	return created[topic]
}

func (p *program) topics() string {
	created := p.create(p.topic, 2, map[string]*string{"retention.ms": kadm.StringPtr("7200000"), "segment.bytes": kadm.StringPtr("1000000")})
	Check(created.NumPartitions == 2 && *created.Configs["retention.ms"].Value == "7200000", "the answer tells what was made")
	grown, err := p.admin.UpdatePartitions(ctx(), Partitions, p.topic)
	Must(err)
	Must(grown[p.topic].Err)
	listed, err := p.admin.ListTopics(ctx(), p.topic)
	Must(err)
	Check(len(listed[p.topic].Partitions) == Partitions && listed[p.topic].ID == created.ID, "partitions %v", listed[p.topic])
	shown := p.setting("segment.bytes")
	Check(shown.MaybeValue() == "1000000" && shown.Source.String() == "DYNAMIC_TOPIC_CONFIG", "shown %v", shown)
	return p.topic
}

func (p *program) setting(name string) kadm.Config {
	found, err := p.admin.DescribeTopicConfigs(ctx(), p.topic)
	Must(err)
	for _, one := range found[0].Configs {
		if one.Key == name {
			return one
		}
	}
	panic("no setting " + name)
}

func (p *program) produce(codec string) string {
	client, err := kgo.NewClient(kgo.SeedBrokers(p.Bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[codec]), kgo.ProducerLinger(2*time.Millisecond))
	Must(err)
	defer client.Close()
	var records []*kgo.Record
	for number := range p.Records {
		records = append(records, &kgo.Record{
			Topic: p.topic, Partition: int32(number % Partitions), Timestamp: time.UnixMilli(p.Begun + int64(number)),
			Key: fmt.Appendf(nil, "k%d", number), Value: fmt.Appendf(nil, "%s-%d", codec, number),
			Headers: []kgo.RecordHeader{{Key: "codec", Value: []byte(codec)}},
		})
	}
	last := map[int32]int64{}
	for _, told := range client.ProduceSync(ctx(), records...) {
		Must(told.Err)
		before, known := last[told.Record.Partition]
		Check(!known || told.Record.Offset == before+1, "offsets follow each other")
		last[told.Record.Partition] = told.Record.Offset
	}
	return fmt.Sprintf("%d records", len(records))
}

func (p *program) seek() string {
	from := map[int32]kgo.Offset{}
	for number := range int32(Partitions) {
		from[number] = kgo.NewOffset().AtStart()
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(p.Bootstrap), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{p.topic: from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(200*time.Millisecond))
	Must(err)
	defer client.Close()
	values := map[string]bool{}
	seen := 0
	for end := time.Now().Add(30 * time.Second); seen < len(Codecs)*p.Records; {
		Check(time.Now().Before(end), "%d records were read", seen)
		client.PollFetches(ctx()).EachRecord(func(one *kgo.Record) {
			Check(string(one.Headers[0].Value) == string(one.Value[:len(one.Headers[0].Value)]), "header")
			values[string(one.Value)] = true
			seen++
		})
	}
	Check(len(values) == len(Codecs)*p.Records, "every record once")
	client.PurgeTopicsFromConsuming(p.topic)
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{p.topic: {0: kgo.NewOffset().At(7)}})
	found := client.PollFetches(ctx()).Records()
	Check(len(found) > 0 && found[0].Offset == 7, "reading goes on at offset 7")
	ends, err := p.admin.ListEndOffsets(ctx(), p.topic)
	Must(err)
	Check(ends[p.topic][0].Offset == int64(len(Codecs)*p.Records/Partitions), "end %d", ends[p.topic][0].Offset)
	times, err := p.admin.ListOffsetsAfterMilli(ctx(), p.Begun+2*Partitions, p.topic)
	Must(err)
	Check(times[p.topic][0].Offset == 2, "the record of a time: %d", times[p.topic][0].Offset)
	return fmt.Sprintf("%d records", seen)
}

func (p *program) fill(topic string, part int) {
	client, err := kgo.NewClient(kgo.SeedBrokers(p.Bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	Must(err)
	defer client.Close()
	var records []*kgo.Record
	for number := range p.Records {
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(number % Partitions), Value: fmt.Appendf(nil, "%d-%d", part, number)})
	}
	Must(client.ProduceSync(ctx(), records...).FirstErr())
}

func (p *program) group(name string, balancer kgo.GroupBalancer, moved int, more ...kgo.Opt) string {
	more = append(more, kgo.Balancers(balancer))
	read := p.Prefix + "-" + name
	p.create(read, Partitions, nil)
	first := join(p.Bootstrap, read, more...)
	Await("the first member owns all", func() bool { return Shared(first.partitions()) })
	p.fill(read, 0)
	Await("the first part", func() bool { return first.count() >= p.Records })
	before := first.revoked.Load()
	second := join(p.Bootstrap, read, more...)
	Await("two members share", func() bool { return Shared(first.partitions(), second.partitions()) })
	Check(int(first.revoked.Load()-before) == moved, "%d partitions revoked", first.revoked.Load()-before)
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
	committed, err := p.admin.FetchOffsets(ctx(), read)
	Must(err)
	sum := int64(0)
	committed.Each(func(one kadm.OffsetResponse) { sum += one.At })
	Check(sum == int64(3*p.Records), "committed: %d", sum)
	return fmt.Sprintf("%d partitions revoked", moved)
}

func (p *program) staticMember() string {
	read := p.Prefix + "-static"
	p.create(read, Partitions, nil)
	stays, leaves := join(p.Bootstrap, read, kgo.InstanceID("one")), join(p.Bootstrap, read, kgo.InstanceID("two"))
	Await("two static members share", func() bool { return Shared(stays.partitions(), leaves.partitions()) })
	owned, before := len(leaves.partitions()), stays.assigned.Load()
	leaves.close()
	again := join(p.Bootstrap, read, kgo.InstanceID("two"))
	Await("it has its partitions again", func() bool { return len(again.partitions()) == owned })
	p.fill(read, 0)
	Await("all is read", func() bool { return stays.count()+again.count() >= p.Records })
	Check(stays.assigned.Load() == before, "nobody else noticed")
	stays.close()
	again.close()
	left, err := p.admin.LeaveGroup(ctx(), kadm.LeaveGroup(read).InstanceIDs("one", "two"))
	Must(err)
	Must(left.Error())
	return fmt.Sprintf("%d partitions", owned)
}

func (p *program) groups() string {
	read := p.Prefix + "-eager"
	listed, err := p.admin.ListGroups(ctx())
	Must(err)
	_, there := listed[read]
	Check(there, "listed: %v", listed.Groups())
	described, err := p.admin.DescribeGroups(ctx(), read)
	Must(err)
	Check(described[read].State == "Empty", "it is %s", described[read].State)
	var offsets kadm.Offsets
	offsets.AddOffset(read, 1, 3, -1)
	_, err = p.admin.CommitOffsets(ctx(), read, offsets)
	Must(err)
	now, err := p.admin.FetchOffsets(ctx(), read)
	Must(err)
	Check(now[read][1].At == 3, "altered: %v", now)
	var gone kadm.TopicsSet
	gone.Add(read, 1)
	_, err = p.admin.DeleteOffsets(ctx(), read, gone)
	Must(err)
	now, err = p.admin.FetchOffsets(ctx(), read)
	Must(err)
	_, there = now[read][1]
	Check(!there && len(now[read]) == Partitions-1, "its offset is deleted: %v", now)
	deleted, err := p.admin.DeleteGroups(ctx(), read, p.Prefix+"-static")
	Must(err)
	Must(deleted.Error())
	listed, err = p.admin.ListGroups(ctx())
	Must(err)
	_, there = listed[read]
	Check(!there, "listed: %v", listed.Groups())
	return fmt.Sprintf("%d groups left", len(listed))
}

func (p *program) settings() string {
	changed, err := p.admin.AlterTopicConfigs(ctx(), []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "max.message.bytes", Value: kadm.StringPtr("2000000")}, {Op: kadm.DeleteConfig, Name: "retention.ms"},
	}, p.topic)
	Must(err)
	Must(changed[0].Err)
	shown := p.setting("max.message.bytes")
	Check(shown.MaybeValue() == "2000000", "a setting was changed")
	Check(p.setting("retention.ms").Source.String() == "DEFAULT_CONFIG", "another one is the default again")
	return "changed"
}

func (p *program) remove() string {
	deleted, err := p.admin.DeleteTopics(ctx(), p.topic, p.Prefix+"-static", p.Prefix+"-eager")
	Must(err)
	Must(deleted.Error())
	left, err := p.admin.ListTopics(ctx())
	Must(err)
	Check(!left.Has(p.topic), "it is gone")
	return fmt.Sprintf("%d topics left", len(left))
}
