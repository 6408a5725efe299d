import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * An idempotent producer and a group's only member in a rack, through whatever happens to the brokers: BOOTSTRAP TOPIC RACK
 * PROTOCOL, until its input is closed; then it reads what is left. Lines: `acked PARTITION OFFSET NUMBER`, `failed NUMBER why`,
 * `read PARTITION OFFSET NUMBER`, `fetched NODE BYTES` of all so far, `done`.
 */
public final class Survivor {
  private static final int PARTITIONS = 3;
  private static volatile boolean stopping;
  private final String[] words;
  private final Set<String> missing = ConcurrentHashMap.newKeySet();
  private final Set<String> seen = ConcurrentHashMap.newKeySet();
  private volatile boolean produced;

  private Survivor(String[] words) {
    this.words = words;
  }

  public static void main(String[] words) throws Exception {
    Thread watcher = new Thread(Survivor::awaitEnd);
    watcher.setDaemon(true);
    watcher.start();
    Survivor survivor = new Survivor(words);
    Thread reader = new Thread(survivor::consume);
    reader.start();
    survivor.produce();
    reader.join();
    say("done");
    System.exit(0);
  }

  private static void awaitEnd() {
    try {
      while (System.in.read() >= 0) {}
    } catch (IOException ended) {
      // as good as its end
    }
    stopping = true;
  }

  private static synchronized void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  private void produce() throws InterruptedException {
    Properties all = new Properties();
    all.putAll(Map.of("bootstrap.servers", words[0], "acks", "all", "enable.idempotence", "true", "linger.ms", "2",
        "delivery.timeout.ms", "60000", "request.timeout.ms", "5000", "reconnect.backoff.max.ms", "200"));
    try (var producer = new KafkaProducer<>(all, new StringSerializer(), new StringSerializer())) {
      for (int next = 0; !stopping; next++) {
        String number = Integer.toString(next);
        missing.add(number);
        producer.send(new ProducerRecord<>(words[1], next % PARTITIONS, null, number), (told, error) -> {
          if (error == null) say("acked " + told.partition() + " " + told.offset() + " " + number);
          else say("failed " + number + " " + error);
          if (error != null || seen.contains(number)) missing.remove(number);
        });
        Thread.sleep(4);
      }
    }
    produced = true;
  }

  private void consume() {
    Map<String, String> settings = new HashMap<>(Map.of(
        "group.id", words[1] + "-group", "client.rack", words[2], "group.protocol", words[3],
        "enable.auto.commit", "false", "auto.offset.reset", "earliest", "isolation.level", "read_committed"));
    if (words[3].equals("classic")) settings.putAll(Map.of("session.timeout.ms", "6000", "heartbeat.interval.ms", "500"));
    Properties all = new Properties();
    all.putAll(Map.of("bootstrap.servers", words[0], "reconnect.backoff.max.ms", "200"));
    all.putAll(settings);
    try (var consumer = new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of(words[1]));
      for (long said = 0; !produced || !missing.isEmpty(); ) {
        var records = consumer.poll(Duration.ofMillis(100));
        for (ConsumerRecord<String, String> one : records) {
          say("read " + one.partition() + " " + one.offset() + " " + one.value());
          seen.add(one.value());
          missing.remove(one.value());
        }
        if (!records.isEmpty()) commit(consumer);
        if (System.nanoTime() - said > 200_000_000L) {
          said = System.nanoTime();
          sayFetched(consumer);
        }
      }
    } catch (RuntimeException error) {
      say("failed to read " + error);
      System.exit(1);
    }
  }

  /** What is in doubt is committed with what comes next. */
  private static void commit(KafkaConsumer<String, String> consumer) {
    try {
      consumer.commitSync(Duration.ofSeconds(20));
    } catch (CommitFailedException | RebalanceInProgressException | RetriableException later) {
      say("commit " + later.getClass().getSimpleName());
    }
  }

  private static void sayFetched(KafkaConsumer<String, String> consumer) {
    consumer.metrics().forEach((name, metric) -> {
      boolean bytes = name.group().equals("consumer-node-metrics") && name.name().equals("incoming-byte-total");
      String node = name.tags().getOrDefault("node-id", "").replace("node-", "");
      if (bytes && node.length() == 1) say("fetched " + node + " " + (long) (double) (Double) metric.metricValue());
    });
  }
}
