import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copies SOURCE to TARGET, records and offsets in one transaction: BOOTSTRAP SOURCE TARGET SEED PROTOCOL, until its input is
 * closed. A copy is `partition offset attempt`; a line `committed ATTEMPT`, `aborted ATTEMPT` or `unknown ATTEMPT` tells what
 * came of each transaction, `done` that nothing is under way any more.
 */
public final class Chain {
  private static final Duration CALL = Duration.ofSeconds(20);
  private static volatile boolean stopping;
  private final String[] words;
  private final Random random;
  private int attempts;

  private Chain(String[] words) {
    this.words = words;
    this.random = new Random(Long.parseLong(words[3]));
  }

  public static void main(String[] words) throws Exception {
    Thread watcher = new Thread(Chain::awaitEnd);
    watcher.setDaemon(true);
    watcher.start();
    Chain chain = new Chain(words);
    while (!stopping) {
      try {
        chain.work();
      } catch (KafkaException | IllegalStateException error) {
        say("error " + error.toString().replace('\n', ' '));
        Thread.sleep(50);
      }
    }
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

  private static void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  private Properties settings(Map<String, String> more) {
    Properties all = new Properties();
    all.putAll(Map.of("bootstrap.servers", words[0], "reconnect.backoff.max.ms", "200", "retry.backoff.max.ms", "200"));
    all.putAll(more);
    return all;
  }

  /** One producer, until it is of no use any more. */
  private void work() {
    // A call that waits when its producer is fenced is not woken: it waits for max.block.ms, a minute if unset.
    Map<String, String> producing = Map.of(
        "transactional.id", words[2] + "-tx", "transaction.timeout.ms", "5000", "max.block.ms", "20000");
    Map<String, String> consuming = new HashMap<>(Map.of(
        "group.id", words[2] + "-group", "auto.offset.reset", "earliest", "enable.auto.commit", "false",
        "isolation.level", "read_committed", "max.poll.records", "50", "group.protocol", words[4]));
    if (words[4].equals("classic")) consuming.putAll(Map.of("session.timeout.ms", "6000", "heartbeat.interval.ms", "500"));
    try (var producer = new KafkaProducer<>(settings(producing), new StringSerializer(), new StringSerializer());
        var consumer = new KafkaConsumer<>(settings(consuming), new StringDeserializer(), new StringDeserializer())) {
      again(producer::initTransactions);
      consumer.subscribe(List.of(words[1]));
      while (!stopping) {
        var records = consumer.poll(Duration.ofMillis(200));
        if (!records.isEmpty()) copy(producer, consumer, records);
      }
    }
  }

  private void copy(
      KafkaProducer<String, String> producer, KafkaConsumer<String, String> consumer, ConsumerRecords<String, String> records) {
    String attempt = words[3] + "-" + attempts++;
    producer.beginTransaction();
    try {
      for (var one : records) {
        String value = one.partition() + " " + one.offset() + " " + attempt;
        producer.send(new ProducerRecord<>(words[2], (int) (one.offset() % 2), null, value));
      }
      Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
      for (TopicPartition each : records.partitions()) {
        var those = records.records(each);
        next.put(each, new OffsetAndMetadata(those.get(those.size() - 1).offset() + 1));
      }
      again(() -> producer.sendOffsetsToTransaction(next, consumer.groupMetadata()));
      if (random.nextInt(10) == 0) throw new Whim();
      again(producer::commitTransaction);
      say("committed " + attempt);
    } catch (ProducerFencedException | OutOfOrderSequenceException | AuthorizationException | InvalidProducerEpochException
        | UnsupportedVersionException | TimeoutException | IllegalStateException fatal) {
      say("unknown " + attempt);
      throw fatal;
    } catch (KafkaException abortable) {
      abort(producer, attempt);
      rewind(consumer);
    }
  }

  private void abort(KafkaProducer<String, String> producer, String attempt) {
    try {
      again(producer::abortTransaction);
      say("aborted " + attempt);
    } catch (KafkaException fatal) {
      say("unknown " + attempt);
      throw fatal;
    }
  }

  /** Calls that run out of time may be repeated. */
  private static void again(Runnable call) {
    for (int left = 5; ; left--) {
      try {
        call.run();
        return;
      } catch (TimeoutException late) {
        if (left == 0) throw late;
      }
    }
  }

  private static void rewind(KafkaConsumer<String, String> consumer) {
    Set<TopicPartition> mine = consumer.assignment();
    var committed = consumer.committed(mine, CALL);
    for (TopicPartition each : mine) {
      OffsetAndMetadata one = committed.get(each);
      consumer.seek(each, one == null ? 0 : one.offset());
    }
  }

  private static final class Whim extends KafkaException {}
}
