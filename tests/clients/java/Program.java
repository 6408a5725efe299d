import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The scenario with Kafka's Java client: BOOTSTRAP PREFIX RECORDS; a line `ok STEP` for each step, or `failed STEP: why`. */
public final class Program {
  private static final int PARTITIONS = 4;
  private static final String EAGER = "org.apache.kafka.clients.consumer.RangeAssignor";
  private static final String COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor";
  /** Not an assignor: the broker assigns, in the protocol of KIP-848. */
  private static final String NEXT = "consumer";
  private final String bootstrap;
  private final String prefix;
  private final String topic;
  private final int records;
  private final Admin admin;
  private final long begun = System.currentTimeMillis();

  private Program(String bootstrap, String prefix, int records) {
    this.bootstrap = bootstrap;
    this.prefix = prefix;
    this.records = records;
    this.topic = prefix + "-topic";
    this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
  }

  public static void main(String[] words) throws Exception {
    Program program = new Program(words[0], words[1], Integer.parseInt(words[2]));
    step("topics", program::topics);
    for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) step("produce-" + codec, () -> program.produce(codec));
    step("seek", program::seek);
    step("eager", () -> program.group("eager", EAGER));
    step("cooperative", () -> program.group("cooperative", COOPERATIVE));
    step("static", program::staticMember);
    if (words[1].equals("java-4")) step("next", () -> program.group("next", NEXT));
    step("groups", program::groups);
    step("settings", program::settings);
    step("delete", program::delete);
    program.admin.close();
  }

  private static void step(String name, Callable<String> what) {
    long begun = System.nanoTime();
    try {
      String told = what.call();
      System.out.println("ok " + name + " " + told + " (" + (System.nanoTime() - begun) / 1_000_000 + " ms)");
    } catch (Throwable error) {
      System.out.println("failed " + name + ": " + error);
      error.printStackTrace();
      System.exit(1);
    }
  }

  private static void check(boolean holds, String sentence) {
    if (!holds) throw new IllegalStateException(sentence);
  }

  private static void await(BooleanSupplier condition, String what) throws InterruptedException {
    long deadline = System.nanoTime() + 30_000_000_000L;
    while (!condition.getAsBoolean()) {
      check(System.nanoTime() < deadline, "waited 30 s for " + what);
      Thread.sleep(10);
    }
  }

  private String topics() throws Exception {
    NewTopic asked = new NewTopic(topic, 2, (short) -1).configs(Map.of("retention.ms", "7200000", "segment.bytes", "1000000"));
    var created = admin.createTopics(List.of(asked));
    created.all().get();
    check(created.numPartitions(topic).get() == 2, "the answer to the creation names 2 partitions");
    var config = created.config(topic).get().get("retention.ms");
    check("7200000".equals(config.value()), "and its settings");
    admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(PARTITIONS))).all().get();
    await(() -> describe().partitions().size() == PARTITIONS, "partitions to be added");
    var described = describe();
    check(described.topicId().equals(created.topicId(topic).get()), "the id is the one that was given");
    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    var shown = admin.describeConfigs(List.of(resource)).all().get().get(resource).get("segment.bytes");
    check(shown.value().equals("1000000") && shown.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, "" + shown);
    check(admin.listTopics().names().get().contains(topic), "the topic is listed");
    check(admin.describeCluster().nodes().get().size() == 1, "one node");
    return topic;
  }

  private TopicDescription describe() {
    try {
      return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    } catch (InterruptedException | ExecutionException error) {
      throw new IllegalStateException(error);
    }
  }

  private String produce(String codec) throws Exception {
    Properties all = new Properties();
    all.putAll(Map.of("bootstrap.servers", bootstrap, "acks", "all", "enable.idempotence", "true", "compression.type", codec,
        "linger.ms", "2"));
    List<Future<RecordMetadata>> sent = new ArrayList<>();
    try (var producer = new KafkaProducer<>(all, new StringSerializer(), new StringSerializer())) {
      for (int number = 0; number < records; number++) {
        var record = new ProducerRecord<>(topic, number % PARTITIONS, begun + number, "k" + number, codec + "-" + number);
        record.headers().add("codec", codec.getBytes(StandardCharsets.UTF_8));
        sent.add(producer.send(record));
      }
      producer.flush();
    }
    Map<Integer, Long> last = new HashMap<>();
    for (var future : sent) {
      RecordMetadata told = future.get();
      Long before = last.put(told.partition(), told.offset());
      check(before == null || told.offset() == before + 1, "offsets follow each other: " + before + " " + told.offset());
    }
    return sent.size() + " records";
  }

  private List<TopicPartition> partitions() {
    List<TopicPartition> all = new ArrayList<>();
    for (int number = 0; number < PARTITIONS; number++) all.add(new TopicPartition(topic, number));
    return all;
  }

  private String seek() throws Exception {
    Properties all = GroupMember.settings(bootstrap, prefix + "-seek", Map.of("isolation.level", "read_uncommitted"));
    try (var consumer = new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer())) {
      consumer.assign(partitions());
      Set<String> values = new java.util.HashSet<>();
      int seen = 0;
      for (long end = System.nanoTime() + 30_000_000_000L; seen < 5 * records; ) {
        check(System.nanoTime() < end, seen + " of " + 5 * records + " were read");
        for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(200))) {
          check(one.value().startsWith(new String(one.headers().lastHeader("codec").value(), StandardCharsets.UTF_8)), "header");
          values.add(one.value());
          seen++;
        }
      }
      check(values.size() == 5 * records, "every record once");
      TopicPartition first = new TopicPartition(topic, 0);
      consumer.assign(List.of(first));
      consumer.seek(first, 7);
      var found = consumer.poll(Duration.ofSeconds(10)).records(first);
      check(found.get(0).offset() == 7, "reading goes on at offset 7");
      long at = consumer.offsetsForTimes(Map.of(first, begun + 2 * PARTITIONS)).get(first).offset();
      check(at == 2, "the record of a time: " + at);
      consumer.seekToEnd(List.of(first));
      check(consumer.position(first) == consumer.endOffsets(List.of(first)).get(first), "the end");
      consumer.seekToBeginning(List.of(first));
      check(consumer.position(first) == 0, "the beginning");
      return seen + " records";
    }
  }

  private static boolean share(Collection<GroupMember> members) {
    int sum = 0;
    Set<TopicPartition> all = new java.util.HashSet<>();
    for (GroupMember one : members) {
      if (one.owned.isEmpty()) return false;
      sum += one.owned.size();
      all.addAll(one.owned);
    }
    return sum == PARTITIONS && all.size() == PARTITIONS;
  }

  private String group(String name, String assignor) throws Exception {
    String read = prefix + "-" + name;
    admin.createTopics(List.of(new NewTopic(read, PARTITIONS, (short) -1))).all().get();
    Properties settings =
        assignor == NEXT
            ? GroupMember.nextSettings(bootstrap, read)
            : GroupMember.settings(bootstrap, read, Map.of("partition.assignment.strategy", assignor));
    GroupMember first = new GroupMember(settings, read);
    await(() -> share(List.of(first)), "the first member owns all");
    fill(read, 0);
    await(() -> first.values.size() >= records, "the first part");
    int before = first.revoked.get();
    GroupMember second = new GroupMember(settings, read);
    await(() -> share(List.of(first, second)), "two members share");
    int moved = first.revoked.get() - before;
    check(moved == (assignor == EAGER ? PARTITIONS : PARTITIONS / 2), name + " revoked " + moved);
    fill(read, 1);
    await(() -> first.values.size() + second.values.size() >= 2 * records, "the second part");
    second.close();
    await(() -> share(List.of(first)), "the first member owns all again");
    fill(read, 2);
    await(() -> first.values.size() + second.values.size() >= 3 * records, "the third part");
    first.close();
    List<String> all = new ArrayList<>(first.values);
    all.addAll(second.values);
    check(all.size() == 3 * records && Set.copyOf(all).size() == 3 * records, "every record once, not " + all.size());
    var committed = admin.listConsumerGroupOffsets(read).partitionsToOffsetAndMetadata().get();
    check(committed.values().stream().mapToLong(one -> one.offset()).sum() == 3L * records, "committed: " + committed);
    return moved + " partitions revoked";
  }

  private void fill(String into, int part) throws Exception {
    Properties all = new Properties();
    all.putAll(Map.of("bootstrap.servers", bootstrap, "compression.type", "lz4", "linger.ms", "2"));
    List<Future<RecordMetadata>> sent = new ArrayList<>();
    try (var producer = new KafkaProducer<>(all, new StringSerializer(), new StringSerializer())) {
      for (int number = 0; number < records; number++)
        sent.add(producer.send(new ProducerRecord<>(into, number % PARTITIONS, null, part + "-" + number)));
    }
    for (var one : sent) one.get();
  }

  private String staticMember() throws Exception {
    String read = prefix + "-static";
    admin.createTopics(List.of(new NewTopic(read, PARTITIONS, (short) -1))).all().get();
    GroupMember stays = new GroupMember(GroupMember.settings(bootstrap, read, Map.of("group.instance.id", "one")), read);
    Properties other = GroupMember.settings(bootstrap, read, Map.of("group.instance.id", "two"));
    GroupMember leaves = new GroupMember(other, read);
    await(() -> share(List.of(stays, leaves)), "two static members share");
    Set<TopicPartition> owned = Set.copyOf(leaves.owned);
    int before = stays.assigned.get();
    leaves.close();
    GroupMember again = new GroupMember(other, read);
    await(() -> again.owned.equals(owned), "it has its partitions again");
    fill(read, 0);
    await(() -> stays.values.size() + again.values.size() >= records, "all is read");
    check(stays.assigned.get() == before, "nobody else noticed");
    stays.close();
    again.close();
    admin.removeMembersFromConsumerGroup(read, new org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions()).all().get();
    check(admin.describeConsumerGroups(List.of(read)).all().get().get(read).members().isEmpty(), "both were removed");
    return owned.size() + " partitions";
  }

  private String groups() throws Exception {
    String read = prefix + "-eager";
    Set<String> listed = admin.listConsumerGroups().all().get().stream().map(one -> one.groupId()).collect(Collectors.toSet());
    check(listed.containsAll(Set.of(read, prefix + "-cooperative", prefix + "-static")), "listed: " + listed);
    check(admin.describeConsumerGroups(List.of(read)).all().get().get(read).state().toString().equals("Empty"), "it is empty");
    TopicPartition one = new TopicPartition(read, 1);
    admin.alterConsumerGroupOffsets(read, Map.of(one, new org.apache.kafka.clients.consumer.OffsetAndMetadata(3, "m"))).all().get();
    var now = admin.listConsumerGroupOffsets(read).partitionsToOffsetAndMetadata().get();
    check(now.get(one).offset() == 3 && now.get(one).metadata().equals("m"), "altered: " + now);
    admin.deleteConsumerGroupOffsets(read, Set.of(one)).all().get();
    check(!admin.listConsumerGroupOffsets(read).partitionsToOffsetAndMetadata().get().containsKey(one), "its offset is deleted");
    admin.deleteConsumerGroups(List.of(read, prefix + "-static")).all().get();
    listed = admin.listConsumerGroups().all().get().stream().map(each -> each.groupId()).collect(Collectors.toSet());
    check(!listed.contains(read) && listed.contains(prefix + "-cooperative"), "listed: " + listed);
    return listed.size() + " groups left";
  }

  private String settings() throws Exception {
    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    var set = new AlterConfigOp(new ConfigEntry("max.message.bytes", "2000000"), AlterConfigOp.OpType.SET);
    var unset = new AlterConfigOp(new ConfigEntry("retention.ms", ""), AlterConfigOp.OpType.DELETE);
    admin.incrementalAlterConfigs(Map.of(resource, List.of(set, unset))).all().get();
    var shown = admin.describeConfigs(List.of(resource)).all().get().get(resource);
    check(shown.get("max.message.bytes").value().equals("2000000"), "a setting was changed");
    check(shown.get("retention.ms").isDefault(), "another one is the default again");
    var ends = admin.listOffsets(Map.of(new TopicPartition(topic, 0), OffsetSpec.latest())).all().get();
    return "end " + ends.get(new TopicPartition(topic, 0)).offset();
  }

  private String delete() throws Exception {
    List<String> mine = List.of(topic, prefix + "-static", prefix + "-eager");
    admin.deleteTopics(mine).all().get();
    Set<String> left = admin.listTopics().names().get();
    for (String one : mine) check(!left.contains(one), one + " is gone");
    return left.size() + " topics left";
  }
}
