import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A member of a group in a thread of its own: it polls, commits what it was given, and notes what it owned. */
final class GroupMember implements ConsumerRebalanceListener {
  final Set<TopicPartition> owned = ConcurrentHashMap.newKeySet();
  final ConcurrentLinkedQueue<String> values = new ConcurrentLinkedQueue<>();
  final AtomicInteger assigned = new AtomicInteger();
  final AtomicInteger revoked = new AtomicInteger();
  private final KafkaConsumer<String, String> consumer;
  private final Thread thread;
  private volatile boolean stopping;
  private volatile RuntimeException failure;

  GroupMember(Properties settings, String topic) {
    consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    consumer.subscribe(List.of(topic), this);
    thread = new Thread(this::run);
    thread.start();
  }

  private void run() {
    try {
      while (!stopping) {
        var records = consumer.poll(Duration.ofMillis(100));
        for (ConsumerRecord<String, String> one : records) values.add(one.value());
        if (!records.isEmpty()) consumer.commitSync();
      }
    } catch (RuntimeException error) {
      failure = error;
    } finally {
      consumer.close();
    }
  }

  @Override
  public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
    assigned.incrementAndGet();
    owned.addAll(partitions);
  }

  @Override
  public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
    revoked.addAndGet(partitions.size());
    owned.removeAll(partitions);
  }

  void close() throws InterruptedException {
    stopping = true;
    thread.join(20_000);
    if (thread.isAlive()) throw new IllegalStateException("a member does not end");
    if (failure != null) throw failure;
  }

  static Properties settings(String bootstrap, String group, Map<String, String> more) {
    Properties all = new Properties();
    all.putAll(Map.of(
        "bootstrap.servers", bootstrap, "group.id", group, "auto.offset.reset", "earliest",
        "enable.auto.commit", "false", "session.timeout.ms", "6000", "heartbeat.interval.ms", "200",
        "isolation.level", "read_committed"));
    all.putAll(more);
    return all;
  }

  /** Of the protocol of KIP-848, in which the broker says how often to beat. */
  static Properties nextSettings(String bootstrap, String group) {
    Properties all = settings(bootstrap, group, Map.of("group.protocol", "consumer"));
    all.remove("session.timeout.ms");
    all.remove("heartbeat.interval.ms");
    return all;
  }
}
