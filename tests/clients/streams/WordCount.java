import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the words of a topic with exactly_once_v2: BOOTSTRAP APPLICATION SOURCE TARGET DIRECTORY. Runs until it is ended; a
 * line `running` when it has its tasks. Counts are kept in memory and in a changelog topic, so whoever takes over reads that.
 */
public final class WordCount {
  public static void main(String[] words) throws Exception {
    StreamsBuilder builder = new StreamsBuilder();
    builder
        .<String, String>stream(words[2])
        .flatMapValues(line -> Arrays.asList(line.split(" ")))
        .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
        .count(
            Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String())
                .withValueSerde(Serdes.Long())
                .withCachingDisabled())
        .toStream()
        .mapValues(String::valueOf)
        .to(words[3], Produced.with(Serdes.String(), Serdes.String()));
    KafkaStreams streams = new KafkaStreams(builder.build(), settings(words));
    streams.setStateListener((now, before) -> System.out.println(now.toString().toLowerCase()));
    CountDownLatch ended = new CountDownLatch(1);
    Runtime.getRuntime()
        .addShutdownHook(
            new Thread(
                () -> {
                  streams.close(Duration.ofSeconds(10));
                  ended.countDown();
                }));
    streams.start();
    ended.await();
  }

  private static Properties settings(String[] words) {
    Properties settings = new Properties();
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, words[0]);
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, words[1]);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, Path.of(words[4]).toString());
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
    settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
    settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
    settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
    settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6000);
    settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 10_000);
    return settings;
  }
}
